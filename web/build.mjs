// Bundles the page: node build.mjs OUT. Writes OUT/index.html and OUT/assets/NAME-HASH.EXT with
// their gzip twins, and OUT/ui_files.inc, the table that src/server/ui_assets.cc embeds. Same
// sources, same bytes.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const kBudgetKiB = 70; // all of the page, compressed: a view is 2 to 3 of it
const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, 'dist');
const types = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
};

const bundle = await build({
  entryPoints: { app: join(here, 'src/app.tsx') },
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome114', 'firefox125', 'safari17'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  charset: 'utf8',
  write: false,
  outdir: out,
  logLevel: 'warning',
});

const files = []; // { path, type, data, immutable }
const hashed = {};
const add = (name, data) => {
  const [, stem, ext] = /^(.*)\.(\w+)$/.exec(name);
  const hash = createHash('sha256').update(data).digest('hex').slice(0, 10);
  hashed[name] = `${stem}-${hash}.${ext}`;
  files.push({ path: `/assets/${hashed[name]}`, type: types[ext], data, immutable: true });
};
for (const file of bundle.outputFiles) add(file.path.split('/').pop(), Buffer.from(file.contents));
add('favicon.svg', readFileSync(join(here, 'src/favicon.svg')));
const html = readFileSync(join(here, 'src/index.html'), 'utf8').replace(
  /\{\{(.+?)\}\}/g,
  (_, name) => {
    if (!hashed[name]) throw new Error(`index.html names ${name}, which the build did not make`);
    return hashed[name];
  },
);
files.push({ path: '/index.html', type: types.html, data: Buffer.from(html), immutable: false });

rmSync(join(out, 'assets'), { recursive: true, force: true });
mkdirSync(join(out, 'assets'), { recursive: true });
let total = 0;
let inc = '// Made by web/build.mjs.\n';
let table = '';
files.forEach((file, k) => {
  // Level 9 without a time stamp or name: the same bytes everywhere.
  const gz = gzipSync(file.data, { level: 9 });
  gz[9] = 255; // operating system: unknown
  total += gz.length;
  writeFileSync(join(out, file.path), file.data);
  writeFileSync(join(out, `${file.path}.gz`), gz);
  // The entry page goes out as it is: small, and readable with any client.
  const body = file.immutable ? gz : file.data;
  inc += `constexpr unsigned char kFile${k}[] = {${[...body].join(',')}};\n`;
  const etag = createHash('sha256').update(file.data).digest('hex').slice(0, 16);
  table += `    {"${file.path}", "${file.type}", "${etag}", kFile${k}, `;
  table += `sizeof(kFile${k}), ${file.immutable}},\n`;
});
inc += `constexpr UiFile kUiFiles[] = {\n${table}};\n`;
writeFileSync(join(out, 'ui_files.inc'), inc);

const kib = (total / 1024).toFixed(1);
console.log(`page: ${files.length} files, ${kib} KiB compressed (budget ${kBudgetKiB})`);
if (total > kBudgetKiB * 1024) {
  console.error(`the page is over its budget of ${kBudgetKiB} KiB`);
  process.exit(1);
}
