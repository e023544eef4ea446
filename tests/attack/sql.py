"""SQL of strangers: memory, time, leavers, pages of other sites. Each query is a process of its own
that is limited; the server and other answers go on."""
import json
import os
import select
import signal
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import Process, check, run, runs, scratch, until
from others import Others

MAX_MEMORY = 1536 << 20  # of the server and all its children
SLOW = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE (a.range*b.range)%7=3"
# Short texts that take all the memory there is, some past what the engine counts.
HUNGRY = ("SELECT list(range) FROM range(1000000000)",
          "SELECT string_agg(range::VARCHAR) FROM range(1000000000)",
          "SELECT count(DISTINCT range*7) FROM range(1000000000)",
          "SELECT range % 100000007, count(*) FROM range(1000000000) GROUP BY ALL")
LINE = ('DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="n"} 1500\n')


def ask(server, sql, headers=(), limit=1000, timeout=100):
    """Status and body of GET /api/v1/sql; the answer's own headers."""
    request = urllib.request.Request(
        server.url + "/api/v1/sql?" + urllib.parse.urlencode({"q": sql, "limit": limit}),
        headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=timeout) as r:
            return r.status, r.read().decode(), r.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), e.headers


def in_background(work):
    def guarded():
        try:
            work()
        except OSError:
            pass
    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    return thread


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def metric(server, outcome):
    name = f'flopwatch_sql_queries_total{{outcome="{outcome}"}} '
    return next(int(line[len(name):]) for line in server.get("/metrics").splitlines()
                if line.startswith(name))


