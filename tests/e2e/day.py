"""A simulated day of a fleet, scraped through the real HTTP path, against the simulator's exact
truth.

GPU-seconds of every job are equal to the truth to the last microsecond the JSON carries; OFU is
within the bound that sampling sets. The bound is derived here, not fitted: a job's first and last
sample may stand for up to one interval of somebody else's time at each end of each GPU, and the SM
clock is read at an instant (sd about 3 % of its mean within a GPU, OFU paper IV-C and Table I), so
over n samples the error is at most 4 standard errors. What was not measured may have been anything
between idle and full.
"""
import json
import math
import sys
import time
import urllib.parse

from harness import Process, check, run, scratch, until
from truth import levels_of

gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
hours = float(sys.argv[2]) if len(sys.argv) > 2 else 24
interval = int(sys.argv[3]) if len(sys.argv) > 3 else 30
faults = sys.argv[4] if len(sys.argv) > 4 else "none"
folder = scratch()
# A week's days differ, so the newest Tuesday (UTC) that is over: the same fleet at every run.
# Another time may be named as the last argument.
week = 7 * 86400
latest = int(time.time()) - int(hours * 3600) - 3600
start = int(sys.argv[5]) if len(sys.argv) > 5 else (latest - 5 * 86400) // week * week + 5 * 86400
end = start + int(hours * 3600)
simulator = Process("simulate", "fleet", "--gpus", str(gpus), "--preset", "research",
                    "--seed", "11", "--hours", str(hours), "--start", str(start),
                    "--interval", f"{interval}s", "--faults", faults, "--step",
                    "--listen", "127.0.0.1:0", "--jobs-file", folder + "/jobs.csv")
truth = json.loads(simulator.get(f"/truth?from={start}&to={end}"))
with open(folder + "/flopwatch.toml", "w") as config:
    config.write("[prices]\ncurrency = \"EUR\"\n[[prices.gpu_hour]]\nprice = 3.6\n")
server = Process("serve", "--config", folder + "/flopwatch.toml",
                 "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                 "--interval", "10ms", "--http-sd", simulator.url + "/targets",
                 "--jobs-file", folder + "/jobs.csv")


def finished():
    targets = server.json("/api/v1/targets?limit=100000")["targets"]
    # After its last tick a host answers 410 Gone.
    return len(targets) > 0 and all("410" in (t["error"] or "") for t in targets)


begun = time.time()
until(finished, "every host gave its last sample", seconds=1200, every=0.5)
print(f"scraped in {time.time() - begun:.0f} s", flush=True)


def all_jobs():
    jobs, offset = [], 0
    while True:
        query = urllib.parse.urlencode(
            {"from": start, "to": end, "limit": 1000, "offset": offset, "sort": "gpu_seconds"})
        answer = server.json("/api/v1/jobs?" + query, timeout=120)
        jobs += answer["jobs"]
        offset += len(answer["jobs"])
        if not answer["jobs"] or offset >= answer["total"]:
            return jobs


# The last flush and roll-up follow within seconds.
wanted = {j["key"]: j for j in truth["jobs"]}
until(lambda: server.json("/api/v1/status")["ingest"].get("queued_rows", 0) == 0,
      "the queue is empty")
time.sleep(17)  # one rollup interval of the server
jobs = {j["job"]: j for j in all_jobs()}

compared = exact = 0
worst = 0.0
for key, t in wanted.items():
    allocated = int(t["work"]["allocated_us"]) / 1e6
    if allocated == 0 or t.get("mig"):
        continue
    check(key in jobs, f"job {key} with {allocated} GPU-seconds is missing")
    usage = jobs[key]["usage"]
    check(abs(usage["gpu_seconds"] - allocated) < 1e-5,
          f"job {key}: {usage['gpu_seconds']} GPU-seconds, truth {allocated}")
    exact += 1
    peak = int(t["work"]["peak_cycles"])
    if usage["ofu"] is None or peak == 0:
        continue
    # The time the job ran within the window, per GPU.
    duration = allocated / max(1, t["gpus"])
    if duration < 10 * interval:
        continue
    ofu = int(t["work"]["tensor_cycles"]) / peak
    samples = max(1.0, allocated / interval)
    bound = (2 * interval / duration * max(ofu, 0.2) + 4 * 0.03 * ofu / math.sqrt(samples) + 1e-3 +
             (1 - usage["coverage"]) * max(ofu, 1 - ofu))
    error = abs(usage["ofu"] - ofu)
    worst = max(worst, error / bound)
    check(error <= bound,
          f"job {key}: OFU {usage['ofu']:.5f}, truth {ofu:.5f}, bound {bound:.5f} "
          f"({allocated:.0f} GPU-s on {t['gpus']} GPUs, coverage {usage['coverage']})")
    compared += 1


