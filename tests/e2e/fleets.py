"""The levels of the Sankey of simulated fleets against what really happened, for several presets
and seeds: 1,000 GPUs, stored as a scrape would have stored them, the books of their Slurm clusters
imported cluster by cluster, the hosts of their Kubernetes clusters in an inventory.

Without faults everything from deployed to allocated is exact to the second, and what is measured is
within 0.2 % (of a single cluster, which may have as few as a hundred GPUs, 0.5 %: the samples at
the two ends of a job stand for up to an interval of somebody else's time). With faults of every
kind the truth of a measured level lies between what is shown and that plus what was not measured
down to it. Losses and the last level add up to what is deployed, and the levels' shares multiply to
the compound.

Pods are known by labels of samples alone: the first sample of a pod stands for the interval before
it, and its last one is up to an interval old when it ends. Neither Slurm's books nor this inventory
say since when a host exists: with faults, one that came late counts from the beginning on.

  fleets.py [PRESET...]     FLOPWATCH_TEST_SEEDS=10: seeds 1 to 10 (1); FLOPWATCH_TEST_HOURS=12 (4)
"""
import json
import math
import os
import sys

from harness import Process, check, run, scratch
from truth import levels_of

PRESETS = sys.argv[1:] or ["llm", "research", "seren"]
SEEDS = int(os.environ.get("FLOPWATCH_TEST_SEEDS", "1"))
HOURS = float(os.environ.get("FLOPWATCH_TEST_HOURS", "4"))
GPUS, INTERVAL = 1000, 30
START = 1_794_873_600
END = START + int(HOURS * 3600)
BEGIN = START + 120  # each GPU has two samples by then
SAMPLING, SAMPLING_OF_CLUSTER = 2e-3, 5e-3  # of a measured level
BOOKS = ("sacct.txt", "gpu_map.csv", "scontrol_node.txt", "events.txt")
HELD = ("on_busy_hosts", "allocated")
MEASURED = ("busy", "sm_active", "tensor_active", "full_clock")


def write_books(folder, cluster):
    """What the commands of one cluster alone would have said: a site asks each for itself."""
    os.mkdir(f"{folder}/{cluster}")
    names = []
    for name in BOOKS:
        with open(f"{folder}/{name}") as f:
            text = f.read()
        if name == "scontrol_node.txt":
            kept = [p for p in text.split("\n\n") if p.startswith(f"NodeName={cluster}-")]
            text = "\n\n".join(kept) + "\n"
        else:
            head, *lines = text.splitlines()
            delimiter = "," if name.endswith(".csv") else "|"
            at = head.split(delimiter).index({"sacct.txt": "Cluster", "events.txt": "Cluster",
                                              "gpu_map.csv": "node"}[name])
            kept = [line for line in lines if line.split(delimiter)[at].split("-")[0] == cluster]
            text = "\n".join([head, *kept]) + "\n"
        names.append(f"{folder}/{cluster}/{name}")
        with open(names[-1], "w") as f:
            f.write(text)
    return names


def write_inventory(path, truth, hosts, clusters):
    """The hosts of these clusters, eight GPUs each but for GB200's four; the last has the rest."""
    with open(path, "w") as f:
        f.write("node,gpus,cluster\n")
        for cluster in clusters:
            of = [c for c in truth["clusters"] if c["cluster"] == cluster]
            left = sum(c["gpus"] for c in of)
            each = 4 if "GB200" in of[0]["model"] else 8
            for host in sorted(hosts[cluster]):
                f.write(f"{host},{min(each, left)},{cluster}\n")
                left -= min(each, left)
            check(left == 0, f"{cluster}: {left} GPUs on no host")


def check_sums(where, answer):
    """Losses add up to what is deployed, shares multiply to the compound."""
    rows = {row["name"]: row for row in answer["levels"]}
    lost = sum(loss["gpu_seconds"] for loss in answer["losses"])
    deployed = answer["deployed_gpu_seconds"]
    check(abs(lost + rows["full_clock"]["gpu_seconds"] - deployed) < 1e-9 * deployed,
          f"{where}: losses and the last level are {lost + rows['full_clock']['gpu_seconds']} of "
          f"{deployed}")
    of_deployed = sum(loss["of_deployed"] for loss in answer["losses"])
    check(abs(of_deployed + rows["full_clock"]["of_deployed"] - 1) < 1e-9, f"{where}: not 100 %")
    product = math.prod(row["of_previous"] for row in answer["levels"]
                        if row["of_previous"] is not None)
    check(abs(product - answer["compound"]) < 1e-9, f"{where}: {product}, {answer['compound']}")


class Extremes:
    """The largest deviations that were seen, for docs."""

    def __init__(self):
        self.seen = {}

    def add(self, name, value):
        low, high = self.seen.get(name, (value, value))
        self.seen[name] = min(low, value), max(high, value)

    def text(self):
        return ", ".join(f"{name} {low:+.3%} to {high:+.3%}"
                         for name, (low, high) in self.seen.items())


def true_levels(clusters):
    """The levels as they were; and all that was bought, with hosts that come late, or never."""
    installed = sum(c["gpus"] for c in clusters) * (END - BEGIN)
    return {"installed": installed} | levels_of(clusters)


