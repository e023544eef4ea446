// The page in a real browser: node page_test.mjs WEB_BUILD TEST_WORK [BINARY]. Against the mock
// server, and where the binary is built, against the real one with a body pushed into it. Prints
// "SKIPPED: why" when it cannot run.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [webBuild, testWork, binary] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const dist = join(webBuild, 'dist');
const { startMock } = await import(pathToFileURL(join(here, '../../web/dev/mock.mjs')));
const { schemaOf, unlike } = await import(pathToFileURL(join(here, '../../web/dev/contract.mjs')));

const kBrowsers = [
  process.env.FLOPWATCH_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];
const executablePath = kBrowsers.find((path) => path && existsSync(path));
if (!executablePath) {
  console.log('SKIPPED: no chromium found (set FLOPWATCH_CHROMIUM to one)');
  process.exit(0);
}
const { chromium } = createRequire(join(testWork, 'package.json'))('playwright-core');

let failures = 0;
let passed = 0;
async function test(name, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
  }
}

// --- parts of the page that need no browser, bundled as the page is ---

const { build } = createRequire(join(webBuild, 'package.json'))('esbuild');
async function load(file) {
  const out = await build({
    entryPoints: [join(webBuild, 'src', file)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'neutral',
  });
  return import(
    `data:text/javascript;base64,${Buffer.from(out.outputFiles[0].text).toString('base64')}`
  );
}

await test('numbers as a person reads them', async () => {
  const f = await load('format.ts');
  const plain = (text) => text.replace(/\u202f/g, ' ');
  assert.equal(plain(f.percent(0.31249)), '31.2 %');
  assert.equal(f.percent(null), '–');
  assert.equal(plain(f.percent(0)), '0.0 %'); // zero is a value
  assert.equal(f.gpuHours(3600 * 1204.4), '1,204');
  assert.equal(f.gpuHours(3600 * 38.25), '38.3');
  assert.equal(f.gpuHours(1476), '0.41');
  assert.equal(f.gpuHours(0), '0');
  assert.equal(f.gpuHours(null), '–');
  assert.equal(plain(f.duration(4)), '4 s');
  assert.equal(plain(f.duration(3 * 3600 + 12 * 60 + 5)), '3 h 12 min');
  assert.equal(plain(f.duration(5 * 86400 + 2 * 3600)), '5 d 2 h');
  assert.equal(plain(f.energy(91.2 * 3.6e6)), '91.2 kWh');
  assert.equal(plain(f.bytes(21000)), '20.5 KiB');
  assert.equal(f.signed(-49.6 * 3600, f.gpuHours), '−49.6');
  assert.equal(f.signed(120 * 3600, f.gpuHours), '+120');
  assert.equal(f.signed(-0.0001, f.percentNumber), '0.0');
  assert.equal(f.moment('not a time'), '–');
  assert.equal(f.shortUuid('GPU-6f1c2b00-0002-4000-8000-000000001000'), '6f1c2b00');
  assert.equal(f.shortUuid('node7/gpu3'), 'node7/gpu3');
});

await test('CSV: quoting, absent cells, no formulas', async () => {
  const { toCsv } = await load('csv.ts');
  assert.equal(
    toCsv(
      ['a', 'b'],
      [
        ['x,"y"', null],
        [1.5, '=1+1'],
        ['-2', -2],
      ],
    ),
    'a,b\r\n"x,""y""",\r\n1.5,\'=1+1\r\n\'-2,-2\r\n',
  );
});

// Errors of a piece of ten minutes and of the one before count: 7 came before 00:10, 5 after.
await test('What rules make of samples: highest, growth, silence', async () => {
  const { fromSamples } = await load('samples.ts');
  const temperature = fromSamples([[0, 50], [120, 70]], 'highest', 0, 180, 60);
  assert.deepEqual(temperature, { ts: [0, 60, 120], values: [50, null, 70] });
  const errors = [[0, 100], [300, 107], [900, 112], [1500, 112], [2100, 112]];
  const grown = fromSamples(errors, 'growth', 0, 2400, 300);
  assert.deepEqual(grown.values, [0, 7, null, 12, null, 5, null, 0]);
  // Last heard at 00:00:50.
  const heard = fromSamples([[0, 50]], 'silence', 0, 240, 60);
  assert.deepEqual(heard.values, [10, 70, 130, 190]);
  assert.deepEqual(fromSamples([], 'silence', 0, 120, 60).values, [null, null]);
});

// --- the browser ---

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });

