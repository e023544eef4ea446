"""A trace that crashes, fills or outlives its analysis harms itself alone: the analysis is a
process of its own, limited, and ends with its server."""
import gzip
import os
import signal
import urllib.request

from harness import Process, check, run, runs, scratch, until

SMALL = (b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,'
         b'"args":{"device":0,"stream":7,"correlation":1}}]}')


def large(own_names=False):
    """As many events as take seconds to analyse."""
    events = int(os.environ.get("FLOPWATCH_ATTACK_EVENTS", "1500000"))
    part = "".join(
        '{"ph":"X","cat":"cpu_op","name":"op%d","pid":1,"tid":%d,"ts":%d,"dur":9,"args":{}},\n'
        % (i if own_names else i % 997, i % 7, 10 * i) for i in range(10000)).encode()
    return gzip.compress(b'{"traceEvents":[\n' + part * (events // 10000) + b"{}]}", 1)


def upload(server, body):
    with urllib.request.urlopen(urllib.request.Request(
            server.url + "/api/v1/traces", data=body, method="POST"), timeout=60) as r:
        check(r.status == 201, "the trace was not taken")
        return r.headers["Location"]


def analysing(server, location):
    """The worker of this trace, once it says what it does."""
    until(lambda: server.json(location)["progress"], "the analysis to say what it does")
    found = server.workers()
    check(len(found) == 1, f"{len(found)} processes analyse one trace")
    return found[0]


def ended(server, location):
    until(lambda: server.json(location)["state"] in ("ready", "failed"), "the analysis to end")
    return server.json(location)


folder = scratch()
start = ("serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--no-page", "--target",
         "127.0.0.1:1")
server = Process(*start)
check(ended(server, upload(server, SMALL))["state"] == "ready", "a small trace is not analysed")
before = server.peak()

# It crashes.
crashed = upload(server, large())
os.kill(analysing(server, crashed), signal.SIGSEGV)
record = ended(server, crashed)
check(record["state"] == "failed" and "signal 11" in record["error"],
      f"a crash is not said: {record}")
check(record["progress"] is None, "what ended still says what it does")
check(ended(server, upload(server, SMALL))["state"] == "ready",
      "no trace after a crash is analysed")

# It takes much memory: its own.
check(ended(server, upload(server, large()))["state"] == "ready", "a large trace is not analysed")
grown = server.peak() - before
print(f"the server grew by {grown >> 20} MiB over a large trace", flush=True)
check(grown < 128 << 20, f"the analysis took {grown} bytes of the server")

# The server is told to end meanwhile: the trace is not to blame, and is analysed by the next one.
begun = upload(server, large())
worker = analysing(server, begun)
check(server.stop(10) == 0, "it ended badly:\n" + server.text())
check(not runs(worker), "the analysis outlives its server")
server = Process(*start)
check(server.json(crashed)["state"] == "failed", "a crash is forgotten by the next server")
check(server.json(begun)["state"] in ("queued", "analysing"),
      "a stopped analysis is not done again")

# The server is killed meanwhile.
worker = analysing(server, begun)
server.kill9()
until(lambda: not runs(worker), "the analysis to end with its server", seconds=10)

# More memory than one may take is refused by name.
server = Process(*start, environment={"FLOPWATCH_TRACES_MAX_MEMORY_MB": "64"})
record = ended(server, begun)
check(record["state"] == "failed" and "traces.max_memory_mb" in record["error"],
      f"it is not said that memory was too little: {record}")
check(server.stop(10) == 0, "it ended badly:\n" + server.text())

# Nobody else starts one.
check("no worker" in run("worker", "nothing", expect=2).stderr, "an unknown worker says nothing")
print("traces: ok")