def check_levels(where, answer, true, faults, scheduled, pods_s, sampling, extremes):
    """`scheduled`: a scheduler tells of every host. `pods_s`: what labels may be wrong by."""
    rows = {row["name"]: row for row in answer["levels"]}
    shown = {name: row["gpu_seconds"] for name, row in rows.items()}
    # What was above the level above, and cut: clocks above the maximum tensor clock.
    full = shown["full_clock"] + rows["full_clock"]["excess_gpu_seconds"]
    most = true["deployed"] if faults == "none" else true["installed"]
    check(true["deployed"] - 1 < shown["deployed"] < most + 1,
          f"{where}: deployed {shown['deployed']}, truth {true['deployed']} to {most}")
    if faults == "none":
        check(shown["schedulable"] is None or abs(shown["schedulable"] - true["schedulable"]) < 1,
              f"{where}: schedulable {shown['schedulable']}, truth {true['schedulable']}")
    elif scheduled:
        check(true["schedulable"] - 1 <= shown["schedulable"] <= true["installed"] + 1,
              f"{where}: schedulable {shown['schedulable']}, truth {true['schedulable']}")
    # Sessions on shared GPUs go on while their host is down: the truth has no busy host then.
    closed = true["installed"] - true["schedulable"]
    for name, more in zip(HELD, (closed, 0)):
        check(-1 - pods_s < shown[name] - true[name] < 1 + pods_s + more,
              f"{where}: {name} {shown[name]}, truth {true[name]}, pods {pods_s}")
    if pods_s == 0 and true["allocated"] > 0:
        extremes.add("allocated", shown["allocated"] / true["allocated"] - 1)
    unmeasured = 0.0
    for name in MEASURED:
        unmeasured += sum(loss["gpu_seconds"] for loss in answer["losses"]
                          if loss["name"] == "unmeasured" and loss["before"] == name)
        least = full if name == "full_clock" else shown[name]
        slack = sampling * true[name]
        check(-slack <= true[name] - least <= unmeasured + slack,
              f"{where}: {name} {least:.1f} and {unmeasured:.1f} not measured, truth "
              f"{true[name]:.1f} ({least / true[name] - 1:+.3%})")
        if faults == "none":
            extremes.add(name, least / true[name] - 1)
        else:
            extremes.add(name + " short by", (true[name] - least) / true["allocated"])
            extremes.add("of at most", unmeasured / true["allocated"])


def one(preset, seed, faults, fleet_extremes, cluster_extremes):
    folder = scratch()
    common = ["simulate", "fleet", "--gpus", str(GPUS), "--preset", preset, "--seed", str(seed),
              "--hours", str(HOURS), "--start", str(START), "--interval", f"{INTERVAL}s",
              "--faults", faults]
    run(*common, "--scheduler", folder + "/books", "--into", folder + "/data")
    simulator = Process(*common, "--step", "--listen", "127.0.0.1:0")
    truth = json.loads(simulator.get(f"/truth?from={BEGIN}&to={END}"))
    hosts = {}
    for target in json.loads(simulator.get("/targets")):
        hosts.setdefault(target["labels"]["cluster"], []).append(target["labels"]["node"])
    simulator.kill9()
    with open(folder + "/books/events.txt") as f:
        slurm = {line.split("|")[0] for line in f.readlines()[1:]}
    for cluster in sorted(slurm):
        run("import", "slurm", *write_books(folder + "/books", cluster), "--cluster", cluster,
            "--time-zone", "UTC", "--as-of", str(END), "--into", folder + "/data", expect=None)
    write_inventory(folder + "/hosts.csv", truth, hosts, sorted(set(hosts) - slurm))
    with open(folder + "/flopwatch.toml", "w") as f:
        f.write(f'[inventory]\nfile = "{folder}/hosts.csv"\n')
    # What labels of pods may be wrong by: an interval at each end of each of their GPUs.
    pods_s = {}
    for job in truth["jobs"]:
        if job.get("pods"):
            pods_s[job["cluster"]] = pods_s.get(job["cluster"], 0) + 2 * INTERVAL * job["gpus"]
    for cluster in (None, *sorted(hosts)):
        where = f"{preset}, seed {seed}, faults {faults}, {cluster or 'all clusters'}"
        answer = json.loads(run("sankey", *(["--cluster", cluster] if cluster else []), "--config",
                                folder + "/flopwatch.toml", "--data-dir", folder + "/data",
                                "--from", str(BEGIN), "--to", str(END), "-o", "json",
                                "-q").stdout)
        check_sums(where, answer)
        check_levels(where, answer,
                     true_levels([c for c in truth["clusters"]
                                  if cluster in (None, c["cluster"])]),
                     faults, cluster in slurm or slurm == set(hosts),
                     pods_s.get(cluster, 0) if cluster else sum(pods_s.values()),
                     SAMPLING_OF_CLUSTER if cluster else SAMPLING,
                     cluster_extremes if cluster else fleet_extremes)


for preset in PRESETS:
    for faults in ("none", "all"):
        fleet, cluster = Extremes(), Extremes()
        for seed in range(1, SEEDS + 1):
            one(preset, seed, faults, fleet, cluster)
        print(f"{preset}, faults {faults}, {SEEDS} seeds of {HOURS:g} h: {fleet.text()}; by "
              f"cluster: {cluster.text()}", flush=True)