// A page that fails the test on console errors and on requests to anywhere else.
async function open(base, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
  const problems = [];
  const allowed = options.allowedErrors ?? /^$/;
  page.on('console', (message) => {
    if (message.type() === 'error' && !allowed.test(message.text()))
      problems.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(base) && !/^(data|blob):/.test(request.url()))
      problems.push(`request to ${request.url()}`);
  });
  page.setDefaultTimeout(15_000);
  return { page, check: () => assert.deepEqual(problems, []), close: () => context.close() };
}

const differences = new Set(); // of the mock's answers from the document, each once
const answered = new Set();
function seen(method, path, status, body) {
  const said = schemaOf(method, path, status);
  if (!said) return;
  answered.add(said.template);
  unlike(body, said.schema, `${method} ${said.template} ${status}:`, differences);
}

const mock = await startMock({ dist, seen });

const fleetTest =
  'Fleet: the number with its basis, charts, jobs, reasons; then a job, then its slowest GPU';
await test(fleetTest, async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  assert.equal(await page.textContent('[data-testid=ofu]'), '31.7'); // the mock's now.ofu is 0.3174
  const text = await page.textContent('main');
  for (const part of [
    'Coverage',
    'weighted by GPU-time',
    'tensor activity × clock',
    'Lost GPU-hours',
    'GPU model unknown',
  ]) {
    assert.ok(text.includes(part), `the fleet page does not say "${part}"`);
  }
  assert.equal(await page.title(), 'Fleet · flopwatch');
  await page.waitForSelector('.plot canvas');
  await page.click('section:has(h2:text("Most lost")) tbody a >> nth=0');
  await page.waitForURL(/\/jobs\/\d+/);
  await page.waitForSelector('text=GPUs of this job');
  assert.match(await page.title(), /^Job \d+ · flopwatch$/);
  await page.click('.verdict a');
  await page.waitForURL(/\/gpus\/GPU-/);
  await page.waitForSelector('text=Jobs on this GPU');
  await page.goBack();
  await page.waitForSelector('text=GPUs of this job');
  check();
  await close();
});

const jobsTest =
  'Jobs: sorting, filters and pages are in the URL and survive a reload; absent is not zero';
await test(jobsTest, async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/jobs?from=-24h`);
  await page.click('button[aria-label^="Sort by ofu"]');
  await page.waitForURL(/sort=ofu.*order=asc/);
  assert.ok(page.url().includes('from=-24h'), 'the window was lost');
  await page.keyboard.press('/');
  await page.keyboard.type('bob');
  await page.waitForURL(/q=bob/);
  await page.waitForFunction(() =>
    [...document.querySelectorAll('tbody tr')].every((tr) => tr.textContent.includes('bob')),
  );
  const rows = await page.locator('tbody tr').count();
  assert.ok(rows > 5);
  // The job with the dead counter has no OFU: it is sorted last and shows "–" with the reason.
  const last = page.locator('tbody tr').last();
  assert.match(await last.locator('.absent').first().getAttribute('title'), /dead/);
  await page.reload();
  await page.waitForFunction((n) => document.querySelectorAll('tbody tr').length === n, rows);
  assert.equal(await page.inputValue('[data-search]'), 'bob');
  await page.goto(`${mock.url}/jobs`);
  await page.click('text=Next');
  await page.waitForURL(/offset=50/);
  await page.waitForSelector('text=/51–100 of 137/');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button:text("CSV")'),
  ]);
  const csv = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\r\n');
  assert.equal(csv.length, 138); // header and all jobs, not only this page
  assert.ok(csv[0].startsWith('job,name,user,'));
  check();
  await close();
});

await test('Targets: health, why, filter', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/targets`);
  await page.waitForSelector('text=122 of 125 up');
  await page.click('button:text("down")');
  await page.waitForSelector('text=connection refused');
  assert.equal(await page.locator('tbody tr').count(), 1);
  check();
  await close();
});

await test('Where GPU time went: a loss leads to its jobs, in the same window', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  await page.click('.sankey a text:text-is("sm_idle")');
  await page.waitForURL(/\/jobs\?from=.*sort=sm_idle/);
  await page.waitForSelector('th:has-text("SMs idle")');
  check();
  await close();
});

