"""A real Slurm runs jobs of all kinds; `import slurm` must put each attempt on the GPUs it really
had and count its GPU-seconds as Slurm's own books and its own report do.

What is true comes from Slurm alone: every node's prolog notes what it was given, the job notes it
again from inside, sacct has the seconds and sreport the sums. Skipped where no Slurm can be had.
"""
import concurrent.futures
import csv
import datetime
import io
import json
import os
import shutil
import threading
import time
import urllib.parse

from harness import Process, check, run, until
from slurm_cluster import Cluster

GPUS_OF_A_NODE = 8
begun = time.time()
cluster = Cluster(hour_ends=125)
folder = cluster.dir + "/work/books"
os.mkdir(folder)


def say(text):
    print(f"{time.time() - begun:6.1f} s  {text}", flush=True)


# --- what is true ---

with open(cluster.dir + "/prolog.d/truth.sh", "w") as f:
    f.write(f"#!/bin/sh\necho $(date +%s.%N) $SLURM_JOB_ID $SLURMD_NODENAME $SLURM_JOB_GPUS"
            f" >>{cluster.dir}/prolog/truth.$SLURMD_NODENAME\n")
os.chmod(cluster.dir + "/prolog.d/truth.sh", 0o755)
with open(cluster.dir + "/epilog.d/slow.sh", "w") as f:  # so that jobs are seen COMPLETING
    f.write('#!/bin/sh\n[ "$SLURMD_NODENAME" != gpu003 ] || sleep 1\n')
os.chmod(cluster.dir + "/epilog.d/slow.sh", 0o755)
INSIDE = ("echo $(date +%s.%N) $SLURM_JOB_ID $SLURMD_NODENAME $SLURM_JOB_GPUS"
          " >>inside.$SLURM_JOB_ID\n")


def notes(paths):
    """(time, job, node, GPUs) of every note."""
    out = []
    for path in paths:
        with open(path) as f:
            for line in f:
                at, job, node, *gpus = line.split()
                out.append((float(at), int(job), node,
                            frozenset(int(g) for g in gpus[0].split(",")) if gpus else frozenset()))
    return out


# --- the jobs ---

def submit(user, name, seconds, *options, then=""):
    return cluster.submit(user, name, f"{INSIDE}sleep {seconds}\n{then}", *options)


def submit_het():
    path = cluster.dir + "/work/het.sh"
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\n{INSIDE}sleep 6\n")
    said = cluster.call("sbatch", "--parsable", "--uid=news", f"--chdir={cluster.dir}/work",
                        "--time=10", "--job-name=het", "--gres=gpu:1", ":", "--gres=gpu:2", path)
    return int(said.split(";")[0])


def nineteen():
    """The jobs of a day, as many kinds as a cluster sees: 19 raw ids."""
    j = {}
    j["pretrain-8b"] = submit("games", "pretrain-8b", 8, "-N2", "--gres=gpu:8",
                              "--comment=workflow=pretrain;run=17")
    j["eval"] = submit("games", "eval", 4, "--array=0-5%3", "--gres=gpu:1")
    j["sft"] = submit("news", "sft", 300, "--gres=gpu:h100:3", "-wgpu003", "--qos=high")
    j["oops"] = submit("news", "oops", 2, "--gres=gpu:2", then="exit 3")
    j["ddp4"] = submit("backup", "ddp4", 6, "-N4", "--gres=gpu:2")
    j["cpuonly"] = submit("backup", "cpuonly", 3, "-n4")
    j["toolong"] = submit("backup", "toolong", 300, "--gres=gpu:1", "-wgpu003", "--time=1",
                          "--qos=high")
    j["het"] = submit_het()
    j["pretrain-70b"] = submit("games", "pretrain-70b", 6, "-N3", "--gres=gpu:8",
                               "--comment=workflow=pretrain;run=18")
    for k, gpus in enumerate((2, 2, 2, 3)):
        j[f"small{k}"] = submit(("man", "news")[k % 2], f"small{k}", 5, f"--gres=gpu:{gpus}",
                                "-plong")
    j["held"] = submit("man", "held", 5, "--gres=gpu:1", "--hold")
    j["never"] = submit("man", "never", 5, "--gres=gpu:1", "--hold")
    cluster.call("scancel", str(j["never"]))
    cluster.await_state(j["sft"], "RUNNING")
    time.sleep(5)
    cluster.call("scancel", str(j["sft"]))
    return j


