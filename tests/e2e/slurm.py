"""Who held which GPU, by Slurm's books alone: a simulated scheduler writes them, `import slurm`
makes a jobs file of them, `serve` takes it beside the exporters, and `usage` gives each job the
GPU-seconds that the scheduler's truth has. Requeued, preempted and suspended jobs are among them.
Then the books themselves, posted to the server and written into a directory: GPU-seconds of each
account and the states of each node. At last samples into that directory: GPUs that nobody had seen
when the books came, get the jobs that the books gave them.
"""
import csv
import datetime
import json
import time

from harness import Process, check, run, scratch, until

hours, interval = 24, 120
folder = scratch()
week = 7 * 86400
latest = int(time.time()) - hours * 3600 - 3600
start = (latest - 5 * 86400) // week * week + 5 * 86400  # the newest Tuesday that is over
end = start + hours * 3600
simulator = Process("simulate", "fleet", "--gpus", "512", "--preset", "research", "--seed", "5",
                    "--hours", str(hours), "--start", str(start), "--interval", f"{interval}s",
                    "--faults", "scheduler", "--step", "--listen", "127.0.0.1:0",
                    "--scheduler", folder + "/books", "--truth", folder + "/truth.json")
with open(folder + "/truth.json") as f:
    attempts = [a for a in json.load(f)["scheduler"]["attempts"]
                if a["holds"] == "gpu" and a["start"] > 0]

said = run("import", "slurm", folder + "/books/sacct.txt", folder + "/books/gpu_map.csv",
           folder + "/books/scontrol_node.txt", "--time-zone", "UTC", "--as-of", str(end),
           "--jobs-file", folder + "/jobs.csv")


