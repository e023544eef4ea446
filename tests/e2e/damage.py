"""Disks forget, and an owner finds his way: a bit that flips in a sealed hour lowers what is said
to be covered, and is named with whose rows it has; a hot file costs its own rows; a meta.duckdb
that is gone is refused, and put back."""
import json
import os
import time

from harness import Process, check, run, scratch, until
from wire import post

START = ("--from", "2026-11-17T00:00:00Z", "--to", "2026-11-17T03:00:00Z")
data = scratch() + "/data"
run("simulate", "fleet", "--gpus", "64", "--hours", "3", "--seed", "3", "--start", START[1],
    "--into", data)


def files(folder, part):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(os.path.join(data, folder))
                  for name in names if part in name)


def flip(path, where=0.5):
    with open(path, "r+b") as f:
        f.seek(int(os.path.getsize(path) * where))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))


def table(command, *arguments, expect=0):
    answer = run(command, *arguments, "--data-dir", data, "-o", "json", expect=expect)
    return json.loads(answer.stdout)


def jobs():
    return {j["job"]: j for j in table("jobs", *START)}


def sankey():
    levels = {s["name"]: s for s in table("sankey", *START)["levels"]}
    losses = {s["name"]: s["gpu_seconds"] for s in table("sankey", *START)["losses"]}
    return levels["allocated"]["gpu_seconds"], losses["unmeasured"]


before, (allocated, unmeasured) = jobs(), sankey()
check(len(before) > 5, f"{len(before)} jobs")

# A server seals the hours, and leaves a copy of meta.duckdb.
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
until(lambda: server.json("/api/v1/status")["store"]["sealed_files"] > 0, "hours to be sealed",
      seconds=150, every=1)
until(lambda: os.path.exists(data + "/meta-copy.duckdb"), "a copy of meta.duckdb", seconds=90)
check(server.stop() == 0, "it did not stop")
check(jobs() == before, "sealing changed an answer")
check(not table("doctor", "--verify"), "files are damaged")

# One bit in what an hour of all jobs is read from.
damaged = files("sealed", "job_minute") + files("sealed", "job_hour")
check(damaged, "there are rollups of jobs")
for path in damaged[:1] + files("sealed/samples", "samples-")[:1] + files("sealed", "gpu_hour")[:1]:
    flip(path)
    named = table("doctor", "--verify", expect=3)
    check([os.path.join(data, row["path"]) for row in named] == [path], f"{named}")
    of_gpus = "job_minute" not in path
    check(("64 GPUs, " in named[0]["of"]) == of_gpus and named[0]["rows"] > 0, f"whose? {named}")
    flip(path)
# All that hours are read from: what is not measured any more is said to be so, and what was held
# stays held.
damaged = [f for part in ("samples", "gpu_minute", "gpu_hour", "job_minute", "job_hour",
                          "fleet_minute") for f in files("sealed/" + part, ".parquet")]
for path in damaged:
    flip(path)
less, (still_allocated, now_unmeasured) = jobs(), sankey()
print(f"unmeasured {unmeasured:.0f} to {now_unmeasured:.0f} of {allocated:.0f} allocated "
      "GPU-seconds", flush=True)
check(abs(still_allocated - allocated) < 1e-6 * allocated, "what was held is forgotten")
check(now_unmeasured > 0.999 * allocated, "what is not measured is not said")
for name, job in less.items():
    check(job["ofu"] is None and job["ofu_reason"] and job["coverage"] == 0, f"{job}")
    check(job["gpu_seconds"] == before[name]["gpu_seconds"], f"{job}")
check(set(less) == set(before), "jobs are forgotten")
for path in damaged:
    flip(path)
check(jobs() == before, "put back, they count again")

# A hot file: its own rows alone, counted, and the server goes on.
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
line = ('DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="n"} 1500\n')
for _ in range(5):
    status, _ = post(server, "/api/v1/push/n", line.encode(), "text/plain")
    check(status == 200, "a push is not taken")
    time.sleep(0.1)
check(server.stop() == 0, "it did not stop")
rows = table("sql", "SELECT count(*) AS n FROM samples WHERE gpu = 'GPU-1'")[0]["n"]
check(rows > 0, "no row is stored")
hot = [f for f in files("hot", "") if f.endswith(".duckdb")]
check(len(hot) == 1, f"{hot}")
with open(hot[0], "r+b") as f:
    f.write(b"no database any more" * 600)
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
lost = server.json("/api/v1/status")["store"]["damaged"]
check(lost and lost["files"] == 1 and lost["rows"] == rows and lost["from"], f"{lost}")
check(run("doctor", "--server", server.url, "--data-dir", data, expect=None).returncode == 3,
      "the doctor is content")
check(server.stop() == 0, "it did not stop")
named = table("doctor", "--verify", expect=3)
check(len(named) == 1 and named[0]["rows"] == rows, f"{named}")
check(jobs() == before, "other hours are other than before")

# meta.duckdb is gone.
for name in ("meta.duckdb", "meta.duckdb.wal"):
    if os.path.exists(os.path.join(data, name)):
        os.remove(os.path.join(data, name))
refused = run("serve", "--data-dir", data, "--listen", "127.0.0.1:0", expect=None)
check(refused.returncode != 0 and "flopwatch doctor --restore" in refused.stderr, refused.stderr)
print(run("doctor", "--restore", "--data-dir", data).stdout, flush=True)
check(jobs() == before, "restored, answers are others")
refused = run("doctor", "--restore", "--data-dir", data, expect=None)
check(refused.returncode != 0 and "nothing to restore" in refused.stderr, refused.stderr)
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
check(server.stop() == 0, "it did not stop")
print("damage: ok")