def preemption():
    low = submit("man", "low", 6, "--gres=gpu:8", "-wgpu001", "--qos=low", "--requeue")
    cluster.await_state(low, "RUNNING")
    time.sleep(5)
    # Long enough that the other one is not back before slurmd has forgotten its first credential:
    # until then it takes the job for known and runs no prolog.
    high = submit("games", "high", 10, "--gres=gpu:8", "-wgpu001", "--qos=high")
    cluster.await_state(high, "COMPLETED")
    cluster.await_state(low, "COMPLETED")
    alone = submit("games", "exclusive", 6, "--gres=gpu:1", "--exclusive", "-wgpu001")
    cluster.await_state(alone, "COMPLETED")
    return {"low": low, "high": high, "exclusive": alone}


def reservation():
    cluster.call("scontrol", "create", "reservation", "reservationname=course", "starttime=now",
                 "duration=1", "nodes=gpu002", "users=news")
    job = submit("news", "reserved", 7, "--gres=gpu:3", "--reservation=course")
    cluster.await_state(job, "COMPLETED")
    return {"reserved": job}


def suspension():
    job = submit("backup", "suspended", 9, "--gres=gpu:2", "-wgpu003")
    cluster.await_state(job, "RUNNING")
    time.sleep(2)
    cluster.call("scontrol", "suspend", str(job))
    time.sleep(5)
    cluster.call("scontrol", "resume", str(job))
    cluster.await_state(job, "COMPLETED")
    return {"suspended": job}


def requeue():
    job = submit("games", "again", 6, "--gres=gpu:2", "-wgpu003", "--requeue")
    cluster.await_state(job, "RUNNING")
    time.sleep(4)
    cluster.call("scontrol", "requeue", str(job))
    cluster.await_state(job, "COMPLETING", "PENDING")
    look()
    cluster.await_state(job, "PENDING")
    cluster.update(f"jobid={job}", "starttime=now+10")  # as with the preempted one
    cluster.await_state(job, "COMPLETED")
    return {"again": job}


def drain_and_down():
    job = submit("news", "draining", 7, "--gres=gpu:2", "-wgpu004")
    cluster.await_state(job, "RUNNING")
    cluster.update("nodename=gpu004", "state=drain", "reason=ECC errors")
    cluster.await_state(job, "COMPLETED")
    time.sleep(4)
    cluster.update("nodename=gpu004", "state=resume")
    lost = submit("man", "lost", 300, "--gres=gpu:1", "-wgpu004", "--no-requeue")
    cluster.await_state(lost, "RUNNING")
    time.sleep(4)
    cluster.update("nodename=gpu004", "state=down", "reason=power")
    time.sleep(6)
    cluster.update("nodename=gpu004", "state=resume")
    return {"draining": job, "lost": lost}


# --- what flopwatch is given: a look every few seconds, and the books at the end ---

looks = []
looking = threading.Lock()
over = threading.Event()


def look():
    with looking:
        for name, command in (("job.txt", ("scontrol", "show", "job", "-d", "-o")),
                              ("squeue.json", ("squeue", "--json"))):
            path = f"{folder}/look{len(looks) // 2:03}.{name}"
            with open(path, "w") as f:
                f.write(cluster.call(*command))
            looks.append(path)


def keep_looking():
    while not over.wait(3):
        look()


FIELDS = ("JobIDRaw,JobID,Cluster,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,"
          "End,ElapsedRaw,Suspended,ReqTRES,AllocTRES,NodeList,Reservation,WCKey,Comment,JobName")


def write(name, *command):
    with open(f"{folder}/{name}", "w") as f:
        f.write(cluster.call(*command))
    return f"{folder}/{name}"


say("the cluster runs")
watcher = threading.Thread(target=keep_looking)
watcher.start()
try:
    jobs = nineteen()
    for name in ("oops", "pretrain-8b", "ddp4", "het", "pretrain-70b", "eval", "small0", "small1",
                 "small2", "small3", "cpuonly"):
        cluster.await_state(jobs[name], "COMPLETED", "FAILED", seconds=60)
    say("the nineteen ran, but one that does not stop")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(f) for f in (preemption, reservation, suspension, requeue,
                                              drain_and_down)]:
            jobs.update(done.result())
    jobs["running"] = submit("games", "running", 300, "--gres=gpu:4", "-wgpu001")
    cluster.await_state(jobs["running"], "RUNNING")
    cluster.await_state(jobs["toolong"], "TIMEOUT")
    say(f"the others ran; the hour ends in {cluster.hour_end - time.time():.0f} s")