await test('Where GPU time went: a loss without jobs leads to hosts and GPUs', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/?from=-24h`);
  // Its money is the server's; what the scheduler wrote is the page's.
  await page.waitForFunction(() =>
    /4800\.00 EUR\n<b>bad cable<\/b> \(2\.0 GPU-h\)/.test(
      document.querySelector('.sankey a title')?.textContent ?? '',
    ),
  );
  assert.equal(await page.locator('.sankey b').count(), 0); // a reason is text
  await page.click('.sankey a text:text-is("idle_hosts")');
  await page.waitForURL(/\/hosts\?from=.*loss=idle_hosts/);
  await page.waitForSelector('text=1–50 of 60 hosts');
  assert.match(await page.textContent('tbody tr >> nth=0'), /gpu001.*60\.0.*bad cable/);
  await page.selectOption('select', 'drained');
  await page.waitForURL(/loss=drained/);
  await page.waitForSelector('h2:has-text("Hosts behind: drained")');
  await page.click('tbody a >> nth=0');
  await page.waitForURL(/\/gpus\?.*node=gpu001/);
  await page.waitForSelector('h2:has-text("GPUs of gpu001")');
  await page.click('tbody a >> nth=0');
  await page.waitForURL(/\/gpus\/GPU-/);
  check();
  await close();
});

await test('Where GPU time went: a part of the fleet, in the URL and in every link', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/?from=-24h`);
  await page.selectOption('label:has-text("cluster") select', 'alpha');
  await page.waitForURL(/cluster=alpha/);
  await page.waitForSelector('.sankey a[href*="cluster=alpha"]');
  await page.selectOption('label:has-text("partition") select', 'spot');
  await page.waitForURL(/cluster=alpha&partition=spot/);
  await page.waitForSelector('.sankey a[href*="partition=spot"]');
  await page.click('.sankey a text:text-is("sm_idle")');
  await page.waitForURL(/\/jobs\?from=.*sort=sm_idle&cluster=alpha&partition=spot/);
  await page.click('.chip:has-text("partition: spot")');
  await page.waitForFunction(() => !location.search.includes('partition'));
  assert.match(page.url(), /cluster=alpha/);
  // The same for hosts, and back.
  await page.goto(`${mock.url}/?from=-24h&cluster=beta`);
  await page.waitForSelector('.sankey a[href*="cluster=beta"]');
  await page.click('.sankey a text:text-is("idle_hosts")');
  await page.waitForURL(/\/hosts\?from=.*loss=idle_hosts&cluster=beta/);
  await page.waitForSelector('.chip:has-text("cluster: beta")');
  // An account has no hardware: it takes the place of what was chosen.
  await page.goto(`${mock.url}/?from=-24h&account=physics`);
  await page.waitForSelector('label:has-text("account") select');
  await page.selectOption('label:has-text("cluster") select', 'beta');
  await page.waitForURL(/cluster=beta/);
  assert.ok(!page.url().includes('account'));
  check();
  await close();
});

