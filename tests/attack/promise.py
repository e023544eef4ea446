"""What 200 and 204 promise, on the real binary: what was answered so long ago as docs/store.md says
is there after kill -9; while the disk is full nothing is taken and senders are told to come back,
and what was taken before is stored once there is room."""
import os
import random
import subprocess
import time

from harness import Process, check, scratch, until
from others import Others
from wire import post, series, snappy

FLUSH_S = 2.0  # the last flush interval, and the one under way
JOIN_S = 8.0
MARGIN_S = 1.0  # of a busy machine
MAX_RSS = 1536 << 20
rng = random.Random(20261123)


def pushed(k):
    """Sample number k of one GPU: the number is its power."""
    labels = 'gpu="0",UUID="GPU-P",modelName="NVIDIA A100-SXM4-80GB",Hostname="p1"'
    return (f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1410\n"
            f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} 0.5\n"
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {k % 700 + 1}\n"
            f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {k * 1000}\n").encode()


def written(k, ms):
    gpu = {"Hostname": "w1", "UUID": "GPU-W", "gpu": "0", "modelName": "NVIDIA A100-SXM4-80GB",
           "instance": "w1:9400"}
    return snappy(series({"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", **gpu}, ms, 0.5) +
                  series({"__name__": "DCGM_FI_DEV_SM_CLOCK", **gpu}, ms, 1410))


def kill_while_sending(data, number):
    """Sends for some seconds, kills, and holds what is there against what was acknowledged."""
    server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0")
    acknowledged = {"GPU-P": [], "GPU-W": []}  # when each was answered
    end = time.time() + JOIN_S + MARGIN_S + rng.uniform(1.0, 3.0)
    while time.time() < end:
        status, answer = post(server, "/api/v1/push/p1", pushed(next(number)), "text/plain")
        check(status == 200, f"a push is answered {status} {answer}")
        acknowledged["GPU-P"].append(time.time())
        status, answer = post(server, "/api/v1/write",
                              written(next(number), int(time.time() * 1000)),
                              "application/x-protobuf", "snappy")
        check(status == 204, f"remote write is answered {status} {answer}")
        acknowledged["GPU-W"].append(time.time())
        time.sleep(0.05)
    check(server.peak() < MAX_RSS, f"{server.peak()} bytes of memory")
    server.kill9()
    died = time.time()
    return {gpu: sum(t < died - MARGIN_S - (FLUSH_S if gpu == "GPU-P" else JOIN_S) for t in times)
            for gpu, times in acknowledged.items()}


def kills():
    number = iter(range(1, 1 << 30))
    data = scratch() + "/data"
    promised = {"GPU-P": 0, "GPU-W": 0}
    for cycle in range(2):
        for gpu, n in kill_while_sending(data, number).items():
            promised[gpu] += n
        again = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0")
        for gpu, n in promised.items():
            there = again.sql(f"SELECT count(*) AS n FROM samples WHERE gpu = '{gpu}'")[0]["n"]
            check(there >= n > 0,
                  f"kill {cycle}: {n} rows of {gpu} were promised, {there} are there")
            promised[gpu] = there
        check(again.stop() == 0, "clean stop")
    return promised


def full_disk():
    """On a file system of its own; returns a reason where none may be mounted."""
    folder = scratch() + "/small"
    os.mkdir(folder)
    size = "size=450m"  # the store keeps 256 MiB free (Options::min_free_disk_bytes)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder],
                      capture_output=True).returncode != 0:
        return "no file system may be mounted here"
    try:
        server = Process("serve", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0")
        send = lambda k: post(server, "/api/v1/push/p1", pushed(k), "text/plain")
        check(send(1)[0] == 200, "there is room")
        with open(folder + "/ballast", "wb") as f:
            for _ in range(440):
                f.write(b"x" * (1 << 20))
                if os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize < (200 << 20):
                    break
        k = iter(range(2, 1 << 30))
        refused = until(lambda: (a := send(next(k)))[0] == 503 and a[1],
                        "a push to be refused while the disk is full")
        check(b"disk" in refused or b"space" in refused, f"the reason is not said: {refused}")
        for path, body, kind, encoding in (
                ("/api/v1/write", written(1, int(time.time() * 1000)), "application/x-protobuf",
                 "snappy"),
                ("/v1/metrics", b'{"resourceMetrics":[]}', "application/json", None),
                ("/api/v1/jobs/7/mfu", b'{"mfu": 0.4}', "application/json", None)):
            status, answer = post(server, path, body, kind, encoding)
            check(status == 503, f"{path} answers {status} {answer} while nothing can be stored")
        with Others(server.url, "pushes to a full disk"):
            for _ in range(100):
                check(server.json("/api/v1/gpus")["total"] == 1, "answers go on")
                send(next(k))
                time.sleep(0.02)
        last = next(k) - 1  # numbers below were sent; the last ones were refused
        os.remove(folder + "/ballast")
        until(lambda: send(1000)[0] == 200, "pushes are taken again")
        taken = until(lambda: (n := server.sql("SELECT count(*) AS n FROM samples")[0]["n"]) >= 3
                      and n, "what was taken before is stored")
        check(taken <= last + 1, f"{taken} rows of {last} pushes")
        check(server.peak() < MAX_RSS, f"{server.peak()} bytes of memory")
        check(server.stop() == 0, "clean stop")
    finally:
        for p in ("umount", folder), ("umount", "-l", folder):
            if subprocess.run(p, capture_output=True).returncode == 0:
                break
    return None


promised = kills()
skipped = full_disk()
print(f"two kills while sending: {promised} rows, none that was promised is missing; full disk: " +
      (skipped or "nothing taken, nothing lost"))
