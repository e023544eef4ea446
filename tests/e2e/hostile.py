"""A duplicated, truncated, oversized, slow, lying or malicious exporter harms only its own target,
and shows."""
import gzip
import json
import multiprocessing
import os
import re
import socket
import socketserver
import struct
import threading
import time

from harness import Process, check, scratch, until
from others import Others

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

def head(payload, *lines):
    return (b"HTTP/1.1 200 OK\r\n" + b"".join(l + b"\r\n" for l in lines) + b"\r\n" + payload)


def one(name, **labels):
    """The usual lines of one GPU with other labels, and with more of them."""
    text = "".join(f',{k}="{v}"' for k, v in labels.items())
    return body(name, name).replace(b"} ", text.encode() + b"} ")


def sends(payload):
    return lambda c: c.sendall(payload)


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def drip(connection):
    """A header that never ends, a byte at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(600):
        connection.sendall(b"X-")
        time.sleep(0.1)


def informational(connection):
    for _ in range(2000):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    connection.sendall(answer(body("storm", "storm")))


# What must not count as an answer at all: the target is down, with a reason.
NO_ANSWER = {
    "reset": reset,
    "drip": drip,
    "no_status": sends(body("nostatus", "nostatus")),
    "other_protocol": sends(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"),
    "tls": sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 512),
    "both_lengths": sends(head(b"5\r\nabcde\r\n0\r\n\r\n", b"Content-Length: 5",
                               b"Transfer-Encoding: chunked")),
    "two_lengths": sends(head(b"abcde", b"Content-Length: 5", b"Content-Length: 6")),
    "negative_length": sends(head(b"", b"Content-Length: -1")),
    "huge_length": sends(head(b"", b"Content-Length: 99999999999999999999")),
    "huge_chunk": sends(head(b"FFFFFFFFFFFFFFFFF\r\n", b"Transfer-Encoding: chunked")),
    "bad_chunk": sends(head(b"zz\r\nabc\r\n", b"Transfer-Encoding: chunked")),
    "huge_header": sends(head(b"", b"X-Long: " + b"x" * (1 << 20))),
    "many_headers": sends(head(b"", *[b"X-%d: x" % k for k in range(100_000)])),
    "cut_gzip": sends(answer(gzip.compress(body("cutgz", "cutgz") * 100)[:-20],
                             b"Content-Encoding: gzip\r\n")),
    "no_gzip": sends(answer(b"not gzip at all", b"Content-Encoding: gzip\r\n")),
    "redirect_loop": sends(b"HTTP/1.1 302 Found\r\nLocation: /redirect_loop\r\n"
                           b"Content-Length: 0\r\n\r\n"),
}
# What is an answer, of which some is refused or means nothing.
TEXT = {
    "nan": answer(body("nan", "nan", "NaN", "+Inf")),
    "overflow": answer(body("over", "over", "1e400", "-1e400")),
    "negative": answer(body("neg", "neg", "-0.5", "-7")),
    "future": answer(body("future", "future").replace(b"\n", b" 4102444800000\n")),
    "ancient": answer(body("ancient", "ancient").replace(b"\n", b" 1000\n")),
    "time_overflow": answer(body("toolate", "toolate").replace(b"\n", b" 99999999999999999999\n")),
    "nul": answer(body("nul", "nul").replace(b"nvidia0", b"nv\0idia0")),
    "utf16": answer(body("wide", "wide").decode().encode("utf-16")),
    "not_utf8": answer(body("latin", "latin").replace(b"GPU-latin", b"GPU-\xff\xfe")),
    "long_label": answer(one("long", pod="p" * (1 << 20))),
    "many_labels": answer(one("labels", **{f"l{k}": "x" for k in range(5000)})),
    "many_gpus": answer(b"".join(body(f"many-{k}", "many") for k in range(5000))),
    "markup": answer(one("markup", pod="<script>alert(1)</script>", namespace="<img src=x>")),
    "quotes": answer(one("quotes", pod='\\"},evil{x=\\"', namespace="ns")),
    "open_quote": answer(body("open", "open").replace(b'Hostname="open"', b'Hostname="open')),
    "empty": answer(b""),
}

BEHAVIOURS = {
    **NO_ANSWER,
    **{name: sends(payload) for name, payload in TEXT.items()},
    "storm": informational,
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
ANSWERING = {"good", "truncated", "cut", "duplicated", "copy", "honest", "liar", "sentinels", *TEXT}
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

METRIC = (r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\"n])*",?)*\})?'
          r' (NaN|[+-]?Inf|[-+0-9.eE]+)')


server = Process("serve", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                 "--interval", "500ms", "--file-sd", targets)
others = Others(server.url, f"{len(BEHAVIOURS)} hostile exporters")
others.open()


def health():
    return {t["url"].rsplit("/", 1)[1]: t for t in server.json("/api/v1/targets")["targets"]}


until(lambda: len(health()) == len(BEHAVIOURS) and health()["good"]["scrapes"] >= 12,
      "a dozen scrapes of the good target")
h = health()
check(h["good"]["state"] == "up" and h["good"]["failures"] == 0,
      f"the good target suffers: {h['good']}")
for name in ("cut", "garbage", "oversized", "bomb", "slow", "silent", "html", "error", *NO_ANSWER):
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
    check(all(c["kind"] == "uuid_conflict" and c["gpu"] == "GPU-claimed" and
              c["other"].endswith("/" + other) for c in conflicts),
          f"{name} shows conflicts that are none: {conflicts}")
    # Who held it first, and lost it, shows that as well.
    check(conflicts and max(conflicts, key=lambda c: c["last"])["holds"] == holds,
          f"{name} does not show the conflict: {conflicts}")
check(not h["good"]["conflicts"] or h["good"]["conflicts"][0]["kind"] == "duplicate_exporter",
      f"one exporter behind two addresses is no lie: {h['good']['conflicts']}")


def claimed():
    gpus = server.json("/api/v1/gpus?limit=10000")["gpus"]  # others invented a thousand
    return [(g["node"], g["tensor_active"]) for g in gpus if g["gpu"] == "GPU-claimed"]


# A live answer may be some seconds old, from before the GPU was anybody's.
until(lambda: claimed() == [("honest", 0.3)], "the honest target's word for its GPU, and no other")
for _ in range(5):
    time.sleep(0.5)
    check(claimed() == [("honest", 0.3)], f"the liar's word counts: {claimed()}")
# Counted once: no two rows of the GPU at one time, and the time they stand for is not longer than
# the time between them.
contested = ("SELECT count(*) AS n, count(DISTINCT ts) AS times, sum(span_s) AS s, "
             "date_diff('millisecond', min(ts), max(ts)) / 1e3 AS length FROM samples "
             "WHERE gpu = 'GPU-claimed'")
rows = until(lambda: (r := server.sql(contested))[0]["n"] >= 3 and r,
             "stored rows of the contested GPU")[0]
check(rows["n"] == rows["times"] and rows["s"] <= rows["length"] + 0.01,
      f"contested time is counted twice: {rows}")

# What it says of all that can be read by anybody, and nobody's numbers became others'.
metrics = server.get("/metrics")  # decodes as UTF-8, or this fails
for line in metrics.splitlines():
    check(line.startswith("#") or re.fullmatch(METRIC, line), f"/metrics has the line {line!r}")
all_gpus = {g["gpu"]: g for g in server.json("/api/v1/gpus?limit=10000")["gpus"]}
for name in ("neg", "nan", "over"):
    known = all_gpus.get(f"GPU-{name}")
    check(known is None or known["ofu"] is None, f"the GPU of {name} has an OFU: {known}")
for name in ("future", "ancient", "toolate", "open"):
    check(f"GPU-{name}" not in all_gpus, f"the GPU of {name} is believed")
check("GPU-markup" in all_gpus and "GPU-quotes" in all_gpus, "strange names of jobs cost a GPU")
with open(f"/proc/{server.process.pid}/status") as f:
    resident = next(int(l.split()[1]) for l in f if l.startswith("VmHWM"))
check(resident < (3 << 19), f"{resident} KiB at the highest")
others.close()
check('flopwatch_gpu_conflicts{kind="uuid_conflict"} 1\n' in metrics,
      "the conflict is missing in /metrics")
for needle in ("blank_sentinel", "duplicate_series", "truncated"):
    check(needle in metrics, f"{needle} is missing in /metrics")
fleet = server.json("/api/v1/fleet")
good = [g for g in server.json("/api/v1/gpus?limit=10000")["gpus"] if g["gpu"] == "GPU-good"]
# 0.3 x 1500 / 1830 (the OFU paper, equation 1, with the H100's tensor clock)
check(len(good) == 1 and abs(good[0]["ofu"] - 0.24590163934426229) < 1e-12,
      f"OFU of the good GPU: {good}")
check(server.stop() == 0, "clean stop")
print(f"{len(BEHAVIOURS)} exporters, the good one untouched")
