"""What training jobs report, against the real server: what it acknowledged survives kill -9 and is
there once; a log imported twice, remote write and OTLP written by hand (Python is the outside
judge: own protobuf, own snappy)."""
import http.client
import itertools
import json
import os
import random
import struct
import sys
import threading
import time

from harness import Process, check, run, scratch, until
from wire import field, post, series, snappy

cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 10
rng = random.Random(20261121)
data = scratch() + "/data"


# --- kill -9 while four jobs report ---
acknowledged = {}
numbers = itertools.count(1)
for cycle in range(cycles):
    server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0")
    for job, steps in acknowledged.items():
        n = server.sql("SELECT count(*) AS n, count(DISTINCT step) AS d FROM application_samples "
                       f"WHERE job = '{job}'")[0]
        check(n["d"] >= len(steps),
              f"cycle {cycle}: job {job} had {len(steps)} steps acknowledged, {n['d']} are there")
        check(n["n"] == n["d"], f"cycle {cycle}: job {job}: {n['n']} samples of {n['d']} steps")
    dying = False

    def report(job):
        while not dying:
            mine = next(numbers)
            body = json.dumps({"step": mine, "mfu": 0.4, "loss": 2.5, "convention": "palm",
                               "span_s": 1}).encode()
            try:
                status, answer = post(server, f"/api/v1/jobs/{job}/mfu", body)
            except (OSError, http.client.HTTPException):
                return
            if json.loads(answer)["accepted"] == 1:
                acknowledged.setdefault(job, set()).add(mine)

    threads = [threading.Thread(target=report, args=(f"j{k}",)) for k in range(4)]
    for t in threads:
        t.start()
    time.sleep(rng.uniform(0.05, 0.5))
    server.kill9()
    dying = True
    for t in threads:
        t.join()
total = sum(len(s) for s in acknowledged.values())
check(total > 0, "nothing was acknowledged")

# --- a log, twice ---
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0")
log = os.path.join(scratch(), "train.log")
begin = int(time.time()) - 3600
with open(log, "w") as f:
    for i in range(1, 2001):
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(begin + i))
        f.write(f" [{at}] iteration {i:8d}/ 9000 | consumed samples: {i * 64} | "
                "elapsed time per iteration (ms): 1000.0 | "
                "throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: 1.0E-04 | "
                "global batch size: 64 | lm loss: 2.5E+00 | grad norm: 0.5 |\n")
for expected in [(2000, 0), (0, 2000)]:
    out = json.loads(
        run("import", "log", log, "--job", "ml/pretrain", "--gpu", "NVIDIA H100 80GB HBM3",
            "--precision", "bf16", "--server", server.url, "-o", "json").stdout)[0]
    check((out["stored"], out["duplicates"]) == expected, f"import: {out}")
said = server.json("/api/v1/jobs/ml/pretrain/application")
check(said["application"]["samples"] == 2000 and said["application"]["mfu_source"] == "throughput",
      f"{said['application']}")
# Equation (6) of the OFU paper: 989.43.
check(abs(said["application"]["mfu"] - 400 / 989.43) < 1e-4, f"MFU {said['application']['mfu']}")
card = run("job", "ml/pretrain", "--server", server.url, "-o", "table").stdout
check(card.count("MFU (reported)") == 1, "the job's card")


# --- remote write and OTLP ---
now = int(time.time() * 1000)
gpu = {"Hostname": "w1", "UUID": "GPU-W1", "gpu": "0", "modelName": "NVIDIA A100-SXM4-80GB",
       "instance": "w1:9400", "hpc_job": "900"}
for k in range(3):
    at = now - 30_000 + 10_000 * k
    body = (series({"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", **gpu}, at, 0.5) +
            series({"__name__": "flopwatch_app_mfu", "job_id": "900"}, at, 0.4))
    status, _ = post(server, "/api/v1/write", snappy(body), "application/x-protobuf", "snappy")
    check(status == 204, f"remote write answered {status}")
    post(server, "/api/v1/write",
         snappy(series({"__name__": "DCGM_FI_DEV_SM_CLOCK", **gpu}, at, 1410)),
         "application/x-protobuf", "snappy")
attribute = lambda k, v: field(1, k) + field(2, field(1, v))
point = (field(7, attribute(b"job_id", b"901")) + b"\x19" +
         struct.pack("<Q", (now - 5000) * 1_000_000) + b"\x21" + struct.pack("<d", 0.3))
request = field(1, field(2, field(2, field(1, b"train.mfu") + field(5, field(1, point)))))
status, answer = post(server, "/v1/metrics", request, "application/x-protobuf")
check(status == 200 and answer == b"", f"OTLP answered {status} {answer}")
rows = ("SELECT count(*) AS n FROM samples "
        "WHERE gpu = 'GPU-W1' AND tensor_active = 0.5 AND sm_clock_mhz = 1410")
until(lambda: server.sql(rows)[0]["n"] == 3, "three whole rows of the GPU")
reports = "SELECT count(*) AS n FROM application_samples WHERE job IN ('900', '901')"
until(lambda: server.sql(reports)[0]["n"] == 4, "four samples")
metrics = server.get("/metrics")
check('flopwatch_application_samples_total{source="remote_write",result="accepted"} 3' in metrics,
      "counted by source")

# --- a run that has diverged, by each way of metrics: NaN is kept, a staleness marker is none ---
bits = lambda b: struct.unpack("<d", struct.pack("<Q", b))[0]
nan, stale = bits(0x7FF8000000000001), bits(0x7FF0000000000002)
for at, value in ((now - 20_000, 2.5), (now - 10_000, nan), (now - 5_000, stale)):
    status, _ = post(server, "/api/v1/write",
                     snappy(series({"__name__": "train_loss", "job_id": "902"}, at, value)),
                     "application/x-protobuf", "snappy")
    check(status == 204, f"remote write answered {status}")
point = (field(7, attribute(b"job_id", b"903")) + b"\x19" +
         struct.pack("<Q", (now - 5000) * 1_000_000) + b"\x21" + struct.pack("<d", float("-inf")))
request = field(1, field(2, field(2, field(1, b"train.grad_norm") + field(5, field(1, point)))))
post(server, "/v1/metrics", request, "application/x-protobuf")
post(server, "/api/v1/push/w1", b'flopwatch_app_loss{job="904"} NaN\nnode_load1 NaN\n')
said = ("SELECT job, string_agg(coalesce(loss, grad_norm)::VARCHAR, ' ' ORDER BY ts) AS said "
        "FROM application_samples WHERE job IN ('902', '903', '904') GROUP BY job ORDER BY job")
until(lambda: [r["said"] for r in server.sql(said)] == ["2.5 nan", "-inf", "nan"],
      "losses that are no numbers, and no staleness marker")
check(server.stop() == 0, "clean stop")
print(f"{cycles} kills, {total} acknowledged reports, none lost and none twice")
