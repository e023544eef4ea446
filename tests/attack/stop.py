"""SIGTERM ends the server within 10 s whatever runs, and what was acknowledged is there again."""
import gzip
import http.server
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request

from harness import Process, check, scratch, until
from others import Others

DEADLINE = 10
LIVES_S = 2  # under each attack, so that there is a p99 of other answers
MAX_RSS = 1536 << 20
LINE = ('DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-{u}",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="n"}} 1500\n')


class Silent(http.server.BaseHTTPRequestHandler):
    """An exporter and a discovery server that take a question and never answer."""

    def do_GET(self):
        asked.set()
        time.sleep(120)

    def log_message(self, *args):
        pass


asked = threading.Event()
silent = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
silent.daemon_threads = True
threading.Thread(target=silent.serve_forever, daemon=True).start()
silent_url = f"http://127.0.0.1:{silent.server_address[1]}"


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def in_background(work):
    def run():
        try:
            work()
        except OSError:
            pass
    threading.Thread(target=run, daemon=True).start()


def query(server, sql):
    in_background(lambda: server.get("/api/v1/sql?" + urllib.parse.urlencode({"q": sql})))
    time.sleep(1)


def slow_query(server):
    query(server, "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE (a.range * "
                  "b.range) % 7 = 3")


def two_slow_queries(server):  # all workers
    slow_query(server)
    slow_query(server)


def trickling_upload(server):
    s = connect(server)
    s.sendall(b"POST /api/v1/traces HTTP/1.1\r\nHost: localhost\r\n"
              b"Content-Length: 1000000\r\n\r\n{")
    kept.append(s)
    in_background(lambda: [(s.sendall(b" "), time.sleep(0.2)) for _ in range(300)])


def slow_reader(server):
    s = connect(server)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(200):
        s.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    kept.append(s)


def half_a_request(server):
    s = connect(server)
    s.sendall(b"GET / HTTP/1.1\r\nHo")
    kept.append(s)


def analysis(server):
    """A trace that takes long to read: as many events as the server takes."""
    events = int(os.environ.get("FLOPWATCH_ATTACK_EVENTS", "1500000"))
    part = "".join(
        '{"ph":"X","cat":"cpu_op","name":"op%d","pid":1,"tid":%d,"ts":%d,"dur":9,"args":{}},\n'
        % (i % 997, i % 7, 10 * i) for i in range(10000)).encode()
    body = gzip.compress(b'{"traceEvents":[\n' + part * (events // 10000) + b"{}]}", 1)
    with urllib.request.urlopen(urllib.request.Request(
            server.url + "/api/v1/traces", data=body, method="POST"), timeout=60) as r:
        check(r.status == 201, "the trace was not taken")
    until(lambda: server.json("/api/v1/traces")["traces"][0]["state"] == "analysing",
          "the analysis to begin")
    # One request waits for it.
    in_background(lambda: server.get(server_trace(server) + "/report?wait=60", timeout=120))
    time.sleep(0.5)


def server_trace(server):
    return "/api/v1/traces/" + server.json("/api/v1/traces")["traces"][0]["id"]


def after_analysis(folder):
    """It was not the trace that ended the server: no attempt is counted."""
    marks = [f for _, _, files in os.walk(folder) for f in files if f == "attempt.json"]
    check(not marks, "an analysis that was stopped counts as one the server did not survive")


kept = []
ATTACKS = {
    "nothing": (lambda server: None, (), None),
    "slow_query": (slow_query, (), None),
    "two_slow_queries": (two_slow_queries, (), None),
    "analysis": (analysis, (), after_analysis),
    "silent_exporter": (lambda server: asked.wait(20), ("--target", silent_url + "/metrics",
                                                        "--interval", "60s", "--timeout", "50s"),
                        None),
    "silent_http_sd": (lambda server: asked.wait(20),
                       sum((("--http-sd", f"{silent_url}/{k}") for k in range(3)), ()), None),
    "trickling_upload": (trickling_upload, (), None),
    "slow_reader": (slow_reader, (), None),
    "half_a_request": (half_a_request, (), None),
}

for name in sys.argv[1:] or ATTACKS:
    attack, arguments, afterwards = ATTACKS[name]
    folder = scratch()
    start = ("serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--no-page")
    asked.clear()
    server = Process(*start, *(arguments or ("--target", "127.0.0.1:1")))
    push = urllib.request.Request(server.url + "/api/v1/push/n",
                                  data=LINE.format(u=name).encode(), method="POST")
    with urllib.request.urlopen(push, timeout=30) as r:
        check(r.status == 200, "the push was not taken")
    with Others(server.url, name):
        attack(server)
        time.sleep(LIVES_S)
    peak = server.peak()
    check(peak < MAX_RSS, f"{name}: {peak} bytes of memory")
    begun = time.time()
    server.process.send_signal(signal.SIGTERM)
    try:
        code = server.process.wait(DEADLINE)
    except Exception:
        check(False, f"{name}: SIGTERM did not end it within {DEADLINE} s:\n" + server.text())
    print(f"{name}: ended after {time.time() - begun:.1f} s, at most {peak >> 20} MiB", flush=True)
    check(code == 0, f"{name}: it ended with {code}:\n" + server.text())
    for s in kept:
        s.close()
    kept.clear()
    if afterwards:
        afterwards(folder)
    if name in ("nothing", "two_slow_queries", "trickling_upload"):
        again = Process(*start, "--target", "127.0.0.1:1")
        gpus = [g["gpu"] for g in again.json("/api/v1/gpus")["gpus"]]
        check(gpus == [f"GPU-{name}"], f"{name}: what was acknowledged is lost: {gpus}")
        again.kill9()