def seconds_of(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


# The file: every attempt on the GPUs the scheduler gave it, from its start to its end.
devices = {}
with open(folder + "/books/gpu_map.csv") as f:
    for row in csv.DictReader(f):
        devices.setdefault((row["job_id_raw"], int(row["start"])), set()).add(
            f"{row['node']}:nvidia{row['gpu']}")
wanted = {(gpu, a["key"], a["start"], a["end"])
          for a in attempts if a["end"] == 0 or a["end"] > a["start"]
          for gpu in devices[(a["key"], a["start"])]}
assigned = wanted
with open(folder + "/jobs.csv") as f:
    found = {(row["gpu"], row["job"], seconds_of(row["from"]),
              seconds_of(row["to"]) if row["to"] else 0) for row in csv.DictReader(f)}
check(wanted <= found, f"not in the file: {sorted(wanted - found)[:3]} of {len(wanted - found)}")
more = {entry[1] for entry in found - wanted} & {a["key"] for a in attempts}
check(not more, f"jobs that the scheduler did not give GPUs so: {sorted(more)[:3]}\n{said.stderr}")

# The GPU-seconds that come of it. The exporters' own labels agree with the books or are silent.
server = Process("serve", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                 "--interval", "10ms", "--http-sd", simulator.url + "/targets",
                 "--jobs-file", folder + "/jobs.csv")


def finished():
    targets = server.json("/api/v1/targets?limit=100000")["targets"]
    return len(targets) > 0 and all("410" in (t["error"] or "") for t in targets)


until(finished, "every host gave its last sample", seconds=600, every=0.5)
until(lambda: server.json("/api/v1/status")["ingest"].get("queued_rows", 0) == 0,
      "the queue is empty")
time.sleep(17)  # one rollup interval of the server
rows = {row["name"]: row for row in json.loads(run(
    "usage", "--by", "job", "--from", str(start), "--to", str(end), "--server", server.url,
    "-o", "json", "-q").stdout)}
held = {}
for a in attempts:
    until_s = min(a["end"] or end, end)
    held[a["key"]] = held.get(a["key"], 0) + a["gpus"] * max(0, until_s - max(a["start"], start))
compared = 0
for job, seconds in held.items():
    if seconds == 0:
        continue
    check(job in rows, f"job {job} with {seconds} GPU-seconds is missing")
    check(abs(rows[job]["gpu_seconds"] - seconds) < 1e-3,
          f"job {job}: {rows[job]['gpu_seconds']} GPU-seconds, the scheduler gave it {seconds}")
    compared += 1
again = len(attempts) - len({a["key"] for a in attempts})
check(compared >= 50 and again >= 3, f"{compared} jobs, {again} that ran again: too few")
print(f"{compared} jobs with equal GPU-seconds, {again} attempts of jobs that ran again")

# The same books, and what nodes were, into the server that runs and into a directory of its own:
# both say what the scheduler says, account by account and node by node.
with open(folder + "/truth.json") as f:
    clusters = json.load(f)["scheduler"]["clusters"]
books = [folder + "/books/" + name
         for name in ("sacct.txt", "gpu_map.csv", "scontrol_node.txt", "events.txt")]
options = ["--time-zone", "UTC", "--as-of", str(end), "-o", "json", "-q"]
posted = json.loads(run("import", "slurm", *books, "--server", server.url, *options).stdout)[0]
check(server.stop() == 0, "clean stop")
written = json.loads(run("import", "slurm", *books, "--into", folder + "/books_only",
                         *options).stdout)[0]
check(posted == written, f"the server took {posted}, the directory {written}")
check(written["refused"] == 0 and written["placed"] > 0 and written["nodes"] > 0, f"{written}")


def clipped(begin, until):
    return (f"greatest(0, least(coalesce(epoch({until}), {end}), {end})"
            f" - greatest(epoch({begin}), {start}))")


def rows_of(data, query):
    return json.loads(run("sql", query, "--data-dir", folder + data, "--max-rows", "100000",
                          "-o", "json", "-q").stdout)


for data in ("/data", "/books_only"):
    held = {(row["cluster"], row["account"]): row["s"] for row in rows_of(
        data, f"SELECT cluster, account, sum(gpus * {clipped('started', 'ended')}) AS s "
        "FROM attempts WHERE started IS NOT NULL GROUP BY ALL")}
    accounts = 0
    for cluster in clusters:
        for account in cluster["accounts"]:
            found = held.get((cluster["cluster"], account["account"]), 0) or 0
            check(abs(found - account["allocated_gpu_s"]) < 1e-3,
                  f"{data}: {cluster['cluster']} {account['account']} has {found} GPU-seconds, "
                  f"the scheduler gave it {account['allocated_gpu_s']}")
            accounts += 1
    was = {}
    for row in rows_of(data, 'SELECT cluster, node, service, '
                       f'sum({clipped(chr(34) + "from" + chr(34), chr(34) + "to" + chr(34))}) AS s '
                       "FROM nodes GROUP BY ALL"):
        was[(row["cluster"], row["node"], row["service"])] = row["s"]
    nodes, out = 0, 0
    for cluster in clusters:
        for node in cluster["nodes"]:
            truth = node["node_s"]
            # Slurm's books do not say since when a host is there; and scontrol's, which do not name
            # their cluster, leave a node unnamed that no job or event is on.
            if truth["absent"] > 0 or (node["attempts"] == 0 and not node["states"]):
                continue
            for service, wanted in (("in_service", truth["schedulable"]), ("down", truth["down"]),
                                    ("drained", truth["drained"] + truth["draining"]),
                                    ("maintenance", truth["maintenance"])):
                found = was.get((cluster["cluster"], node["node"], service), 0)
                check(abs(found - wanted) < 1e-3, f"{data}: {node['node']} was {service} for "
                      f"{found} s, by the scheduler {wanted}: {node['states']}")
                out += service != "in_service" and wanted > 0
            nodes += 1
    check(accounts >= 5 and nodes >= 20 and out >= 1, f"{accounts} accounts, {nodes} nodes, {out}")
print(f"{accounts} accounts and {nodes} nodes, {out} times out of service, as the scheduler says")

# Samples after the books, by another process: who held each GPU is known all the same.
run("simulate", "fleet", "--gpus", "512", "--preset", "research", "--seed", "5",
    "--hours", str(hours), "--start", str(start), "--interval", f"{interval}s",
    "--faults", "scheduler", "--into", folder + "/books_only")
boards = {(row["node"], row["device"]) for row in rows_of(
    "/books_only", "SELECT DISTINCT node, device FROM gpus")}
there = {entry for entry in assigned if tuple(entry[0].rsplit(":", 1)) in boards}
held = {(f"{row['node']}:{row['device']}", row["job"], round(row["b"]), round(row["e"] or 0))
        for row in rows_of("/books_only",
                           "SELECT g.node, g.device, i.job, epoch(i.started) AS b, "
                           "epoch(i.ended) AS e FROM job_intervals i JOIN gpus g ON i.entity = "
                           "g.entity WHERE i.source = 'scheduler'")}
check(len(there) > len(assigned) / 2,
      f"{len(there)} of {len(assigned)} are on GPUs that have samples")
check(there <= held, f"not held: {sorted(there - held)[:3]} of {len(there - held)}")
print(f"{len(there)} times on GPUs whose samples came after the books")