await test('Usage: rows, sort, change, CSV, and what to do without accounts', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/usage?from=-24h`);
  await page.waitForSelector('tbody tr');
  assert.match(await page.textContent('tbody tr >> nth=0'), /alice.*14,400.*40\.0/);
  await page.waitForSelector('.plot canvas');
  await page.click('button[aria-label^="Sort by ofu"]');
  await page.waitForURL(/sort=ofu/);
  // bob's 30 % before alice's 40 %; chen has none and is last.
  await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll('tbody tr')].map((tr) => tr.textContent);
    return rows.length === 4 && rows[1].startsWith('bob') && rows[3].startsWith('chen');
  });
  await page.click('text=compare with the window before');
  await page.waitForURL(/compare=true/);
  await page.waitForSelector('th:has-text("Δ GPU-h")');
  // A third of 14,400 is new.
  assert.match(await page.textContent('tbody tr:has-text("alice")'), /\+4,800/);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button:text("CSV")'),
  ]);
  const csv = readFileSync(await file.path(), 'utf8').trim().split('\r\n');
  assert.equal(csv.length, 5);
  assert.ok(csv[0].startsWith('user,jobs,gpu_seconds,') && csv[0].includes('change_cost'));
  await page.selectOption('select', 'account');
  await page.waitForURL(/by=account/);
  await page.waitForSelector('text=flopwatch import slurm');
  check();
  await close();
});

await test('Keyboard: g j, g t, g f, d, ?, Esc', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  await page.waitForSelector('[data-testid=ofu]');
  for (const [key, path] of [
    ['j', '/jobs'],
    ['u', '/usage'],
    ['t', '/targets'],
    ['f', '/'],
  ]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.waitForFunction((p) => location.pathname === p, path);
  }
  const before = await page.getAttribute('html', 'data-theme');
  await page.keyboard.press('d');
  assert.notEqual(await page.getAttribute('html', 'data-theme'), before);
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  check();
  await close();
});

await test('Every metric name explains itself', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  await page.click('button.metric:text("OFU now")');
  const help = page.locator('.help:popover-open');
  const text = await help.textContent();
  for (const part of [
    'Overall FLOP utilisation',
    'Formula',
    'Caveat',
    'Source',
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE',
  ]) {
    assert.ok(text.includes(part), part);
  }
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
  check();
  await close();
});

await test('Window: presets and dragging over a chart change the URL', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  await page.click('button:text("7 d")');
  await page.waitForURL(/from=-7d/);
  await page.waitForSelector('.plot canvas');
  const box = await page.locator('.plot .u-over').first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=20\d\d-.*to=20\d\d-/);
  const query = new URL(page.url()).searchParams;
  const hours = (Date.parse(query.get('to')) - Date.parse(query.get('from'))) / 3.6e6;
  // A fifth of seven days.
  assert.ok(Math.abs(hours - 0.2 * 168) < 2, `${hours} h chosen, 33.6 h dragged`);
  check();
  await close();
});

const emptyTest = 'First start, no exporters, no samples, no jobs: own words, what to do, no zeros';
await test(emptyTest, async () => {
  const { page, check, close } = await open(mock.url);
  for (const [scenario, title, todo] of [
    ['first', 'Nothing is measured yet', 'flopwatch serve --target'],
    ['silent', 'No exporter answers: 0 of 125', 'flopwatch doctor --target'],
    ['empty', 'No samples in this window', 'Show that day'],
  ]) {
    mock.set(scenario);
    await page.goto(mock.url);
    await page.waitForSelector(`.state:has-text("${title}"):has-text("${todo}")`);
    assert.equal(await page.locator('[data-testid=ofu]').count(), 0);
    assert.equal(await page.textContent('.headline-value'), '–');
  }
  await page.goto(`${mock.url}/jobs`);
  await page.waitForSelector('.state:has-text("No job owned a GPU"):has-text("--slurm")');
  mock.set('first');
  await page.goto(`${mock.url}/targets`);
  await page.waitForSelector('text=No targets');
  check();
  await close();
  mock.set('fleet');
});

const jobTest =
  'A job opens on its own time; notes are the server’s words; its links keep the window';
await test(jobTest, async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/jobs?from=-24h&q=2115000`);
  await page.click('tbody a:text-is("2115000")');
  await page.waitForURL(/\/jobs\/2115000$/); // no window: not the list's day
  await page.waitForSelector('[aria-label="Notes"] li');
  const notes = await page.locator('[aria-label="Notes"] li').allTextContents();
  assert.equal(notes.length, 2);
  await page.waitForSelector('text=/Why this OFU: tensor cores idle: [0-9.]+ of [0-9.]+ measured/');
  assert.match(notes[0], /^MFU against OFU, alarm: MFU is 1.62 times too high\. "flopwatch div/);
  assert.match(notes[1], /<60 %> of the time/); // text, not a tag
  assert.equal(await page.getAttribute('button:text-is("Job")', 'aria-pressed'), 'true');
  assert.match(await page.getAttribute('nav.crumbs a >> nth=1', 'href'), /from=-24h/);
  await page.click('button:text-is("6 h")');
  await page.waitForURL(/from=-6h/);
  assert.equal(await page.getAttribute('button:text-is("Job")', 'aria-pressed'), 'false');
  check();
  await close();
});

