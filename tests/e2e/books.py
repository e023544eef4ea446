"""The fleet's books, offline: a simulated scheduler writes its own, `import slurm --into` puts them
beside the samples, and `sankey` and `usage` give what the scheduler's truth has: deployed,
schedulable and allocated GPU time of each cluster, maintenance with its reason, GPU-seconds of each
account, partition and state. Argument: "all" adds failures and faults of telemetry; then the levels
that are measured lie within what was not measured.
"""
import json
import subprocess
import sys

from harness import BINARY, check, run, scratch

faults = sys.argv[1] if len(sys.argv) > 1 else "scheduler"
start, hours = 1_794_873_600, 24
end = start + hours * 3600
folder = scratch()
run("simulate", "fleet", "--gpus", "1000", "--preset", "research", "--seed", "11",
    "--hours", str(hours), "--start", str(start), "--interval", "60s", "--faults", faults,
    "--scheduler", folder + "/books", "--truth", folder + "/truth.json",
    "--into", folder + "/data")
with open(folder + "/truth.json") as f:
    truth = json.load(f)
scheduler = {c["cluster"]: c for c in truth["scheduler"]["clusters"]}
files = [folder + "/books/" + name
         for name in ("sacct.txt", "gpu_map.csv", "scontrol_node.txt", "events.txt")]
run("import", "slurm", *files, "--time-zone", "UTC", "--as-of", str(end),
    "--into", folder + "/data", expect=None)


def ask(*args):
    return json.loads(run(*args, "--data-dir", folder + "/data", "--from", str(start), "--to",
                          str(end), "-o", "json", "-q").stdout)


# Levels of each of Slurm's clusters.
tried = 0
for name, books in scheduler.items():
    answer = ask("sankey", "--cluster", name)
    levels = {row["name"]: row["gpu_seconds"] for row in answer["levels"]}
    losses = {}
    for row in answer["losses"]:
        losses[row["name"]] = losses.get(row["name"], 0) + row["gpu_seconds"]
    want = books["gpu_s"]
    fleet = [c for c in truth["clusters"] if c["cluster"] == name]
    # Boards with instances are counted where they are seen, from their first sample on; a host that
    # came late is taken to have been there before, because no book says since when it is.
    boards = sum(c["deployed_us"] / c["sms_per_gpu"] for c in fleet if c["mig"]) / 1e6
    deployed = want["deployed"] + boards
    slack = 120 * len(books["nodes"])
    check(deployed - slack <= levels["deployed"] <= deployed + want["absent"] + slack,
          f"{name}: deployed {levels['deployed']}, the truth {deployed}, absent {want['absent']}")
    # Slurm's events begin when the last job of a draining host has ended.
    out = want["maintenance"] + want["down"] + want["drained"]
    lost = sum(losses.get(k, 0) for k in ("maintenance", "down", "drained", "powered_down"))
    draining = answer["draining_work_gpu_seconds"]
    check(abs(levels["schedulable"] + lost - levels["deployed"]) < 1e-3, f"{name}: schedulable")
    if faults == "scheduler":
        check(abs(lost + draining - out) <= boards + slack,
              f"{name}: out of service {lost} and {draining} used, the truth is {out}")
        check(abs(losses.get("maintenance", 0) - want["maintenance"]) <= slack,
              f"{name}: maintenance {losses.get('maintenance', 0)} for {want['maintenance']}")
        if want["maintenance"] > 0:
            rows = [r for r in answer["losses"] if r["name"] == "maintenance"]
            check(rows[0]["reasons"][0]["reason"] == "maintenance", f"{name}: {rows[0]['reasons']}")
    # What jobs held: whole GPUs to the second; instances and shards are parts that Slurm counts
    # otherwise, and the fleet's own truth has them in GPU time.
    held = sum(c["work"]["allocated_us"] + c["draining"]["work"]["allocated_us"]
               for c in fleet if not c["mig"]) / 1e6
    parts = sum(c["work"]["allocated_us"] / c["sms_per_gpu"] for c in fleet if c["mig"]) / 1e6
    # Who has a part of a GPU is known by labels of samples alone, a minute apart.
    check(held - 1 <= levels["allocated"] <= (held + parts) * 1.0002,
          f"{name}: allocated {levels['allocated']}, the truth {held} and {parts} in instances")
    total = sum(losses.values()) + levels["full_clock"]
    check(abs(total - levels["deployed"]) < 1e-6 * deployed, f"{name}: the parts give {total}")
    tried += 1
check(tried >= 2, f"{tried} clusters")

# GPU-seconds of accounts, partitions and states: whole GPUs of all attempts.
for by in ("account", "partition", "state"):
    want, parts, keys = {}, {}, [a["key"] for a in truth["scheduler"]["attempts"] if a["start"]]
    for a in truth["scheduler"]["attempts"]:
        if a["start"] == 0:
            continue
        # Between two starts of a job that are near, labels of its samples may bridge the gap.
        again = keys.count(a["key"]) - 1
        parts[a[by]] = parts.get(a[by], 0) + a["gpus"] * 150 * again
        seconds = max(0, min(a["end"] or end, end) - max(a["start"], start))
        into = want if a["holds"] == "gpu" else parts
        into[a[by]] = into.get(a[by], 0) + a["gpus"] * seconds
    rows = {row["name"]: row for row in ask("usage", "--by", by)}
    for name, seconds in want.items():
        check(name in rows or seconds == 0, f"{by} {name} is missing: {sorted(map(str, rows))}")
        if seconds == 0:
            continue
        found = rows[name]["gpu_seconds"]
        check(seconds * (1 - 1e-6) - 1 <= found <= seconds + parts.get(name, 0) + 1,
              f"{by} {name}: {found} GPU-seconds, the scheduler gave it {seconds} and parts of "
              f"{parts.get(name, 0)}")

# By node and by GPU the same time is divided otherwise, and a day in steps adds up to it.
whole = sum(row["gpu_seconds"] for row in ask("usage", "--by", "account"))
for by in ("node", "gpu", "user", "size"):
    total = sum(row["gpu_seconds"] for row in ask("usage", "--by", by))
    check(abs(total - whole) < 1e-6 * whole, f"by {by}: {total}, by account: {whole}")
steps = ask("usage", "--by", "account", "--step", "6h")
check(abs(sum(row["gpu_seconds"] for row in steps) - whole) < 1e-6 * whole, "steps add up")
compared = ask("usage", "--by", "account", "--compare", "previous")
for row in compared:
    now, before = row["gpu_seconds"], row["gpu_seconds_before"]
    check(before is None or abs(now - before - row["gpu_seconds_change"]) < 1e-3, f"{row}")

# The hosts behind a loss add up to it, and say why.
answer = ask("sankey")
for row in answer["losses"]:
    if row["name"] != "maintenance":
        continue
    hosts = ask("sankey", "--nodes", "maintenance")
    total = sum(h["gpu_seconds"] for h in hosts)
    check(abs(total - row["gpu_seconds"]) < 1e-3, f"hosts: {total}, loss: {row['gpu_seconds']}")
    check(all(h["reason"] for h in hosts), "each host has its reason")
help_text = subprocess.run([BINARY, "sankey", "--help"], capture_output=True, text=True).stdout
check("--partition" in help_text, "help")
print(f"{tried} clusters, {whole / 3600:.0f} GPU-hours of jobs")
