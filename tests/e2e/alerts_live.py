"""A server that is killed again and again while alerts fire and end: none is lost, none forgotten,
and what a kill cut off is told again under the same key, once at most. Then a receiver is away, the
clock of nothing jumps, a silence is in force, and what a replay of the stored rows says is what the
live run said.
"""
import http.server
import json
import os
import random
import threading
import time
import urllib.request

from harness import Process, check, run, scratch, until

KILLS = 8
GPUS = 12
RULES = """
[rules.hot]
scope = "gpu"
when = "gpu_temp_c > 90"
for = "2s"
keep_firing = "1s"
group = "gpu"
severity = "ticket"
value = "gpu_temp_c"
threshold = "90"
summary = "{gpus} of {node} at {value}"
"""


class Sink(http.server.ThreadingHTTPServer):
    """What came, and whether it is taken."""

    def __init__(self):
        self.came, self.status, self.lock = [], 200, threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/hook"

    def keys(self):
        with self.lock:
            return [t["key"] for t in self.came]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        check(self.headers["Idempotency-Key"] == body["key"], "the key is no header")
        with self.server.lock:
            status = self.server.status
            if status == 200:
                self.server.came.append(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def text(hot):
    """An exporter's, of all GPUs of a node."""
    lines = []
    for gpu in range(GPUS):
        labels = (f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",'
                  f'Hostname="n1",hpc_job="7"')
        for name, value in (("DCGM_FI_DEV_GPU_TEMP", 95 if gpu in hot else 60),
                            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", .4 + random.random() / 100),
                            ("DCGM_FI_DEV_SM_CLOCK", 1700), ("DCGM_FI_DEV_POWER_USAGE", 600),
                            ("DCGM_FI_DEV_GPU_UTIL", 99)):
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def main():
    random.seed(1)
    sink, folder = Sink(), scratch()
    rules = folder + "/rules.toml"
    with open(rules, "w") as f:
        f.write(RULES)
    data, hot, pushing = folder + "/data", set(), threading.Event()
    environment = {"FLOPWATCH_ALERTS_INTERVAL": "1s", "FLOPWATCH_ALERTS_GRACE": "1s"}

    def server():
        return Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target",
                       "http://127.0.0.1:1/metrics", "--alert-webhook", sink.url, "--alert-rules",
                       rules, "--external-url", "https://fleet.example", environment=environment)

    process = [server()]

    def push():
        while not pushing.is_set():
            try:
                urllib.request.urlopen(urllib.request.Request(
                    process[0].url + "/api/v1/push/n1", text(set(hot)).encode()), timeout=5).read()
            except OSError:
                pass  # it is killed
            time.sleep(.5)

    threading.Thread(target=push, daemon=True).start()

    def fired():
        return {k.split(":")[0] for k in sink.keys() if ":firing" in k}

    for k in range(KILLS):
        hot.add(k)
        time.sleep(2.5 + 2 * random.random())  # anywhere before, in and after the telling
        process[0].kill9()
        process[0] = server()
    until(lambda: len(fired()) >= KILLS, "every alert was told", 60)
    firing = process[0].json("/api/v1/alerts")["alerts"]
    check({a["subject"]["gpus"][0] for a in firing if a["rule"] == "hot"} ==
          {f"GPU-{k}" for k in range(KILLS)}, f"firing: {firing}")
    repeats = len(sink.keys()) - len(set(sink.keys()))
    check(repeats <= KILLS, f"{repeats} repeats in {KILLS} kills: {sink.keys()}")

    # A receiver that is away: nothing is lost, the order stays.
    sink.status = 500
    hot.update(range(KILLS, GPUS))
    until(lambda: process[0].json("/api/v1/alerts")["engine"]["outbox"] == GPUS - KILLS,
          "they wait", 60)
    process[0].kill9()
    process[0] = server()
    sink.status = 200
    until(lambda: len(fired()) == GPUS, "they come when it is back", 90)

    # All end; each that was told is told to be over.
    hot.clear()
    until(lambda: len({k for k in sink.keys() if ":resolved" in k}) >= GPUS, "resolved", 60)
    ids = {k.split(":")[0] for k in sink.keys()}
    check(len(ids) == GPUS, f"{len(ids)} alerts for {GPUS} GPUs")

    # A silence.
    r = run("alerts", "silence", "gpu=GPU-3", "--for", "1h", "--owner", "ann", "--server",
            process[0].url)
    before = len(sink.keys())
    hot.add(3)
    until(lambda: any(a["silenced_by"] for a in
                      process[0].json("/api/v1/alerts")["alerts"]), "silenced", 30)
    time.sleep(2)
    check(len(sink.keys()) == before, f"it was told: {sink.keys()[before:]}")
    listed = json.loads(run("alerts", "-o", "json", "--rule", "hot", "--server",
                            process[0].url).stdout)
    check(len(listed) == 1 and listed[0]["subject"]["gpus"] == ["GPU-3"] and
          listed[0]["link"] == "https://fleet.example/alerts/" + listed[0]["id"], f"{listed}")

    # The health of the job, and what a service did.
    health = process[0].json("/api/v1/jobs/7/health")
    check(health["gpus"] == GPUS and health["age_s"] < 30 and
          health["suspect_nodes"] == ["n1"], f"{health}")
    urllib.request.urlopen(urllib.request.Request(
        f"{process[0].url}/api/v1/alerts/{listed[0]['id']}/notes",
        b'{"text": "fan replaced", "by": "healer", "did": "restart", "close": true}',
        {"Content-Type": "application/json"})).read()
    one = process[0].json("/api/v1/alerts/" + listed[0]["id"])
    check(one["state"] == "resolved" and one["notes"][0]["text"] == "healer: fan replaced",
          f"{one}")
    # The restart is marked with the job, and a kill forgets it no more than the rest.
    process[0].kill9()
    process[0] = server()
    marks = process[0].json("/api/v1/jobs/7/health")["marks"]
    check([(m["did"], m["by"], m["text"], m["alert"]) for m in marks] ==
          [("restart", "healer", "fan replaced", listed[0]["id"])], f"{marks}")

    # The replay of what was stored: the same GPUs, within its interval of 15 s.
    pushing.set()
    live = process[0].json("/api/v1/alerts?state=all&rule=hot")["alerts"]
    process[0].stop()
    replayed = json.loads(run("alerts", "test", "hot", "--from", "-1h", "--alert-rules", rules,
                              "--every", "1", "--data-dir", data, "-o", "json").stdout)
    check({g for a in replayed for g in a["subject"]["gpus"]} ==
          {g for a in live for g in a["subject"]["gpus"]}, f"replayed: {replayed}")
    print(f"{KILLS + 1} kills, {len(sink.keys())} told, {repeats} twice, "
          f"{len(replayed)} of {len(live)} again in the replay")


main()
