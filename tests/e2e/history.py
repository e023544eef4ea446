"""The past of a simulated fleet, as a real Prometheus and a real VictoriaMetrics have kept it, is
imported by each way that they offer, and what flopwatch then says of it is what it says of the same
fleet stored directly (which other tests hold to the truth): the fleet, each job, each GPU-second.

The fleet is scraped by this script as an HA pair of Prometheuses would: what replica b says is new
while a is away, and not where it asked five seconds after a. In the middle ten minutes are missing.
A second import, an overlapping one, one by another way, and one that was killed and begun again add
nothing.

A Prometheus is read without its server too: its data folder, a snapshot of it, with blocks that
overlap, samples that were deleted, and damage.

With "owners" the GPUs of three exporters in four have lost the labels that name their job, and job
exporters of three kinds, which are asked at other times, tell it instead; it must come to the same.

With "amd" every GPU is one of AMD's, under its own exporter. With "ways" a fleet is imported by
each way and compared, and no more.

  history.py [GPUS [HOURS [owners|amd|ways] [ENGINE...]]]
      prometheus, victoriametrics; where they were built (tools/… install) prometheus-3.16,
      prometheus-3.16-xor2, thanos and cortex
"""
import http.server
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import BINARY, SKIP, Process, check, run, scratch, until

GPUS = int(sys.argv[1]) if len(sys.argv) > 1 else 64
HOURS = float(sys.argv[2]) if len(sys.argv) > 2 else 2
ENGINES = {"prometheus": ("prometheus",), "victoriametrics": ("victoriametrics",),
           "prometheus-3.16": ("prometheus", "--version", "3.16", "--cached"),
           "prometheus-3.16-xor2": ("prometheus", "--version", "3.16", "--cached", "--chunks",
                                    "xor2"),
           "thanos": ("thanos", "--cached"), "cortex": ("cortex", "--cached")}
OWNERS, AMD, WAYS_ALONE = (sys.argv[3:4] == [word] for word in ("owners", "amd", "ways"))
CHOSEN = sys.argv[4 if OWNERS or AMD or WAYS_ALONE else 3:] or ["prometheus", "victoriametrics"]
WAYS = {"prometheus": ("remote_read", "query"), "victoriametrics": ("export", "query"),
        "thanos": ("query",), "cortex": ("remote_read", "query")}