finally:
    over.set()
    watcher.join()


def hour_is_reported():
    rows = cluster.sreport("cluster", "utilization")
    return rows if rows and rows[0]["Allocated"] != "0" else None


report = until(hour_is_reported, "sreport has the hour", every=1,
               seconds=cluster.hour_end - time.time() + 30)[0]
say(f"sreport: {report}")
# With --json, 22.05 cannot read its own start time where SLURM_TIME_FORMAT is set.
sacct_json = cluster.call("env", "-u", "SLURM_TIME_FORMAT", "sacct", "-D", "-a", "-S",
                          "now-1hours", "--json")
with open(folder + "/sacct.json", "w") as f:
    f.write(sacct_json)
sacct_txt = write("sacct.txt", "sacct", "-D", "-X", "-a", "-P", "-S", "now-1hours",
                  "--format=" + FIELDS)
events = write("event.txt", "sacctmgr", "-P", "show", "event", "Start=now-1hours")
node_txt = write("node.txt", "scontrol", "show", "node", "-d", "-o")
as_of = int(time.time())
prolog = cluster.dir + "/prolog/"
prologs = sorted(prolog + name for name in os.listdir(prolog) if name.endswith(".csv"))
check(len(prologs) >= 4, f"a prolog's file of each node: {prologs}")
keep = os.environ.get("FLOPWATCH_SLURM_BOOKS")  # a folder, to look at what Slurm wrote
if keep:
    shutil.copytree(folder, keep, dirs_exist_ok=True)
    shutil.copytree(prolog, keep + "/prolog", dirs_exist_ok=True)


# --- what Slurm says, read here by rules of this test alone ---

def rows_of(path):
    with open(path) as f:
        names, *lines = f.read().splitlines()
    return [dict(zip(names.split("|"), line.split("|"))) for line in lines]


def gpus_of(tres):
    return int(dict(part.split("=") for part in tres.split(",") if part).get("gres/gpu", 0))


attempts = {}  # (raw id, start): the attempt as sacct has it
for row in rows_of(sacct_txt):
    if row["Start"] in ("Unknown", "None") or gpus_of(row["AllocTRES"]) == 0:
        continue
    start = int(row["Start"])
    attempts[(int(row["JobIDRaw"]), start)] = {
        **row, "start": start, "gpus": gpus_of(row["AllocTRES"]),
        "end": None if row["End"] == "Unknown" else int(row["End"])}
    attempts[(int(row["JobIDRaw"]), start)]["reserved"] = int(row["JobIDRaw"]) == jobs["reserved"]


def hms(text):
    seconds = 0
    for part in text.replace("-", ":").split(":"):
        seconds = seconds * 60 + int(part)
    return seconds


for key, a in attempts.items():  # the books agree with themselves, where an attempt is over
    if a["end"] is not None:
        check(a["end"] - a["start"] == int(a["ElapsedRaw"]) + hms(a["Suspended"]),
              f"sacct says of {key}: {a}")


def noted(paths):
    """(raw id, start): {node: GPUs}. A note belongs to the last attempt that had begun."""
    out = {}
    for at, job, node, gpus in notes(paths):
        begun_by_then = [start for raw, start in attempts if raw == job and start <= at + 0.5]
        if gpus:
            check(begun_by_then, f"job {job} on {node} is in no book")
            out.setdefault((job, max(begun_by_then)), {})[node] = gpus
    return out


truth = noted(prolog + name for name in os.listdir(prolog) if name.startswith("truth."))
check(truth.keys() == attempts.keys(), f"prologs and sacct: {truth.keys() ^ attempts.keys()}")
for key, a in attempts.items():
    check(sum(map(len, truth[key].values())) == a["gpus"], f"{key}: {truth[key]}, {a}")
work = cluster.dir + "/work/"
for key, inside in noted(work + n for n in os.listdir(work) if n.startswith("inside.")).items():
    for node, gpus in inside.items():
        check(truth[key][node] == gpus, f"{key}: {gpus} from inside, {truth[key]} by the prolog")


def job_has(name, *states):
    """The states of a job's attempts are these, in order."""
    found = [a["State"].split()[0] for key, a in sorted(attempts.items()) if key[0] == jobs[name]]
    check(found == list(states), f"{name}: {found}")


