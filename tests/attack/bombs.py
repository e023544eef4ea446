"""Bodies and traces that are small as sent and large unpacked: bounded in memory, refused with a
reason, other answers meanwhile; and a trace that ends the server twice is not tried a third
time."""
import gzip
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request

from harness import Process, check, scratch, until
from others import Others

MIB = 1 << 20
MAX_RSS = 1536 * MIB
folder = scratch()
START = ("serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--no-page",
         "--target", "127.0.0.1:1")
os.environ["FLOPWATCH_TRACES_MAX_MEMORY_MB"] = "64"
server = Process(*START)
worst = {"rss": 0}


def rss():
    return [int(line.split()[1]) << 10 for line in open(f"/proc/{server.process.pid}/status")
            if line.startswith("VmRSS")][0]


def watch(stop):
    while not stop.is_set():
        worst["rss"] = max(worst["rss"], rss())
        time.sleep(0.02)


def post(path, body, headers=None):
    request = urllib.request.Request(server.url + path, data=body, method="POST",
                                     headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
    except (OSError, http.client.HTTPException):
        return 0, b""


def much(byte, bytes_):
    """In members of 64 MiB, because a stream of this size takes long to pack."""
    return gzip.compress(byte * (64 * MIB), 9) * (bytes_ // (64 * MIB))


def ended(trace):
    return until(lambda: (r := server.json("/api/v1/traces/" + trace))["state"] in
                 ("ready", "failed") and r, "the analysis to end", seconds=120)


def analysed(name, body):
    """What came of it: read with what it lost, or failed with the reason, but ended."""
    status, answer = post("/api/v1/traces?name=" + name, body)
    check(status == 201, f"{name}: {status} {answer}")
    record = ended(json.loads(answer)["id"])
    print(f"{name}: {record['state']} {(record['error'] or '')[:100]}", flush=True)
    return record


def kernels(n, name):
    return "".join('{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":%d,"dur":1,'
                   '"args":{"device":0,"stream":7,"correlation":%d}},\n' % (name(i), 2 * i, i)
                   for i in range(n))


def trace(events):
    return gzip.compress(('{"traceEvents":[\n' + events + "{}]}").encode(), 1)


stop = threading.Event()
watcher = threading.Thread(target=watch, args=(stop,), daemon=True)
watcher.start()

# Bodies: 64 KiB each that become 63 MiB, from many clients at once.
bomb = gzip.compress(b"#" + b"x" * (63 * MIB - 1), 9)
codes = []
threads = [threading.Thread(target=lambda: [
    codes.append(post("/api/v1/push/n", bomb, {"Content-Encoding": "gzip"})[0])
    for _ in range(2)]) for _ in range(8)]
with Others(server.url, "bodies that unpack to 63 MiB"):
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"bodies: {sorted(set(codes))}", flush=True)
    # One larger than any body may be unpacked.
    check(post("/api/v1/push/n", much(b"x", 256 * MIB), {"Content-Encoding": "gzip"})[0] == 413,
          "a body over the limit is not 413")

OPEN = gzip.compress(b'{"traceEvents":[')
with Others(server.url, "traces that unpack to 512 MiB"):
    analysed("blanks", OPEN + much(b" ", 512 * MIB))
    analysed("nested", OPEN + much(b"[", 128 * MIB))
    analysed("string", OPEN + gzip.compress(b'{"name":"') + much(b"x", 128 * MIB))
    record = analysed("names", trace(kernels(400_000, lambda i: f"a kernel with the name {i}")))
check("traces.max_memory_mb" in (record["error"] or ""), f"{record}")
stop.set()
watcher.join()
print(f"largest memory {worst['rss'] / MIB:.0f} MiB", flush=True)
check(worst["rss"] < MAX_RSS, f"the server took {worst['rss'] / MIB:.0f} MiB")

# Whatever ends the server during an analysis, twice: the third one starts and stays.
os.environ["FLOPWATCH_TRACES_MAX_MEMORY_MB"] = "4096"
check(server.stop(10) == 0, "it did not stop")
server = Process(*START)
status, answer = post("/api/v1/traces", trace(kernels(10_000, lambda i: f"k{i % 97}") * 100))
check(status == 201, f"the trace was not taken: {status} {answer}")
path = "/api/v1/traces/" + json.loads(answer)["id"]
for _ in range(2):
    until(lambda: server.json(path)["state"] == "analysing", "the analysis to begin", every=0.01)
    server.kill9()
    server = Process(*START)
record = until(lambda: (r := server.json(path))["state"] == "failed" and r,
               "the trace to fail for good")
check("ended 2 times" in record["error"], f"{record}")
check("flopwatch_trace_given_up_total 1\n" in server.get("/metrics"), "it is not counted")
check(server.stop(10) == 0, "it did not stop")