# Cortex is for tenants.
HEADERS = {"X-Scope-OrgID": "gpus"} if "cortex" in CHOSEN else {}
# A Thanos' querier says which label tells its replicas apart; of another one --replica-label does.
REPLICA = "pair" if "thanos" in CHOSEN else "prometheus_replica"
WRITE_TO = {}  # by URL that is read from, where it is not there
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
INTERVAL = 30
START = 1_794_873_600
END = START + int(HOURS * 3600)
GAP = (START + 2400, START + 3000)
OUTAGE_OF_A = (START + 4200, START + 5400)  # replica b alone is there
LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+) (\d+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
FLEET = ("--gpus", str(GPUS), "--hours", str(HOURS), "--start", str(START), "--seed", "7",
         "--interval", f"{INTERVAL}s", "--faults", "none", "--preset", "llm",
         *(("--amd",) if AMD else ()))


def engine(name):
    """The URL of a real one and its folder, or why there is none."""
    tool, *options = ENGINES[name]
    # Blocks of an hour, so that there is one beside the head.
    own = ("--", "--web.enable-admin-api",
           "--storage.tsdb.min-block-duration=1h") if tool == "prometheus" else (
               "--", f"--query.replica-label={REPLICA}") if tool == "thanos" else ()
    folder = scratch()
    r = subprocess.run([os.path.join(TOP, "tools", tool), "start", folder, *options, *own],
                       capture_output=True, text=True)
    if r.returncode == 77:
        return None, r.stderr.strip().splitlines()[-1]
    check(r.returncode == 0, f"tools/{tool} start: {r.stderr}")
    stops.append((tool, folder))
    url, *write_to = r.stdout.split()
    WRITE_TO[url] = write_to[0] if write_to else url + "/api/v1/write"
    return url, folder


def scrapes():
    """(host, {series: [(ms, value)]}) of each exporter, series as sorted label pairs."""
    simulator = Process("simulate", "fleet", *FLEET, "--step", "--listen", "127.0.0.1:0")
    for path in simulator.get("/targets.txt").split():
        series = {}
        while True:
            try:
                with urllib.request.urlopen(path, timeout=30) as r:
                    text = r.read().decode()
            except urllib.error.HTTPError as e:
                check(e.code == 410, f"{path}: {e.code}")
                break
            for line in text.splitlines():
                if line.startswith("#"):
                    continue
                name, labels, value, ms = LINE.match(line).groups()
                if GAP[0] * 1000 < int(ms) <= GAP[1] * 1000:
                    continue
                key = (("__name__", name),
                       *((k, v.replace('\\"', '"')) for k, v in LABEL.findall(labels or "")))
                series.setdefault(key, []).append((int(ms), float(value)))
        yield path, series
    simulator.stop()


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def snappy(data):
    """A block of literals alone."""
    out = varint(len(data))
    for at in range(0, len(data), 65536):
        piece = data[at:at + 65536]
        out += bytes([61 << 2]) + struct.pack("<H", len(piece) - 1) + piece
    return out


def write(url, all_series):
    """Remote write 1.0."""
    body = b""
    for labels, samples in all_series:
        message = b"".join(field(1, field(1, k.encode()) + field(2, v.encode()))
                           for k, v in sorted(labels))
        message += b"".join(field(2, b"\x09" + struct.pack("<d", v) + b"\x10" + varint(ms))
                            for ms, v in samples)
        body += field(1, message)
    request = urllib.request.Request(WRITE_TO[url], snappy(body), {
        "Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Write-Version": "0.1.0", **HEADERS})
    with urllib.request.urlopen(request, timeout=60) as r:
        check(r.status // 100 == 2, f"remote write: {r.status}")


SLICE_MS = 1200_000


def fill(urls):
    """In order of time: a Prometheus takes nothing an hour older than its newest sample."""
    slices = {}
    for labels, samples in replicas():
        for ms, v in samples:
            slices.setdefault(ms // SLICE_MS, {}).setdefault(labels, []).append((ms, v))
    for _, series in sorted(slices.items()):
        series = list(series.items())
        for at in range(0, len(series), 5000):  # a server takes some tens of MB at once
            for url in urls:
                write(url, series[at:at + 5000])
    for url in urls:
        try:
            urllib.request.urlopen(url + "/internal/force_flush", timeout=60).read()
            time.sleep(2)
        except urllib.error.HTTPError:
            pass  # all but VictoriaMetrics


# What DCGM calls the fields from 4.7 on, and how many of its units one of before is.
RENAMED = {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1),
           "DCGM_FI_PROF_SM_ACTIVE": ("DCGM_FI_PROF_SM_UTIL_RATIO", 1),
           "DCGM_FI_PROF_SM_OCCUPANCY": ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", 1),
           "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1),
           "DCGM_FI_PROF_DRAM_ACTIVE": ("DCGM_FI_PROF_DRAM_UTIL_RATIO", 1),
           "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6),
           "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1),
           "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
           "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 1e-2),
           "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 2**20),
           "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 2**20)}
UPGRADE = START + int(HOURS * 1800) + 317


def in_its_dialect(number, key, samples):
    """A third of the exporters is of DCGM 4.7, whose labels a Prometheus has put aside for its own,
    and a third goes over to it in the middle."""
    name = dict(key)["__name__"]
    new, factor = RENAMED.get(name, (name, 1))
    since = (2**60, UPGRADE, 0)[number % 3] * 1000
    renamed = [(ms, v * factor) for ms, v in samples if ms >= since]
    old = [(ms, v) for ms, v in samples if ms < since]
    if number % 3 == 2:
        key = tuple(("exported_" + k if k == "Hostname" else k, v) for k, v in key)
    if old:
        yield key, old
    if renamed:
        yield (("__name__", new), *key[1:]), renamed


def told_by_others(number, series):
    """The series without their owners, and what the host's job exporter says instead, eleven
    seconds later."""
    bare, told = {}, {}
    for key, samples in series.items():
        labels = dict(key)
        job = labels.pop("hpc_job", None)
        # Of two jobs on one GPU, a second stands at the same times.
        bare.setdefault(tuple(labels.items()), {}).update(samples)
        if labels["__name__"] != "DCGM_FI_DEV_SM_CLOCK":
            continue
        for ms, _ in samples:
            told.setdefault((labels["UUID"], labels["gpu"]), {}).setdefault(ms, []).append(job)
    series = {key: sorted(samples.items()) for key, samples in bare.items()}
    exported = {}
    shared = any(len(jobs) > 1 for looks in told.values() for jobs in looks.values())
    for (uuid, gpu), looks in told.items():
        for ms, jobs in looks.items():
            # jobstats: the id is the value, and there is room for one.
            if number % 4 == 1 and not shared:
                key = (("__name__", "nvidia_gpu_jobId"), ("minor_number", gpu), ("uuid", uuid))
                exported.setdefault(key, []).append((ms + 11_000, float(jobs[0] or 0)))
                continue
            for job in filter(None, jobs):
                if number % 4 < 2:
                    key = (("__name__", "slurm_job_utilization_gpu"), ("gpu", gpu),
                           ("gpu_type", "NVIDIA H100"), ("slurmjobid", job), ("user", "ada"))
                else:
                    key = (("__name__", "ceems_compute_unit_gpu_index_flag"), ("gpuuuid", uuid),
                           ("hostname", "elsewhere"), ("index", gpu), ("manager", "slurm"),
                           ("user", "ada"), ("uuid", job))
                exported.setdefault(key, []).append((ms + 11_000, 1.0))
    return series, exported


def replicas():
    """(labels, samples) as the two of them have stored them."""
    for number, (path, series) in enumerate(scrapes()):
        instances = any(label == "GPU_I_ID" for key in series for label, _ in key)
        if OWNERS and number % 4 < 3 and not instances:  # of parts these exporters say nothing
            series, exported = told_by_others(number, series)
            for key, samples in exported.items():
                yield (*key, ("instance", path.split("/")[-2] + ":9798"), ("job", "jobs"),
                       (REPLICA, "a")), samples
        host = f"node{number:04}:9400"
        for key, samples in (part for key, samples in series.items()
                             for part in in_its_dialect(number, key, samples)):
            labels = (*key, ("instance", host), ("job", "dcgm"))
            away = {ms for ms, _ in samples if OUTAGE_OF_A[0] < ms / 1000 <= OUTAGE_OF_A[1]}
            yield ((*labels, (REPLICA, "a")),
                   [(ms, v) for ms, v in samples if ms not in away])
            # A second scrape job asks the same exporters, as where two teams have set one up.
            yield ((*key, ("instance", host), ("job", "again")),
                   [(ms + 9000, v) for ms, v in samples
                    if number % 3 == 0 and ms < GAP[0] * 1000 - 60_000])
            # Before the gap b has every other exporter too, five seconds later.
            yield ((*labels, (REPLICA, "b")),
                   [(ms if ms in away else ms + 5000, v) for ms, v in samples
                    if ms in away or (number % 2 == 0 and ms < GAP[0] * 1000)])


def answers(folder, begin=START, end=END):
    """What flopwatch says of the window."""
    window = ("--from", str(begin), "--to", str(end), "--data-dir", folder, "-o", "json", "-q")
    jobs = {row["job"]: row for row in json.loads(run("jobs", "--limit", "10000", *window).stdout)}
    fleet = json.loads(run("report", *window).stdout)["usage"]
    levels = {level["name"]: level["gpu_seconds"]
              for level in json.loads(run("sankey", *window).stdout)["levels"]
              if level["gpu_seconds"] is not None}  # nobody says what was schedulable
    rows = run("sql", "SELECT count(*), count(DISTINCT (entity, ts)), sum(span_s) FROM samples",
               "--data-dir", folder, "-o", "csv", "-q").stdout.splitlines()[1].split(",")
    return {"jobs": jobs, "fleet": fleet, "levels": levels, "rows": rows}


def same(where, ours, direct):
    check(ours["rows"][0] == ours["rows"][1], f"{where}: rows stand twice: {ours['rows']}")
    for key in ("ofu", "gpu_seconds", "observed_gpu_seconds", "lost_gpu_seconds", "energy_j"):
        a, b = ours["fleet"][key], direct["fleet"][key]
        check(abs(a - b) <= 1e-9 * abs(b), f"{where}: {key} of the fleet is {a}, directly {b}")
    for level, a in ours["levels"].items():
        b = direct["levels"][level]
        check(a == b or abs(a - b) <= 1e-9 * abs(b), f"{where}: {level} of the Sankey: {a}, {b}")
    check(set(ours["jobs"]) == set(direct["jobs"]),
          f"{where}: other jobs: {sorted(set(ours['jobs']) ^ set(direct['jobs']))[:5]}")
    for name, job in direct["jobs"].items():
        for key in ("ofu", "gpu_seconds"):
            a, b = ours["jobs"][name][key], job[key]
            check(a == b or abs(a - b) <= 1e-9 * abs(b), f"{where}: {key} of {name}: {a}, {b}")


def by_job(rows):
    """GPU-seconds and OFU of jobs; labels name the pods of one, a scheduler names it."""
    jobs = {}
    for row in rows.values():
        job = jobs.setdefault(re.sub(r"-worker-\d+$", "", row["job"]),
                              {"gpu_seconds": 0, "ofu_seconds": 0, "gpus": 0})
        job["gpu_seconds"] += row["gpu_seconds"]
        job["ofu_seconds"] += (row["ofu"] or 0) * row["gpu_seconds"]
        job["gpus"] = max(job["gpus"], row["gpus"] or 0)
    return jobs


def as_scraped(folder, direct):
    """Outside of the gap the fleet is what it is in a store that its exporters' text went into. Who
    held a GPU is known by labels here and by the scheduler's file there: an interval at either
    end."""
    for begin, end in ((START + 120, GAP[0]), (GAP[1] + 120, END)):
        ours, theirs = answers(folder, begin, end), answers(direct, begin, end)
        for key in ("ofu", "gpu_seconds", "observed_gpu_seconds", "lost_gpu_seconds", "energy_j"):
            a, b = ours["fleet"][key], theirs["fleet"][key]
            # Before the gap a second job asks at other times, also at the window's ends; where each
            # second counted twice, a third would be too much.
            near = 1e-9 if begin > GAP[0] else 2e-3
            check(abs(a - b) <= near * abs(b), f"{key} of the fleet is {a}, scraped {b}")
        own_jobs, their_jobs = by_job(ours["jobs"]), by_job(theirs["jobs"])
        held = sum(2 * INTERVAL * job["gpus"] for job in their_jobs.values())
        for level, a in ours["levels"].items():
            b = theirs["levels"][level]
            check(abs(a - b) <= 1e-9 * b + held, f"{level} of the Sankey is {a}, scraped {b}")
        for name, job in their_jobs.items():
            if job["gpu_seconds"] < 600 * job["gpus"]:
                continue
            check(name in own_jobs, f"job {name} is not there")
            own = own_jobs[name]
            edges = 2 * INTERVAL * job["gpus"]
            check(abs(own["gpu_seconds"] - job["gpu_seconds"]) <= edges,
                  f"{name}: {own['gpu_seconds']} GPU-seconds, scraped {job['gpu_seconds']}")
            check(abs(own["ofu_seconds"] - job["ofu_seconds"]) <= edges,
                  f"{name}: OFU time {own['ofu_seconds']}, scraped {job['ofu_seconds']}")
            jobs_compared.append(name)


def imported(url, way, folder, *window, expect=0, parts=1):
    usual = REPLICA == "prometheus_replica" or WRITE_TO.get(url, "").endswith("/receive")
    # By this way three requests at a time.
    source = (("--tsdb", url) if way == "tsdb" else
              (url, "--way", way, *(("--parallel", "3") if way == "query" else ()),
               *(part for header in HEADERS.items() for part in ("--header", ": ".join(header))),
               *(("--parts", str(parts)) if parts > 1 else ()),
               *(() if usual else ("--replica-label", REPLICA))))
    r = run("import", "prometheus", *source, "--into", folder,
            *(window or ("--from", str(START), "--to", str(END))), expect=expect)
    return int(re.search(r"([\d,]+) rows new", r.stderr)[1].replace(",", "")), r.stderr


class Hostile(http.server.ThreadingHTTPServer):
    """A proxy before a real engine that does what busy, limited and broken ones do."""

    def __init__(self, url, mode):
        self.upstream, self.mode, self.asked, self.headers_seen = url, mode, 0, []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/prefix"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, content_type="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        server, mode = self.server, self.server.mode
        server.asked += 1
        server.headers_seen.append(dict(self.headers))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        check(self.path.startswith("/prefix/"), f"the prefix was lost: {self.path}")
        if mode == "forbidden":
            return self.answer(401, b"who are you")
        if mode == "elsewhere":
            return self.answer(302, b"", headers=[("Location", "http://127.0.0.1:1/steal")])
        if mode == "page":
            return self.answer(200, b"<html>log in</html>", "text/html")
        if mode == "busy" and server.asked % 5 == 2:
            return self.answer(429 if server.asked % 2 else 503, b"{}",
                               headers=[("Retry-After", "1")])
        if mode == "limited" and b"%5B" in body:  # a range of more than a minute is too much
            asked = re.search(rb"%5B(\d+)ms%5D", body)
            if int(asked[1]) > 100_000:
                return self.answer(422, b'{"status":"error","error":"too many samples"}')
        request = urllib.request.Request(
            server.upstream + self.path.removeprefix("/prefix"), body or None,
            {k: v for k, v in self.headers.items()
             if k.lower() not in ("host", "content-length", "accept-encoding")},
            method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=60) as r:
                status, text, kind = r.status, r.read(), r.headers["Content-Type"]
        except urllib.error.HTTPError as e:
            status, text, kind = e.code, e.read(), e.headers["Content-Type"]
        big = len(text) > 1000
        if mode == "partial" and big and kind.startswith("application/json"):
            text = text.replace(b'"status":"success"',
                                b'"status":"success","warnings":["a store is away"]', 1)
        if mode == "cut" and big:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text[:len(text) // 2])
            self.close_connection = True
            return None
        if mode == "lying" and big and "protobuf" in kind:  # one bit of a frame
            text = text[:500] + bytes([text[500] ^ 1]) + text[501:]
        return self.answer(status, text, kind)

    do_GET = do_POST = handle_one


def through_proxies(url, first):
    """What may pass is waited for; what may not stores nothing of its window and says why."""
    token = scratch() + "/token"
    with open(token, "w") as f:
        f.write("s3cret-token\n")
    for mode, way in (("busy", "remote_read"), ("limited", "query")):
        proxy, folder = Hostile(url, mode), scratch() + "/data"
        r = run("import", "prometheus", proxy.url, "--way", way, "--into", folder, "--from",
                str(START), "--to", str(END), "--bearer-token-file", token, "--header",
                "X-Scope-OrgID: tenant")
        opened = [h.get("Authorization") == "Bearer s3cret-token" and
                  h.get("X-Scope-OrgID") == "tenant" for h in proxy.headers_seen]
        check(all(opened), "not every request opened the server")
        check("s3cret" not in r.stdout + r.stderr, "the secret is shown")
        same(f"through a {mode} server", answers(folder), first)
        print(f"through a {mode} server: {proxy.asked} requests")
    for mode, way, words in (("forbidden", "query", "401"),
                             ("elsewhere", "query", "another server"),
                             ("page", "remote_read", "login page"), ("partial", "query", "partial"),
                             ("cut", "query", "whole answer"), ("cut", "remote_read", ""),
                             ("lying", "remote_read", "")):
        proxy, folder = Hostile(url, mode), scratch() + "/data"
        r = run("import", "prometheus", proxy.url, "--way", way, "--into", folder, "--from",
                str(START), "--to", str(END), "--bearer-token-file", token, expect=None)
        check(r.returncode not in (0, -6, -11, 134, 139), f"{mode}: ended with {r.returncode}")
        check(words in r.stderr and "s3cret" not in r.stderr, f"{mode}: {r.stderr}")
        if mode == "forbidden":
            check(not os.path.exists(folder), "a directory was made for nothing")
        print(f"{mode} by {way}: {r.stderr.strip().splitlines()[1]}")
        rows, said = imported(url, way, folder)  # the real one goes on from there
        same(f"after a {mode} server", answers(folder), first)


def killed(url, first):
    """Killed at moments that fall anywhere, again and again into one directory."""
    folder = scratch() + "/data"
    for k in range(10):
        process = subprocess.Popen([BINARY, "import", "prometheus", url, "--into", folder, "--from",
                                    str(START), "--to", str(END), "-q", "--parts",
                                    str(1 + k % 3)], stderr=subprocess.DEVNULL)
        time.sleep(0.05 + 0.13 * k)
        process.send_signal(signal.SIGKILL)
        process.wait()
    rows, said = imported(url, "auto", folder)
    print(f"after ten kills {rows} rows were new")
    same("after ten kills", answers(folder), first)


def into_a_server(url, first):
    """Into one that runs, and is killed again and again while it takes windows in."""
    folder = scratch() + "/data"

    def server():
        return Process("serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--target",
                       "http://127.0.0.1:1/metrics")

    window = ("--from", str(START), "--to", str(END))
    for k in range(10):
        process = server()
        importer = subprocess.Popen([BINARY, "import", "prometheus", url, "--server", process.url,
                                     *window, "-q", "--parts", str(1 + k % 3)],
                                    stderr=subprocess.PIPE, text=True)
        time.sleep(0.02 + 0.06 * k)
        process.kill9()
        importer.kill()
        importer.communicate()
    process = server()
    r = run("import", "prometheus", url, "--server", process.url, *window)
    print("into a server that was killed ten times: " + r.stderr.strip().splitlines()[-2])
    again = run("import", "prometheus", url, "--server", process.url, *window)
    check(" 0 rows new" in again.stderr, again.stderr)
    # A directory's now is its newest sample.
    end = END - 120
    live = json.loads(run("report", "--from", str(START), "--to", str(end), "--server", process.url,
                          "-o", "json", "-q").stdout)["usage"]
    process.stop()
    same("into a server", answers(folder), first)
    own = answers(folder, START, end)["fleet"]
    for key in ("ofu", "gpu_seconds", "observed_gpu_seconds"):
        check(abs(live[key] - own[key]) <= 1e-9 * abs(own[key]),
              f"{key}: the server says {live[key]}, its directory {own[key]}")


def overlapping(url, first):
    """In pieces, out of order, with the same time in several."""
    folder = scratch() + "/data"
    middle = (START + END) // 2
    for begin, end in ((middle - 600, END), (START, middle), (START, END)):
        imported(url, "auto", folder, "--from", str(begin), "--to", str(end))
    same("in pieces", answers(folder), first)


def without_raw(url, first):
    """Where raw rows are gone for their age and rollups say alone that there was something."""
    folder = scratch() + "/data"
    imported(url, "auto", folder)
    before = answers(folder)
    server = Process("serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--target",
                     "http://127.0.0.1:1/metrics",
                     environment={"FLOPWATCH_STORE_RAW_RETENTION": "50m"})  # the first hour goes
    until(lambda: int(rows_of(folder, server)) < int(before["rows"][0]), "raw rows are gone", 300)
    server.stop()
    left = answers(folder)
    rows, said = imported(url, "auto", folder)
    print(f"{before['rows'][0]} rows, {left['rows'][0]} left, {rows} new; {said.splitlines()[-2]}")
    check(rows == 0, f"{rows} rows are there twice: as rollups and raw")
    for key in ("ofu", "gpu_seconds", "observed_gpu_seconds"):
        check(answers(folder)["fleet"][key] == first["fleet"][key], f"{key} has changed")


def post(url):
    with urllib.request.urlopen(urllib.request.Request(url, b""), timeout=120) as r:
        return r.read()


def snapshot(url, data):
    answer = json.loads(post(url + "/api/v1/admin/tsdb/snapshot"))
    return os.path.join(data, "snapshots", answer["data"]["name"])


def blocks_of(folder):
    return sorted(name for name in os.listdir(folder)
                  if os.path.exists(os.path.join(folder, name, "meta.json")))


def without_server(name, url, data, first):
    """The same from the files."""
    whole = snapshot(url, data)
    blocks = blocks_of(whole)
    folder = scratch() + "/data"
    rows, said = imported(whole, "tsdb", folder)
    print(f"{name} by tsdb: {rows} rows of {len(blocks)} blocks")
    check(len(blocks) > 1, "the snapshot has the head alone")
    same(f"{name} by tsdb", answers(folder), first)
    again, said = imported(url, "remote_read", folder)
    check(again == 0, f"a second import added {again} rows: {said}")

    # All of the window that the files are of, when none is named.
    folder = scratch() + "/data"
    imported(whole, "tsdb", folder, "--from", str(START))
    same(f"{name} by tsdb, to its end", answers(folder), first)
    look = run("import", "prometheus", "--tsdb", whole, "--dry-run", "-o", "json")
    check(f"{GPUS} " in look.stdout and "tsdb" in look.stdout, look.stdout)

    # The data folder: what is in its log is said to be missing, and the server has it.
    folder = scratch() + "/data"
    rows, said = imported(data, "tsdb", folder)
    check("snapshot" in said and "write-ahead log" in said, said)
    rest, said = imported(url, "remote_read", folder)
    print(f"{name}'s data folder: {rows} rows, and {rest} that the server had alone")
    check(rows > 0 and rest > 0, f"{rows} and {rest} rows")
    same(f"{name}'s data folder and the rest", answers(folder), first)
    overlapping_and_damaged(name, whole, first)
    ofu = deleted(name, url, data)
    check(ofu != first["fleet"]["ofu"], "nothing was deleted")


def overlapping_and_damaged(name, whole, first):
    twice = scratch() + "/twice"
    shutil.copytree(whole, twice)
    for k, block in enumerate(blocks_of(whole)):
        shutil.copytree(os.path.join(whole, block), os.path.join(twice, f"{k:026}"))
    shutil.copytree(os.path.join(whole, block), os.path.join(twice, f"{block}.tmp-for-creation"))
    folder = scratch() + "/data"
    imported(twice, "tsdb", folder)
    same(f"{name} with every block twice", answers(folder), first)

    for file, words in (("chunks/000001", "checksum"), ("index", "checksum"),
                        ("tombstones", "tombstones"), ("meta.json", "meta.json")):
        broken = scratch() + "/broken"
        shutil.copytree(whole, broken)
        path = os.path.join(broken, blocks_of(broken)[0], file)
        with open(path, "rb") as f:
            text = bytearray(f.read())
        text[len(text) // 2] ^= 0xff
        os.unlink(path)  # not the snapshot's own, which is linked to the server's
        with open(path, "wb") as f:
            f.write(text)
        folder = scratch() + "/data"
        rows, said = imported(broken, "tsdb", folder, expect=7)
        check(words in said and "cannot be read" in said, f"a broken {file}: {said}")
        check(rows > 0, f"a broken {file} costs all: {said}")
        damage = [line for line in said.splitlines() if "damaged" in line]
        print(f"a broken {file}: {rows} rows; {damage[-1]}")
        imported(whole, "tsdb", folder)
        same(f"{name} after a broken {file}", answers(folder), first)


def deleted(name, url, data):
    """Last: the server has less from then on. What the files have with tombstones is what it says
    itself once it has rewritten them. (Before that 3.16 panics in some windows: tombstones
    .Intervals.Add.)"""
    query = urllib.parse.urlencode({
        "match[]": '{__name__=~"DCGM_FI_PROF_.*",instance=~"node000[0-3].*"}',
        "start": START + 1000, "end": START + 2200})
    post(f"{url}/api/v1/admin/tsdb/delete_series?{query}")
    with_stones = snapshot(url, data)
    sizes = [os.path.getsize(os.path.join(with_stones, block, "tombstones"))
             for block in blocks_of(with_stones)]
    check(max(sizes) > 1000, f"no tombstones: {sizes} bytes")
    post(url + "/api/v1/admin/tsdb/clean_tombstones")
    folder, other = scratch() + "/data", scratch() + "/data"
    imported(with_stones, "tsdb", folder)
    imported(url, "query", other)
    theirs = answers(other)
    same(f"{name} after something was deleted", answers(folder), theirs)
    print(f"{name}: {theirs['fleet']['ofu']} after something was deleted")
    return theirs["fleet"]["ofu"]


def rows_of(folder, server):
    return server.sql("SELECT count(*) AS n FROM samples")[0]["n"]


def main():
    urls, folders = {}, {}
    for name in CHOSEN:
        urls[name], folders[name] = engine(name)
        if urls[name] is None:
            print(f"without {name}: {folders[name]}")
    urls = {name: url for name, url in urls.items() if url}
    if not urls:
        sys.exit(SKIP)
    fill(list(urls.values()))
    direct = scratch() + "/direct"
    run("simulate", "fleet", *FLEET, "--into", direct)
    first = None
    for name, url in urls.items():
        ways = WAYS[ENGINES[name][0]]
        for way in ways:
            folder = scratch() + "/data"
            began = time.time()
            os.environ["FLOPWATCH_STORE_RAW_RETENTION"] = "2d"
            rows, said = imported(url, way, folder)
            del os.environ["FLOPWATCH_STORE_RAW_RETENTION"]
            check("store.raw_retention" in said, "nothing is said of its age: " + said)
            check(rows > 0, said)
            got = answers(folder)
            print(f"{name} by {way}: {rows} rows in {time.time() - began:.1f} s", flush=True)
            if first is None:
                first = got
                as_scraped(folder, direct)
            same(f"{name} by {way}", got, first)
            in_parts = scratch() + "/data"
            again, said = imported(url, way, in_parts, parts=3)
            check(again == rows, f"in parts there are {again} rows and not {rows}: {said}")
            same(f"{name} by {way} in parts", answers(in_parts), first)
            for parts in (1, 5):
                again, said = imported(url, ways[0], folder, parts=parts)
                check(again == 0, f"a second import added {again} rows: {said}")
            same("after a second import", answers(folder), first)
    if AMD:
        models = run("sql", "SELECT DISTINCT model FROM gpus", "--data-dir", folder).stdout
        check("MI300X" in models, models)
    if OWNERS:
        look = run("import", "prometheus", next(iter(urls.values())), "--dry-run", "--from",
                   str(START), "--to", str(END), "-o", "json")
        for metric in ("slurm_job_utilization_gpu", "nvidia_gpu_jobId", "ceems_compute_unit_gpu"):
            check(metric in look.stdout, look.stdout)
    if OWNERS or AMD or WAYS_ALONE:
        print(f"{len(jobs_compared)} jobs compared with what was scraped")
        check(len(jobs_compared) > 4, "too few jobs")
        return
    if CHOSEN[0] == "prometheus":
        overlapping(url, first)
        killed(url, first)
        into_a_server(url, first)
        without_raw(url, first)
        if "prometheus" in urls:
            through_proxies(urls["prometheus"], first)
    for name, url in urls.items():
        if ENGINES[name][0] == "prometheus":
            without_server(name, url, folders[name] + "/data", first)
    print(f"{len(jobs_compared)} jobs compared with what was scraped")
    check(len(jobs_compared) > 4, "too few jobs")


stops, jobs_compared = [], []
try:
    main()
finally:
    for tool, folder in stops:
        subprocess.run([os.path.join(TOP, "tools", tool), "stop", folder], capture_output=True)