for name, states in (("low", ("PREEMPTED", "COMPLETED")), ("again", ("REQUEUED", "COMPLETED")),
                     ("toolong", ("TIMEOUT",)), ("sft", ("CANCELLED",)), ("oops", ("FAILED",)),
                     ("lost", ("NODE_FAIL",)), ("running", ("RUNNING",)), ("held", ()),
                     ("never", ()), ("cpuonly", ())):
    job_has(name, *states)
alone = next(a for key, a in attempts.items() if key[0] == jobs["exclusive"])
check(alone["gpus"] == GPUS_OF_A_NODE and gpus_of(alone["ReqTRES"]) == 1, f"exclusive: {alone}")
tasks = {a["JobID"] for a in attempts.values() if a["JobID"].startswith(f"{jobs['eval']}_")}
check(len(tasks) == 6, f"six tasks of the array, not {tasks}")


# --- what flopwatch says ---

def indices(text):
    """"gpu003:3-5 gpu004:0,1" as {node: GPUs}."""
    out = {}
    for word in text.split():
        node, ranges = word.split(":")
        out[node] = frozenset(g for part in ranges.split(",")
                              for g in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1))
    return out


def imported(*files):
    """The attempts by (raw id, start)."""
    said = run("import", "slurm", *files, "--as-of", str(as_of), "-o", "json")
    return {(row["raw_id"], seconds_of(row["start"])): row for row in json.loads(said.stdout)}


