"""Idle states planted into simulated fleets, and what `flopwatch idle` says of them, both ways:
what was planted is found with its GPU-seconds, and time that was worked is not called idle.

The whole way: the simulator's exporters with all of their faults, ingest, store, the command's
JSON. Bounds: an edge may be off by one scrape interval; of time without samples nothing is
known, so a state may lack what its coverage lacks; what is shorter than a state must last
(docs/idle.md) is left out of both sides. Seeds that nothing was tuned on.
"""
import collections
import json
import sys
from datetime import datetime

from harness import check, run, scratch

gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 512
hours = int(sys.argv[2]) if len(sys.argv) > 2 else 30
presets = sys.argv[3].split(",") if len(sys.argv) > 3 else ["llm", "research", "seren", "serving"]
seeds = [int(s) for s in sys.argv[4].split(",")] if len(sys.argv) > 4 else [101]
faults = sys.argv[5] if len(sys.argv) > 5 else "all"
interval = 30
minute = 60
STATES = ["no_process", "no_work", "startup", "barrier", "hung", "after_last_output", "unused_gpu"]


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def least(state, job, length):
    """How long it takes to be told."""
    ended = job["end"] is not None
    if state == "hung":
        return (10 if ended else 30) * minute
    if state == "no_work":
        whole = ended and length >= seconds(job["end"]) - seconds(job["start"])
        return (2 if whole else 62) * minute
    if state == "unused_gpu":
        return (2 if ended else 10) * minute
    return {"barrier": 10, "no_process": 15, "startup": 15,
            "after_last_output": 62}[state] * minute


def judge(preset, seed):
    folder = scratch()
    planted = ",".join(f"{kind}=6" for kind in
                       ["idle_no_process", "idle_no_work", "idle_startup", "idle_barrier", "hung",
                        "idle_after_last_output", "idle_unused_gpu"])
    run("simulate", "fleet", "--gpus", str(gpus), "--preset", preset, "--seed", str(seed),
        "--hours", str(hours), "--interval", f"{interval}s", "--start", "2026-11-02T00:00:00Z",
        "--faults", faults, "--incidents", planted, "--into", folder + "/data",
        "--truth", folder + "/truth.json", "--threads", "2")
    truth = json.load(open(folder + "/truth.json"))
    window = ["--from", truth["window"]["from"], "--to", truth["window"]["to"]]
    rows = json.loads(run("--data-dir", folder + "/data", "idle", "-o", "json", *window).stdout)
    told = collections.defaultdict(float)
    coverage = {}
    for row in rows:
        told[row["job"], row["state"]] += row["gpu_seconds"]
        coverage[row["job"], row["state"]] = row["coverage"]
        for key in ("job", "user", "state", "gpu_seconds", "money", "since", "evidence"):
            check(key in row, f"a row has {key}")
    total = {s: [0.0, 0.0, 0, 0] for s in STATES}  # true, told, jobs, of these right
    was, brief, jobs = collections.defaultdict(float), collections.defaultdict(float), {}
    for job in truth["jobs"]:
        jobs[job["key"]] = job
        for idle in job.get("idle", []):
            length = seconds(idle["end"]) - seconds(idle["start"])
            held = length * idle["gpus"]
            if job["mig"]:
                held *= job["instance_sms"] / job["gpu_sms"]
            if length < least(idle["state"], job, length) + interval:
                brief[job["key"]] += held
            else:
                was[job["key"], idle["state"]] += held
    for (key, state), true in was.items():
        said = told.get((key, state), 0)
        lacks = 1 - coverage.get((key, state), 1)
        # Two minutes at a job's start are nobody's idle time (docs/simulate.md, Incidents).
        edges = 2 * interval + (120 if state == "no_work" else 0)
        bound = true * (lacks + .01) + edges * jobs[key]["gpus"]
        total[state][0] += true
        total[state][2] += 1
        total[state][3] += abs(said - true) <= bound
        total[state][1] += min(said, true)
    # What is told of jobs beyond all that they idled, services apart: their pauses are not judged.
    idle_of, told_of = collections.defaultdict(float), collections.defaultdict(float)
    for (key, state), true in was.items():
        idle_of[key] += true
    for key, true in brief.items():
        idle_of[key] += true
    for (key, state), said in told.items():
        told_of[key] += said
    held = sum(j["work"]["allocated_us"] for j in truth["jobs"]) / 1e6
    accused = sum(max(0, said - idle_of[key]) for key, said in told_of.items()
                  if not is_service(jobs[key], truth))
    return total, accused, held, was, told, jobs


def is_service(job, truth):
    """Jobs of the serving preset that run from before the window to behind it under Kubernetes."""
    return truth["preset"] == "serving" and job["end"] is None and \
        seconds(job["start"]) <= seconds(truth["window"]["from"])


for preset in presets:
    for seed in seeds:
        total, accused, held, was, told, jobs = judge(preset, seed)
        print(f"{preset} seed {seed}: accused {accused / 3600:.2f} of {held / 3600:.0f} GPU-hours "
              f"({100 * accused / held:.4f} %)", flush=True)
        for state, (true, said, n, right) in total.items():
            if n > 0:
                print(f"  {state:18} {right} of {n} jobs right; {said / 3600:.1f} of "
                      f"{true / 3600:.1f} GPU-hours", flush=True)
        for (key, state), true in sorted(was.items(), key=lambda x: -x[1]):
            said = told.get((key, state), 0)
            if abs(said - true) > .03 * true + 2 * interval * jobs[key]["gpus"]:
                others = {s: round(v) for (k, s), v in told.items() if k == key}
                print(f"    {key} {state}: {true:.0f} GPU-s, told {others}", flush=True)
        check(accused < .001 * held, f"{preset} {seed}: working time is not called idle")
        # Jobs of the seren preset that idle hold no memory, and have no process.
        judged = [s for s in STATES if preset != "seren" or s != "no_work"]
        right = sum(total[s][3] for s in judged)
        check(right >= .9 * sum(total[s][2] for s in judged), f"{preset} {seed}: states are found")