def check_sankey():
    """Jobs come from the file, so without faults everything down to what is held is exact, but for
    the pods: their labels are names the file does not know, and the first sample of each stands for
    the interval before it, in which its hosts may have been free. What was
    not measured is a loss of its own: the truth of each level below lies between what is shown and
    that plus what was not measured down to it, but for 0.2 % that sampling makes of it."""
    begin = start + 120  # every host has been seen by then
    true = levels_of(json.loads(simulator.get(f"/truth?from={begin}&to={end}"))["clusters"])
    answer = server.json("/api/v1/sankey?" + urllib.parse.urlencode({"from": begin, "to": end}),
                         timeout=120)
    shown = {row["name"]: row["gpu_seconds"] for row in answer["levels"]}
    check(shown.pop("schedulable") is None, "nobody said which hosts take work")
    lost = sum(loss["gpu_seconds"] for loss in answer["losses"])
    check(abs(lost + shown["full_clock"] - answer["deployed_gpu_seconds"]) < 1e-3,
          f"losses and the last level are {lost + shown['full_clock']}, not what is deployed")
    unseen = true["deployed"] - shown["deployed"]  # hosts that were down from the beginning on
    check(unseen >= -1e-3 and (faults != "none" or unseen < 1e-3),
          f"deployed {shown['deployed']}, truth {true['deployed']}")
    early = interval * sum(8 * len(job["pods"]) for job in truth["jobs"] if job.get("pods"))
    unmeasured = 0.0
    for name in shown:
        unmeasured += sum(loss["gpu_seconds"] for loss in answer["losses"]
                          if loss["name"] == "unmeasured" and loss["before"] == name)
        held = name in ("deployed", "on_busy_hosts", "allocated")
        slack = 1e-2 if held and faults == "none" else 2e-3 * true[name]
        ahead = early if name in ("on_busy_hosts", "allocated") else 0
        check(-slack <= true[name] - shown[name] + ahead and
              true[name] - shown[name] <= unmeasured + unseen + slack,
              f"{name}: {shown[name]} and {unmeasured} not measured, truth {true[name]}")
    print("Sankey, shown over true:",
          ", ".join(f"{name} {shown[name] / true[name] - 1:+.3%}" for name in shown))


def check_usage():
    """The chargeback as `flopwatch usage` writes it: a user's row is the user's jobs in the truth,
    3.6 an hour is a thousandth a second, and all rows add up to what the jobs held."""
    rows = {row["name"]: row for row in json.loads(run(
        "usage", "--by", "user", "--from", str(start), "--to", str(end), "--server", server.url,
        "-o", "json", "-q").stdout)}
    users = {}
    for t in truth["jobs"]:
        seconds = int(t["work"]["allocated_us"]) / 1e6
        part = t["instance_sms"] / t["gpu_sms"] if t.get("mig") else 1
        users[t["user"]] = users.get(t["user"], 0) + seconds * part
    for user, seconds in users.items():
        if seconds == 0:
            continue
        check(user in rows, f"user {user} with {seconds} GPU-seconds is missing")
        check(abs(rows[user]["gpu_seconds"] - seconds) < 1e-3,
              f"user {user}: {rows[user]['gpu_seconds']} GPU-seconds, truth {seconds}")
    for name, row in rows.items():
        check(abs(row["cost"] - row["gpu_seconds"] * 1e-3) < 1e-6 * row["gpu_seconds"] + 1e-9,
              f"user {name}: {row['gpu_seconds']} GPU-seconds cost {row['cost']}")
    held = sum(job["usage"]["gpu_seconds"] for job in jobs.values())
    billed = sum(row["gpu_seconds"] for row in rows.values())
    check(abs(held - billed) < 1e-2, f"{billed} GPU-seconds are billed, jobs held {held}")
    print(f"usage: {len(rows)} users, {billed:.0f} GPU-seconds")


check_sankey()
check_usage()
check(exact >= 20 and compared >= 10,
      f"too few jobs to mean anything: {exact} by GPU-seconds, {compared} by OFU")
check(server.stop() == 0, "clean stop")
print(f"{exact} jobs with equal GPU-seconds, {compared} with OFU within the bound "
      f"(largest error {worst:.0%} of it)")