def seconds_of(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def check_books(found, what, all_gpus_known):
    check(found.keys() == attempts.keys(),
          f"{what}: other attempts {found.keys() ^ attempts.keys()}")
    known = 0
    for key, row in found.items():
        a = attempts[key]
        on = indices(row["gpu_indices"] or "")
        check(on == truth[key] or (not on and not all_gpus_known),
              f"{what}: {key} on {on}, it was on {truth[key]}")
        known += bool(on)
        held = a["gpus"] * ((a["end"] or as_of) - a["start"])
        slack = a["gpus"] * 5 if a["end"] is None else 0  # when the running one was looked at
        check(abs(row["held_gpu_seconds"] - held) <= slack,
              f"{what}: {key} held {row['held_gpu_seconds']} GPU-seconds, not {held}")
        if a["end"] is not None:
            suspended = a["gpus"] * hms(a["Suspended"])
            check((row["suspended_gpu_seconds"] or 0) == suspended, f"{what}: {key}: {row}")
        for ours, theirs in (("user", "User"), ("account", "Account"), ("partition", "Partition"),
                             ("cluster", "Cluster"), ("name", "JobName")):
            check(row[ours] == a[theirs], f"{what}: {key}: {ours} is {row[ours]}")
        check((row["comment"] or "") == a["Comment"] or row["state"] == "RUNNING",
              f"{what}: {key}: {row['comment']}")
    say(f"{what}: {len(found)} attempts as sacct has them, {known} on the GPUs they had")
    return known


check_books(imported(sacct_txt, *prologs), "sacct text and prologs", True)
check_books(imported(folder + "/sacct.json", *prologs), "sacct JSON and prologs", True)
# Who only looks misses what came and went between two looks, and never says a wrong GPU.
for kind in ("squeue.json", "job.txt"):
    seen = [path for path in looks if path.endswith(kind)]
    check(check_books(imported(sacct_txt, *seen), f"sacct text and {len(seen)} looks ({kind})",
                      False) >= len(attempts) * 2 // 3, "too few were seen while they ran")

# The file for `serve --jobs-file`: each GPU of each attempt, from its start to its end.
jobs_file = run("import", "slurm", sacct_txt, *prologs, node_txt, "--as-of", str(as_of),
                "--jobs-file", "-")
found = {(row["gpu"], row["job"], seconds_of(row["from"]),
          seconds_of(row["to"]) if row["to"] else None)
         for row in csv.DictReader(io.StringIO(jobs_file.stdout))}
# A job's key is its raw id.
wanted = {(f"{node}:nvidia{gpu}", str(key[0]), key[1], attempts[key]["end"])
          for key, on in truth.items() for node, gpus in on.items() for gpu in gpus}
check(found == wanted, f"the jobs file: {sorted(found ^ wanted, key=str)[:6]}")

# --- the sums of Slurm's own report ---

begin, end = cluster.hour_end - 3600, cluster.hour_end


def within(start, stop):
    return max(0, min(stop or as_of, end) - max(start, begin))


def held(wanted):
    return sum(a["gpus"] * within(a["start"], a["end"]) for a in attempts.values() if wanted(a))


# A job inside a reservation is in the reports by account and user, and missing from the cluster's.
allocated = held(lambda a: not a["reserved"])
down = sum(GPUS_OF_A_NODE * within(int(e["TimeStart"]),
                                   None if e["TimeEnd"] == "Unknown" else int(e["TimeEnd"]))
           for e in rows_of(events) if e["NodeName"])
check(int(report["Allocated"]) == allocated, f"allocated {allocated}: {report}")
check(int(report["Down"]) == down, f"down {down}: {report}")
idle = int(report["Reported"]) - allocated - down
check(int(report["Idle"]) + int(report["PLND Down"]) + int(report["Planned"]) == idle,
      f"idle {idle}: {report}")
by_user = {(r["Account"], r["Login"]): int(r["Used"])
           for r in cluster.sreport("cluster", "AccountUtilizationByUser") if r["Login"]}
mine = {}
for a in attempts.values():
    owner = (a["Account"], a["User"])
    mine[owner] = mine.get(owner, 0) + a["gpus"] * within(a["start"], a["end"])
check(by_user == mine, f"by user: {by_user}, not {mine}")
say(f"sreport's hour: {allocated} GPU-seconds allocated, {down} down, {idle} idle; "
    f"{len(mine)} users as sreport has them")

# --- a server that asks Slurm itself ---

os.environ["FLOPWATCH_SLURM_CONF"] = cluster.env["SLURM_CONF"]
server = Process("serve", "--slurm", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                 "--no-page", "--target", "http://127.0.0.1:9/metrics")


def told():
    scheduler = server.json("/api/v1/status")["scheduler"]
    return (scheduler["last_look"] and scheduler["accounting"]["last_answer"] and
            not scheduler["accounting"]["windows_waiting"])


until(told, "a look at the cluster and at its accounting", seconds=60, every=0.5)
# What is stored is asked by whole minutes.
stop = min(int(time.time()), end) // 60 * 60
window = ["--from", str(begin), "--to", str(stop), "--server", server.url, "-o", "json"]


def asked(*args):
    return json.loads(run(*args, *window, "-q").stdout)


def since_begin(a):
    return a["gpus"] * max(0, min(a["end"] or stop, stop) - max(a["start"], begin))


books = server.json("/api/v1/sql?limit=1000&q=" + urllib.parse.quote(
    "SELECT job, epoch(started)::BIGINT, epoch(ended)::BIGINT, gpus, account, state, placed "
    "FROM attempts WHERE started IS NOT NULL ORDER BY 1, 2"))["rows"]
for by, column in (("account", "Account"), ("user", "User"), ("partition", "Partition"),
                   ("qos", "QOS")):
    want = {}
    for a in attempts.values():
        want[a[column]] = want.get(a[column], 0) + since_begin(a)
    rows = {row["name"]: row["gpu_seconds"] for row in asked("usage", "--by", by)}
    for name, seconds in want.items():
        check(abs(rows.get(name, 0) - seconds) <= 1,
              f"usage by {by}: {name} held {rows.get(name)}, Slurm says {seconds}: {books}")
answer = asked("sankey")
levels = {row["name"]: row["gpu_seconds"] for row in answer["levels"]}
lost = {row["name"]: row["gpu_seconds"] for row in answer["losses"]}
everything = sum(map(since_begin, attempts.values()))
check(abs(levels["allocated"] - everything) <= 1,
      f"sankey: {levels['allocated']} allocated, Slurm says {everything}")
out = lost.get("down", 0) + lost.get("drained", 0)
down = sum(GPUS_OF_A_NODE * max(0, min(stop if e["TimeEnd"] == "Unknown" else int(e["TimeEnd"]),
                                       stop) - max(int(e["TimeStart"]), begin))
           for e in rows_of(events) if e["NodeName"])
check(abs(out - down) <= 5 * GPUS_OF_A_NODE,
      f"sankey: {out} down or drained, Slurm's events say {down}: {lost}")
nodes = server.json("/api/v1/sql?q=" + urllib.parse.quote(
    "SELECT sum(gpus) FROM nodes WHERE \"to\" IS NULL"))
check(nodes["rows"][0][0] == 4 * GPUS_OF_A_NODE, f"nodes now: {nodes['rows']}")
check(server.stop() == 0, "clean stop")
say(f"a server that asked: {levels['allocated']:.0f} GPU-seconds allocated, {out:.0f} down or "
    f"drained, deployed from {answer['deployed_from']}")