await test('"Copy link" fixes the window that is shown', async () => {
  const { page, check, close } = await open(mock.url, {
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  for (const [path, hours] of [
    ['/jobs?from=-24h&sort=ofu', 24],
    ['/jobs/2115000', 5],
  ]) {
    await page.goto(mock.url + path);
    await page.waitForSelector('tbody tr', { state: 'attached' });
    await page.click('button:has-text("Copy link")');
    await page.waitForSelector('button:has-text("Copied")');
    const copied = new URL(await page.evaluate(() => navigator.clipboard.readText()));
    const [from, to] = ['from', 'to'].map((k) => Date.parse(copied.searchParams.get(k)));
    assert.equal((to - from) / 3.6e6, hours);
    assert.ok(Math.abs(Date.now() - to) < 60_000);
    assert.equal(copied.pathname, path.split('?')[0]);
    assert.equal(copied.searchParams.get('sort'), path.includes('sort') ? 'ofu' : null);
    // What it opens has that window, and not one that moves.
    await page.goto(copied.href);
    await page.waitForSelector('tbody tr', { state: 'attached' });
    assert.equal(page.url(), copied.href);
  }
  check();
  await close();
});

const reasonTest =
  'Without an OFU the reason is in view beside it, and an MFU alarm is a mark with words';
await test(reasonTest, async () => {
  const { page, check, close } = await open(mock.url);
  const inView = async (locator) => {
    const box = await locator.boundingBox();
    assert.ok(box && box.x >= 0 && box.x + box.width <= 1280, JSON.stringify(box));
  };
  await page.goto(`${mock.url}/jobs?q=2115006`);
  await inView(page.locator('td .reason:text-is("the tensor counter is dead")'));
  const alarm = page.locator('tbody .flag:text-is("MFU against OFU")');
  await inView(alarm);
  assert.match(await alarm.getAttribute('title'), /alarm: MFU is 1.62 times too high/);
  await inView(page.locator('td span:text-is("dead tensor counter 35 %")'));
  await page.goto(`${mock.url}/jobs/2115006`);
  await inView(page.locator('td .reason >> nth=0'));
  assert.match(await page.textContent('.headline'), /Not computable: the tensor counter is dead/);
  check();
  await close();
});

const failingTest =
  'A failing server: the reason at first sight; later the old numbers stay, with their age';
await test(failingTest, async () => {
  mock.set('broken');
  const { page, check, close } = await open(mock.url, { allowedErrors: /status of 503/ });
  await page.goto(mock.url);
  await page.waitForSelector('text=another process holds the data directory');
  mock.set('fleet');
  await page.click('button:text("Try now")');
  await page.waitForSelector('[data-testid=ofu]');
  mock.set('broken');
  await page.keyboard.press('p'); // pause and resume asks at once
  await page.keyboard.press('p');
  await page.waitForSelector('.banner:has-text("Not renewed since")');
  assert.equal(await page.textContent('[data-testid=ofu]'), '31.7');
  check();
  await close();
  mock.set('fleet');
});

await test('Today: what to do first, with what it brings, and the lists behind it', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(mock.url);
  await page.waitForSelector('.actions-list > li');
  assert.equal(await page.locator('.actions-list > li').count(), 3); // the first three
  await page.click('text=All actions');
  await page.waitForSelector('h2:has-text("What to do first")');
  assert.equal(await page.locator('.actions-list > li').count(), 4);
  assert.match(await page.textContent('.actions-list > li >> nth=0'), /240.*GPU-h.*120\.50 EUR/s);
  assert.match(await page.textContent('.actions-list > li >> nth=3'), /nothing by itself/);
  // What comes from elsewhere is text.
  await page.waitForSelector('text=26.0 GiB are held <at> 61 W >> nth=0');
  assert.match(await page.textContent('[aria-label="Stragglers"]'), /12\.0.*clock [\d,]+ MHz/s);
  await page.click('.actions-list > li >> nth=0 >> h3 a');
  await page.waitForURL(/\/jobs\?.*sort=allocated_idle.*user=bob|user=bob.*sort=allocated_idle/);
  check();
  await close();
});

await test('Workflows: what changed since which run; Compare: two side by side', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/workflows`);
  assert.match(await page.textContent('[aria-label="Changes"]'), /pretrain.*−25\.0.*tensor/s);
  await page.waitForSelector('text=12 of 20 workflows were judged');
  await page.click('text=Compare two runs');
  await page.fill('input >> nth=0', '2115002');
  await page.fill('input >> nth=1', '2115003');
  await page.click('button:text("Compare")');
  await page.waitForURL(/a=2115002&b=2115003/);
  const figures = await page.textContent('[aria-label="Figures of both"]');
  assert.match(figures, /OFU.*40\.0.*30\.0.*−25\.0.*12 runs.*yes/s);
  assert.match(await page.textContent('[aria-label="What else changed"]'), /gpu001.*gpu002/s);
  check();
  await close();
});

await test('Alerts: what fires first, filters, empty states with their own words', async () => {
  const { page, check, close } = await open(mock.url, { allowedErrors: /status of 503/ });
  await page.goto(mock.url);
  // Two fire, one of them a page.
  await page.waitForSelector('nav .badge.bad:has-text("2")');
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.waitForURL(/\/alerts$/);
  await page.waitForSelector('[aria-label="Firing"] tbody tr');
  const rows = await page.locator('[aria-label="Firing"] tbody tr').allTextContents();
  assert.equal(rows.length, 2);
  assert.match(rows[0], /^page.*93 <degrees>.*gpu001/); // text, not a tag
  assert.match(rows[1], /^ticket.*2115002.*3 nodes/);
  assert.match(await page.textContent('[aria-label="Pending"] tbody'), /2115002/);
  assert.equal(await page.locator('[aria-label="Resolved lately"] tbody tr').count(), 20);
  await page.waitForSelector('text=answered 500: <try later>; 3 wait');
  await page.click('text=All of them');
  await page.waitForURL(/state=resolved/);
  await page.click('text=Next');
  await page.waitForSelector('text=/51–60 of 60/');
  await page.click('[aria-label="state"] button:text-is("firing")');
  await page.click('[aria-label="severity"] button:text-is("ticket")');
  await page.waitForSelector('h2:has-text("Firing (1)")');
  await page.fill('input[aria-label="Only of this job"]', '999');
  await page.waitForSelector('.state:has-text("Firing: none that matches")');
  await page.click('text=Take the filters away');
  await page.waitForSelector('h2:has-text("Firing (2)")');
  for (const [scenario, title] of [
    ['quiet', 'Nothing fires'],
    ['grace', 'Nothing fires yet: the server has just begun'],
    ['off', 'Alerts are switched off'],
  ]) {
    mock.set(scenario);
    await page.goto(`${mock.url}/alerts`);
    await page.waitForSelector(`.state strong:text-is("${title}")`);
    assert.equal(await page.locator('.badge').count(), 0);
  }
  check();
  await close();
  mock.set('fleet');
});

await test('One alert: subject, numbers, chart with its threshold, history, silence', async () => {
  const { page, check, close } = await open(mock.url, { allowedErrors: /status of 400/ });
  await page.goto(`${mock.url}/alerts/a1`);
  await page.waitForSelector('[aria-label="Evidence"] td:has-text("temperature of the GPU")');
  const text = await page.textContent('main');
  for (const part of [
    '93 <degrees>', // text, not a tag
    'Look at the fans.',
    'gpu_temp_c > 90 and gpu_util > 50 %',
    'healer: <b>fans</b> set to 100 %',
    'the condition begins to hold',
  ])
    assert.ok(text.includes(part), `one alert does not say "${part}"`);
  assert.equal(await page.locator('main b:text-is("fans")').count(), 0);
  // What was not known is not zero.
  assert.equal(await page.locator('[aria-label="Evidence"] .absent').count(), 1);
  await page.waitForSelector('.plot canvas');
  const drawn = await page.getAttribute('.plot', 'aria-label');
  assert.match(drawn, /between 60.*and 9[0-9].*threshold between 90/);
  assert.match(await page.getAttribute('a:text-is("gpu001")', 'href'), /^\/gpus\?node=gpu001$/);
  await page.click('a:text-is("6f1c2b00")');
  await page.waitForURL(/\/gpus\/GPU-6f1c2b00/);
  // Of a job: OFU while it works, by the job's series.
  await page.goto(`${mock.url}/alerts/a2`);
  await page.waitForSelector('.plot[aria-label^="busy_ofu of 2115002"]');
  assert.equal(await page.inputValue('textarea'), 'rule=job_ofu_drop\njob=2115002');
  await page.fill('input[name=owner]', 'ann');
  await page.fill('input[name=weekly]', 'weekends');
  await page.click('button:text-is("Silence")');
  await page.waitForSelector('[role=alert]:has-text("is no weekly time")');
  await page.fill('input[name=weekly]', '');
  await page.fill('input[name=comment]', 'waits for data');
  await page.click('button:text-is("Silence")');
  await page.waitForSelector('[role=status]:has-text("Nobody is told until")');
  await page.waitForSelector('text=Silenced by');
  await page.click('a:text-is("all silences")');
  await page.waitForURL(/\/silences$/);
  const row = await page.textContent('[aria-label="Silences"] tbody');
  assert.match(row, /rule=job_ofu_drop.*job=2115002.*in force.*1.*ann/);
  assert.match(row, /ann.*all the time.*waits for data/);
  await page.click('button[aria-label^="End the silence of rule=job_ofu_drop"]');
  await page.waitForSelector('text=Nothing is silenced');
  check();
  await close();
});

await test('A job shows its alerts, those that wait too', async () => {
  const { page, check, close } = await open(mock.url);
  await page.goto(`${mock.url}/jobs/2115002`);
  await page.waitForSelector('h2:has-text("Alerts of this job (1 fire)")');
  const rows = await page.locator('[aria-label="Alerts of this job"] tbody tr').allTextContents();
  assert.equal(rows.length, 2);
  assert.match(rows[0], /^ticketfiring/);
  assert.match(rows[1], /^ticketpending/);
  const marks = page.locator('section:has(h2:has-text("Restarts and drains"))');
  assert.match(await marks.textContent(), /restart by healer: without <gpu003> \(its alert\)/);
  assert.equal(await marks.locator('a').getAttribute('href'), '/alerts/a2');
  // Drawn where it was, in each chart of the job.
  const plots = page.locator('.plot');
  for (const label of await plots.evaluateAll((all) => all.map((p) => p.ariaLabel)))
    assert.match(label, /; restart at /);
  const drawn = await plots.first().evaluate((plot) => {
    const canvas = plot.querySelector('canvas');
    const { width, height } = canvas;
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    const probe = document.createElement('i');
    probe.style.color = 'var(--warn)';
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    let dots = 0;
    for (let at = 0; at < data.length; at += 4)
      if (data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] > 200) ++dots;
    return dots;
  });
  assert.ok(drawn > 20, `the restart is ${drawn} dots in the chart`);
  await page.click('[aria-label="Alerts of this job"] a >> nth=0');
  await page.waitForURL(/\/alerts\/a2$/);
  check();
  await close();
});

await test('Unknown alert, unknown job, unknown page', async () => {
  const { page, check, close } = await open(mock.url, { allowedErrors: /status of 404/ });
  await page.goto(`${mock.url}/alerts/nope`);
  await page.waitForSelector('text=there is no alert "nope"');
  await page.goto(`${mock.url}/jobs/nope`);
  await page.waitForSelector("text=did you mean '2115002'?");
  await page.goto(`${mock.url}/nowhere`);
  await page.waitForSelector('text=There is no such page');
  check();
  await close();
});

await test('A hostile job name is text', async () => {
  const { page, check, close } = await open(mock.url);
  const name = '<img src=x onerror=alert(1)>';
  await page.route('**/api/v1/jobs?**', async (route) => {
    const body = await (await route.fetch()).json();
    body.jobs[0].job = name;
    body.jobs[0].user = '"><script>alert(1)</script>';
    await route.fulfill({ json: body });
  });
  await page.goto(`${mock.url}/jobs`);
  await page.waitForSelector(`text=${name}`);
  assert.equal(await page.locator('main img, main script').count(), 0);
  check();
  await close();
});

const axeTest =
  'No page breaks a rule of axe-core (WCAG A and AA, good practice), ' +
  'wide or narrow, light or dark';
await test(axeTest, async () => {
  const axe = readFileSync(
    createRequire(join(testWork, 'package.json')).resolve('axe-core/axe.min.js'),
    'utf8',
  );
  for (const width of [1280, 400]) {
    for (const colorScheme of ['light', 'dark']) {
      const { page, check, close } = await open(mock.url, {
        colorScheme,
        viewport: { width, height: 900 },
      });
      for (const path of [
        '/',
        '/today',
        '/workflows',
        '/compare?a=1&b=2',
        '/usage?compare=true',
        '/hosts',
        '/gpus',
        '/jobs',
        '/targets',
        '/alerts',
        '/alerts/a1',
        '/silences',
      ]) {
        await page.goto(mock.url + path);
        await page.waitForSelector('tbody tr, .state', { state: 'attached' });
        await page.evaluate(axe);
        const broken = await page.evaluate(async () => {
          const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'];
          const { violations } = await globalThis.axe.run(document, { runOnly: tags });
          return violations.map((v) => `${v.id}: ${v.nodes[0].html}`);
        });
        assert.deepEqual(broken, [], `${path} at ${width}, ${colorScheme}`);
        // Nothing lies beside the screen.
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          `${path} at ${width} scrolls sideways`,
        );
      }
      await check();
      await close();
    }
  }
});

await test('Both themes have readable text (WCAG AA)', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page, check, close } = await open(mock.url, { colorScheme });
    await page.goto(mock.url);
    await page.waitForSelector('[data-testid=ofu]');
    assert.equal(await page.getAttribute('html', 'data-theme'), colorScheme);
    const worst = await page.evaluate(() => {
      const luminance = (rgb) => {
        const [r, g, b] = rgb.map((v) =>
          v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
        );
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const parse = (text) => text.match(/[\d.]+/g).map(Number);
      const background = (element) => {
        for (let e = element; e; e = e.parentElement) {
          const c = parse(getComputedStyle(e).backgroundColor);
          if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
        }
        return [255, 255, 255];
      };
      let low = [99, ''];
      for (const e of document.querySelectorAll('main *, header *')) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
        if (!own || e.matches('.sort, :disabled')) continue;
        const a = luminance(parse(getComputedStyle(e).color).slice(0, 3));
        const b = luminance(background(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < low[0]) low = [ratio, `${e.className} ${e.textContent.slice(0, 40)}`];
      }
      return low;
    });
    assert.ok(worst[0] >= 4.5, `${colorScheme}: contrast ${worst[0].toFixed(2)} of "${worst[1]}"`);
    check();
    await close();
  }
});

await mock.stop();

await test("The mock's answers have the document's shapes", () => {
  assert.ok(answered.size >= 15, `only ${answered.size} paths were asked`);
  assert.ok(differences.size === 0, [...differences].join('\n'));
});

// --- the real server ---

// Ten minutes of one H100 under job 4711: tensor activity 0.5 at 1830 MHz is an OFU of 50 % (the
// H100's maximum tensor clock is 1830 MHz). Power varies: an exporter whose values never change
// counts as frozen.
function bodyAt(ms) {
  const labels =
    'gpu="0",UUID="GPU-11111111-2222-3333-4444-555555555555",device="nvidia0",' +
    'modelName="NVIDIA H100 80GB HBM3",Hostname="node-a",hpc_job="4711"';
  const line = (field, value) => `DCGM_FI_${field}{${labels}} ${value} ${ms}\n`;
  return (
    line('PROF_PIPE_TENSOR_ACTIVE', 0.5) +
    line('DEV_SM_CLOCK', 1830) +
    line('DEV_GPU_UTIL', 97) +
    line('DEV_POWER_USAGE', 650 + ((ms / 10_000) % 7))
  );
}

async function waitFor(probe, what) {
  for (let k = 0; k < 600; k += 1) {
    const value = await probe();
    if (value) return value;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`not within 30 s: ${what}`);
}

if (binary && existsSync(binary)) {
  const folder = mkdtempSync(join(tmpdir(), 'flopwatch-page-'));
  const portFile = join(folder, 'port');
  const rules = join(folder, 'rules.toml');
  writeFileSync(
    rules,
    '[rules.works]\nscope = "gpu"\nwhen = "power_w > 600"\nvalue = "power_w"\n' +
      'threshold = "600"\nsummary = "{gpus} takes {value} W"\n',
  );
  const server = spawn(
    binary,
    [
      'serve',
      '--listen',
      '127.0.0.1:0',
      '--port-file',
      portFile,
      '--data-dir',
      join(folder, 'data'),
      '--alert-rules',
      rules,
    ],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, FLOPWATCH_ALERTS_INTERVAL: '1s', FLOPWATCH_ALERTS_GRACE: '1s' },
    },
  );
  let log = '';
  server.stdout.on('data', (d) => (log += d));
  server.stderr.on('data', (d) => (log += d));
  try {
    const realTest = 'The real server: 50 % OFU of what was pushed, from the fleet to the job';
    await test(realTest, async () => {
      const port = await waitFor(() => {
        assert.equal(server.exitCode, null, `it did not start:\n${log}`);
        return existsSync(portFile) && readFileSync(portFile, 'utf8').trim();
      }, 'a port');
      const base = `http://127.0.0.1:${port}`;
      const now = Date.now();
      for (let back = 60; back >= 0; back -= 1) {
        const pushed = await fetch(`${base}/api/v1/push/node-a`, {
          method: 'POST',
          body: bodyAt(now - back * 10_000),
        });
        assert.equal(pushed.status, 200, await pushed.text());
      }
      await waitFor(
        async () => (await (await fetch(`${base}/api/v1/jobs?from=-1h`)).json()).total > 0,
        'the job in the answer',
      );
      const { page, check, close } = await open(base);
      await page.goto(base);
      assert.equal(await page.textContent('[data-testid=ofu]'), '50.0');
      await page.click('section:has(h2:text("Most lost")) tbody a >> nth=0');
      await page.waitForURL(/\/jobs\/4711/);
      await page.waitForSelector('text=GPUs of this job (1)');
      assert.equal(await page.textContent('[data-testid=ofu]'), '50.0');
      await page.goto(`${base}/targets`);
      await page.waitForSelector('text=node-a');
      // The link that receivers are sent opens the alert itself, with its series.
      const alert = await waitFor(
        async () => (await (await fetch(`${base}/api/v1/alerts?rule=works`)).json()).alerts[0],
        'an alert',
      );
      await page.goto(base + alert.link);
      await page.waitForSelector('h1:has-text("takes 65")');
      await page.waitForSelector('.plot[aria-label*="power_w"][aria-label*="between 65"]');
      await page.click('dt:text-is("Job") + dd a');
      await page.waitForSelector('h2:has-text("Alerts of this job (1 fire)")');
      check();
      await close();
    });
  } finally {
    const ended = new Promise((done) => server.once('exit', done));
    if (server.exitCode === null) {
      server.kill('SIGTERM');
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  }
} else {
  console.log('not run: the real server (the binary is not built)');
}

await browser.close();
console.log(`${passed} passed, ${failures} failed`);
process.exit(failures === 0 ? 0 : 1);
