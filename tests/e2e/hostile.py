"""A duplicated, truncated, oversized, slow, lying or malicious exporter harms only its own target,
and shows."""
import gzip
import json
import multiprocessing
import os
import socket
import socketserver
import threading
import time

from harness import Process, check, scratch, until

LINE = ('DCGM_FI_{f}{{gpu="0",UUID="GPU-{u}",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",Hostname="{h}"}} {v}\n')


def body(uuid, host, tensor="0.300000", util="99"):
    return (LINE.format(f="PROF_PIPE_TENSOR_ACTIVE", u=uuid, h=host, v=tensor) +
            LINE.format(f="DEV_SM_CLOCK", u=uuid, h=host, v="1500") +
            LINE.format(f="DEV_GPU_UTIL", u=uuid, h=host, v=util)).encode()


def answer(payload, extra=b""):
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + extra +
            b"Content-Length: %d\r\n\r\n" % len(payload) + payload)


def slow(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(600):
        connection.sendall(b"#")
        time.sleep(0.1)


def endless(connection):
    connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20000):
        connection.sendall(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")


OWN_ADDRESS = {"honest": "honest", "liar": "liar"}  # targets whose host name discovery gives
honest_has_it = multiprocessing.Event()

BEHAVIOURS = {
    "good": lambda c: c.sendall(answer(body("good", "good"))),
    "truncated": lambda c: c.sendall(answer(body("trunc", "truncated")[:-40])),
    "cut": lambda c: c.sendall(answer(body("cut", "cut"))[:-60]),
    "duplicated": lambda c: c.sendall(
        answer(body("dup", "duplicated") + body("dup", "duplicated", "0.700000"))),
    # The same GPU behind a second address.
    "copy": lambda c: c.sendall(answer(body("good", "good"))),
    # One GPU, two nodes: the liar, scraped as "liar", claims it first and says that it is on a
    # third node.
    "honest": lambda c: c.sendall(
        answer(body("claimed", "honest") if honest_has_it.is_set() else b"# no GPU yet\n")),
    "liar": lambda c: c.sendall(answer(body("claimed", "elsewhere", "0.900000"))),
    "sentinels": lambda c: c.sendall(
        answer(body("sent", "sentinels", "9223372036854775794", "140737488355328"))),
    "garbage": lambda c: c.sendall(os.urandom(4096)),
    "binary": lambda c: c.sendall(answer(os.urandom(65536))),
    "oversized": endless,
    "bomb": lambda c: c.sendall(
        answer(gzip.compress(b"\0" * (256 << 20), 9), b"Content-Encoding: gzip\r\n")),
    "slow": slow,
    "silent": lambda c: time.sleep(60),
    "html": lambda c: c.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"),
    "error": lambda c: c.sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
}


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            request = b""
            while b"\r\n\r\n" not in request:
                part = self.request.recv(65536)
                if not part:
                    return
                request += part
            BEHAVIOURS[request.split(b" ")[1].decode().strip("/")](self.request)
        except OSError:
            pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


# Those that answer have a process of their own: what floods and stalls must not slow them down on
# this side already.
ANSWERING = {"good", "truncated", "cut", "duplicated", "copy", "honest", "liar", "sentinels"}
answering, hostile = Server(("127.0.0.1", 0), Handler), Server(("127.0.0.1", 0), Handler)
multiprocessing.Process(target=answering.serve_forever, daemon=True).start()
threading.Thread(target=hostile.serve_forever, daemon=True).start()
port = {name: (answering if name in ANSWERING else hostile).server_address[1]
        for name in BEHAVIOURS}
folder = scratch()
targets = os.path.join(folder, "targets.json")
with open(targets, "w") as f:
    json.dump([{"targets": [f"127.0.0.1:{port[name]}"],
                "labels": {"__metrics_path__": "/" + name,
                           **({"node": OWN_ADDRESS[name]} if name in OWN_ADDRESS else {})}}
               for name in BEHAVIOURS], f)

server = Process("serve", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                 "--interval", "500ms", "--file-sd", targets)


def health():
    return {t["url"].rsplit("/", 1)[1]: t for t in server.json("/api/v1/targets")["targets"]}


until(lambda: len(health()) == len(BEHAVIOURS) and health()["good"]["scrapes"] >= 12,
      "a dozen scrapes of the good target")
h = health()
check(h["good"]["state"] == "up" and h["good"]["failures"] == 0,
      f"the good target suffers: {h['good']}")
for name in ("cut", "garbage", "oversized", "bomb", "slow", "silent", "html", "error"):
    check(h[name]["state"] in ("down", "back_off"), f"{name} does not count as down: {h[name]}")
    check(h[name]["error"], f"{name} gives no reason")
check("truncated" in h["truncated"]["refused"],
      f"the truncated body is not counted: {h['truncated']}")
check("duplicate_series" in h["duplicated"]["refused"],
      f"the duplicate series is not counted: {h['duplicated']}")
check(h["sentinels"]["refused"].get("blank_sentinel", 0) >= 2,
      f"sentinels are not counted: {h['sentinels']}")
copies = {n: h[n]["refused"].get("duplicate_exporter", 0) for n in ("good", "copy")}
check(sum(copies.values()) > 0, f"the GPU behind two addresses is not noticed: {copies}")

until(lambda: health()["liar"]["rows"] >= 2, "the liar to claim the GPU first")
honest_has_it.set()
until(lambda: health()["honest"]["rows"] >= 3, "the honest target to get its GPU back")
# The liar is refused at its own next scrape; on a busy machine the honest target may have had three
# by then.
until(lambda: health()["liar"]["refused"].get("uuid_conflict", 0) > 0,
      "the liar's rows to be refused by name")
h = health()
for name, other, holds in (("liar", "honest", False), ("honest", "liar", True)):
    conflicts = h[name]["conflicts"]
    check(len(conflicts) == 1 and conflicts[0]["kind"] == "uuid_conflict" and
          conflicts[0]["gpu"] == "GPU-claimed" and conflicts[0]["other"].endswith("/" + other) and
          conflicts[0]["holds"] == holds, f"{name} does not show the conflict: {conflicts}")
check(not h["good"]["conflicts"] or h["good"]["conflicts"][0]["kind"] == "duplicate_exporter",
      f"one exporter behind two addresses is no lie: {h['good']['conflicts']}")
claimed = [g for g in server.json("/api/v1/gpus")["gpus"] if g["gpu"] == "GPU-claimed"]
check(len(claimed) == 1 and claimed[0]["node"] == "honest" and claimed[0]["tensor_active"] == 0.3,
      f"the liar's word counts: {claimed}")
# Counted once: no two rows of the GPU at one time, and the time they stand for is not longer than
# the time between them.
contested = ("SELECT count(*) AS n, count(DISTINCT ts) AS times, sum(span_s) AS s, "
             "date_diff('millisecond', min(ts), max(ts)) / 1e3 AS length FROM samples "
             "WHERE gpu = 'GPU-claimed'")
rows = until(lambda: (r := server.sql(contested))[0]["n"] >= 3 and r,
             "stored rows of the contested GPU")[0]
check(rows["n"] == rows["times"] and rows["s"] <= rows["length"] + 0.01,
      f"contested time is counted twice: {rows}")

metrics = server.get("/metrics")
check('flopwatch_gpu_conflicts{kind="uuid_conflict"} 1\n' in metrics,
      "the conflict is missing in /metrics")
for needle in ("blank_sentinel", "duplicate_series", "truncated"):
    check(needle in metrics, f"{needle} is missing in /metrics")
fleet = server.json("/api/v1/fleet")
good = [g for g in server.json("/api/v1/gpus")["gpus"] if g["gpu"] == "GPU-good"]
# 0.3 x 1500 / 1830 (the OFU paper, equation 1, with the H100's tensor clock)
check(len(good) == 1 and abs(good[0]["ofu"] - 0.24590163934426229) < 1e-12,
      f"OFU of the good GPU: {good}")
check(server.stop() == 0, "clean stop")
print(f"{len(BEHAVIOURS)} exporters, the good one untouched")