data = scratch()
run("simulate", "fleet", "--gpus", "64", "--hours", "3", "--into", data)
start = ("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
server = Process(*start, environment={"FLOPWATCH_SQL_TIMEOUT": "20s"})

# It answers with what is stored, and says as of when.
rows = server.sql("SELECT count(*) AS n FROM samples")[0]["n"]
check(rows > 0, "nothing is stored")
with urllib.request.urlopen(urllib.request.Request(
        server.url + "/api/v1/push/n", data=LINE.encode(), method="POST"), timeout=30) as r:
    check(r.status == 200, "the push was not taken")
until(lambda: server.sql("SELECT count(*) AS n FROM samples WHERE gpu = 'GPU-1'")[0]["n"] == 1,
      "what was pushed to be seen", seconds=70)

# Pages of other sites start nothing.
own = f"http://127.0.0.1:{server.port}"
for headers, status in (({"Sec-Fetch-Site": "cross-site"}, 403),
                        ({"Sec-Fetch-Site": "same-site"}, 403),
                        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                        ({"Referer": "http://evil.example/a"}, 403),
                        ({"User-Agent": "Mozilla/5.0 (X11)"}, 403),
                        ({"User-Agent": "Mozilla/5.0 (X11)", "Referer": own + "/"}, 200),
                        ({"Referer": own + "/sql", "Sec-Fetch-Site": "same-origin"}, 200),
                        ({"Sec-Fetch-Site": "none"}, 200)):
    got = ask(server, "SELECT 1", headers)[0]
    check(got == status, f"{headers}: {got}, not {status}")

# Memory: what they may take together, and what others notice.
with Others(server.url, "hungry queries"):
    peak, answers = 0, []
    threads = [in_background(lambda sql=sql: answers.append((sql, ask(server, sql))))
               for sql in HUNGRY]
    while any(t.is_alive() for t in threads):
        peak = max(peak, resident(server.process.pid) + sum(map(resident, server.workers())))
        time.sleep(0.02)
print(f"hungry queries: at most {peak >> 20} MiB together", flush=True)
check(peak < MAX_MEMORY, f"{peak} bytes of memory")
check(len(answers) == len(HUNGRY), "a hungry query got no answer")
for sql, (status, body, _) in answers:
    check(status in (429, 503, 504), f"{sql}: {status} {body[:200]}")
    check(json.loads(body)["error"]["message"], f"{sql}: no reason")
    print(f"  {status} {json.loads(body)['error']['message'][:110]}", flush=True)

# A client that leaves takes its query along.
left = metric(server, "left")
s = socket.create_connection(("127.0.0.1", server.port))
s.sendall(f"GET /api/v1/sql?{urllib.parse.urlencode({'q': SLOW})} HTTP/1.1\r\n"
          "Host: localhost\r\n\r\n".encode())
pid = until(lambda: server.workers(), "the query to begin")[0]
begun = time.time()
s.close()
until(lambda: not runs(pid), "the query of a client that left to end", seconds=10, every=0.005)
print(f"a leaver's query ended after {time.time() - begun:.2f} s", flush=True)
until(lambda: metric(server, "left") == left + 1, "it to be counted")

# Too many: two run, eight wait, others are told to come back.
kept = []
for _ in range(12):
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(f"GET /api/v1/sql?{urllib.parse.urlencode({'q': SLOW})} HTTP/1.1\r\n"
              "Host: localhost\r\n\r\n".encode())
    kept.append(s)
until(lambda: len(select.select(kept, [], [], 0)[0]) >= 2, "two to be turned away", seconds=10)
answered = select.select(kept, [], [], 1)[0]
# Those that have been taken and not yet begun wait, too.
check(2 <= len(answered) <= 4, f"{len(answered)} of 12 were turned away")
for s in answered:
    said = s.recv(4096).decode()
    check(said.startswith("HTTP/1.1 429 ") and "Retry-After:" in said, said)
until(lambda: len(server.workers()) == 2, "two queries to run")
with Others(server.url, "a full queue"):
    time.sleep(2)
for s in kept:
    s.close()
until(lambda: ask(server, "SELECT 1")[0] == 200, "it to go on", seconds=10)
check(not server.workers(), "queries of clients that left go on")

# A process that dies is a clear error and nothing else.
died = []
thread = in_background(lambda: died.append(ask(server, SLOW)))
os.kill(until(lambda: server.workers(), "the query to begin")[0], signal.SIGKILL)
thread.join(30)
check(died and died[0][0] == 503 and "signal 9" in died[0][1], f"a dead process: {died}")
check(ask(server, "SELECT 1")[0] == 200, "it does not go on")

# Answers are bounded.
status, body, _ = ask(server, "SELECT (SELECT string_agg(range::VARCHAR) FROM range(600)) AS t "
                              "FROM range(20000)", limit=100000)
check(status == 200 and json.loads(body)["truncated"] and len(body) < 64 << 20,
      f"an answer of {len(body)} bytes, {status} {body[:300]}")

# As is their text.
check(ask(server, "SELECT " + "1" * 70_000)[0] in (400, 414, 431), "a long query is taken")
long = urllib.request.Request(server.url + "/api/v1/sql", method="POST",
                              data=json.dumps({"query": "SELECT " + "1" * 70_000}).encode())
try:
    urllib.request.urlopen(long, timeout=30)
    check(False, "a long query is taken")
except urllib.error.HTTPError as e:
    check(e.code == 400, f"a long query: {e.code}")

# Nothing is written, by any way.
before = sorted(os.listdir(data))
for sql in ("COPY (SELECT 1) TO 'x.csv'", "ATTACH 'x.duckdb'", "CREATE TABLE x AS SELECT 1",
            "SELECT * FROM read_csv('/etc/passwd')", "SELECT 1; SELECT 2"):
    status, body, _ = ask(server, sql)
    check(status in (400, 403), f"{sql}: {status} {body[:200]}")
check(sorted(os.listdir(data)) == before, "a query left something")

# SIGTERM ends them.
threads = [in_background(lambda: ask(server, SLOW)) for _ in range(2)]
running = until(lambda: len(server.workers()) == 2 and server.workers(), "two queries to run")
begun = time.time()
check(server.stop(10) == 0, "it ended badly:\n" + server.text())
print(f"SIGTERM beside two queries: {time.time() - begun:.2f} s", flush=True)
check(not any(map(runs, running)), "queries outlive their server")

# Time; and a server that is killed.
server = Process(*start, environment={"FLOPWATCH_SQL_TIMEOUT": "1s"})
status, body, _ = ask(server, SLOW)
check(status == 504 and "longer than 1s" in body, f"{status} {body}")
server.kill9()
server = Process(*start)
in_background(lambda: ask(server, SLOW))
pid = until(lambda: server.workers(), "the query to begin")[0]
server.kill9()
until(lambda: not runs(pid), "the query to end with its server", seconds=10)
check(os.listdir(data + "/copies"), "there is a copy of what was stored")
server = Process(*start)
check(not os.listdir(data + "/copies"), "copies of a server that was killed are kept")
check(server.sql("SELECT count(*) AS n FROM samples")[0]["n"] >= rows, "rows are lost")
check(server.stop(10) == 0, "it ended badly:\n" + server.text())
print("sql: ok")
