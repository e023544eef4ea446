"""The shipped alert rules over simulated fleets with incidents planted in them, both ways: what was
planted is alerted once, of the right job, node or GPU, in time, and resolved after its end; and
what fires has something true behind it.

The whole way: the simulator's exporters with all of their faults, ingest, store, and the replay of
the rules (`flopwatch alerts test all`). The truth is the simulator's own, whose natural events
(hangs, throttled GPUs, failed nodes, idle jobs) count as well as planted ones. Of silent nodes it
says nothing where the telemetry alone was lost; there the gaps in the stored samples are the truth.

A kind has a reach: how large an incident must be, and how long, for its rule to promise anything.
The table has all that were planted, those in reach, and of these how many were alerted, alerted in
time, told once, and resolved in time.

  alerts.py [GPUS [HOURS [PRESET,PRESET [SEED,SEED|FIRST-LAST]]]]
  FLOPWATCH_TEST_PLANTED=N: so many of each kind (4); FLOPWATCH_TEST_LIES=N: and counters that lie,
  on N hosts for each kind, in every second fleet (1); FLOPWATCH_TEST_RULES=FILE: rules beside the
  shipped ones; FLOPWATCH_TEST_DUMP=1: each that was missed, and each that was false;
  FLOPWATCH_TEST_KEEP=DIR: fleets are kept there, and those that are there are read again
"""
import collections
import copy
import glob
import json
import os
import re
import shutil
import sys
import tomllib
from datetime import datetime

from harness import check, run, scratch

GPUS = int(sys.argv[1]) if len(sys.argv) > 1 else 256
HOURS = int(sys.argv[2]) if len(sys.argv) > 2 else 24
PRESETS = sys.argv[3].split(",") if len(sys.argv) > 3 else ["llm"]
SEEDS = sys.argv[4] if len(sys.argv) > 4 else "102"
PLANTED = int(os.environ.get("FLOPWATCH_TEST_PLANTED", "4"))
LIES = int(os.environ.get("FLOPWATCH_TEST_LIES", "1"))
OWN = os.environ.get("FLOPWATCH_TEST_RULES")
KEEP = os.environ.get("FLOPWATCH_TEST_KEEP")
DUMP = os.environ.get("FLOPWATCH_TEST_DUMP")
INTERVAL = 30
ROUND = 15
MINUTE = 60
HOUR = 60 * MINUTE
WINDOW = 5 * MINUTE      # quantities of jobs are over it
REPORTS = 8 * MINUTE     # five reports of a job, one to each minute and more
NO_DATA = 15 * MINUTE    # a subject that is gone is resolved after it
LONGEST_KEEP = 60 * MINUTE
START = "2026-11-02T00:00:00Z"

RULES_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/alerts/rules")
IDLE = ["idle_no_process", "idle_no_work", "idle_after_last_output", "idle_unused_gpu"]
DROPS = ["drop_tensor", "drop_clock", "drop_duty", "drop_memory", "drop_network"]
STRAGGLERS = ["straggler_clock", "straggler_power_cap", "straggler_thermal", "straggler_stall",
              "straggler_link", "straggler_host"]
XIDS = ["xid_application", "xid_memory", "xid_link", "xid_bus", "xid_gsp"]
REPORTED = ["loss_not_finite", "loss_spike", "grad_norm"]
ANY_XID = ["xid_fatal", "xid_again"]
APPLICATION_CODES = {13, 31, 43, 45}
ROWS = ["row_remap", "row_remap_failed"]
CLOCKS = ["clock_stuck", "power_brake"]
OF_A_JOB = ["xid_application", "xid_fatal"]  # an alert that does not name the job is none
BOARDS = XIDS + ANY_XID + ["xid_drain", "ecc_double"] + ROWS
# Of a workflow: each of its later jobs is one.
CHANGES = ["change_gpus", "change_model", "change_precision"]
OF_TRAINING = {"job_ofu_drop", "job_duty_drop", "job_throughput_drop", "job_mfu_drop", "job_hung",
               "job_no_progress", "job_mfu_divergence", "job_ofu_below_history", "gpu_idle_held",
               "job_loss_not_finite", "job_loss_spike", "job_grad_norm"}
DECOYS = {kind: OF_TRAINING for kind in ["restart"] + CHANGES} | {
          "xid_old": {"gpu_xid_hardware", "gpu_xid_application"},
          "row_remap_old": {"gpu_row_remap", "gpu_row_remap_pending", "gpu_row_remap_failed"},
          "loss_once": {"job_loss_not_finite", "job_loss_spike", "job_grad_norm"}}
# Nodes of which nothing is heard: one that is down; one whose exporter alone is away, of which
# nobody can know that; and one whose job goes on and says so.
SILENT = ["node_silent", "exporter_silent", "exporter_lost"]
HANGS = ["hung", "hang", "idle_barrier"]
# A drop, as a job that reports says it of itself.
REPORTED_DROPS = ["drop_tokens", "drop_mfu"]
REGRESSIONS = ["regression_tensor", "regression_clock", "regression_memory", "regression_network"]
KINDS = (STRAGGLERS + DROPS + ["hung", "idle_barrier"] + IDLE + XIDS + ANY_XID + ["ecc_double"] +
         ROWS + REPORTED + list(DECOYS) + REGRESSIONS[:1] + CLOCKS)
LIE_KINDS = ["tensor_dead", "profiling_dead", "tensor_frozen", "power_dead", "duty_dead",
             "duty_stuck", "power_missing", "clock_missing", "exporter_frozen"]
# Of kinds of which few are in reach of a rule more are asked for, and large ones alone.
ONCE = ["fleet_drop"]  # in every second fleet: its jobs have nothing else then
TIMES = {kind: 3 for kind in DROPS} | {REGRESSIONS[0]: 10} | \
    {kind: 5 for kind in REPORTED + ["loss_once"]} | \
    {kind: 2 for kind in ["straggler_clock", "straggler_power_cap", "straggler_host"]}
LEAST = {kind: .3 for kind in DROPS} | {"straggler_clock": .12, "straggler_power_cap": .12,
                                        "straggler_host": .2}

# The rule that names a kind. Natural kinds come last.
RULE_OF = {
    "straggler_clock": "gpu_straggler", "straggler_power_cap": "gpu_straggler",
    "straggler_thermal": "gpu_thermal_throttle", "straggler_stall": "gpu_pcie_replays",
    "straggler_link": "gpu_nvlink_errors", "straggler_host": "node_straggler",
    "drop_tensor": "job_ofu_drop", "drop_clock": "job_ofu_drop", "drop_memory": "job_ofu_drop",
    "drop_network": "job_ofu_drop", "drop_duty": "job_duty_drop",
    "hung": "job_hung", "idle_barrier": "job_hung",
    "idle_no_process": "gpu_idle_held", "idle_no_work": "gpu_idle_held",
    "idle_after_last_output": "gpu_idle_held", "idle_unused_gpu": "gpu_idle_held",
    "hang": "job_hung", "throttle": "gpu_thermal_throttle", "node_silent": "node_silent",
    "exporter_silent": "node_silent", "exporter_lost": "exporter_lost",
    "xid_application": "gpu_xid_application", "xid_memory": "gpu_xid_hardware",
    "xid_link": "gpu_xid_hardware", "xid_bus": "gpu_xid_hardware", "xid_gsp": "gpu_xid_hardware",
    "row_remap": "gpu_row_remap", "row_remap_failed": "gpu_row_remap_failed",
    "ecc_double": "gpu_ecc", "loss_not_finite": "job_loss_not_finite",
    "loss_spike": "job_loss_spike", "grad_norm": "job_grad_norm",
    "xid_fatal": "gpu_xid_hardware", "xid_again": "gpu_xid_hardware",  # by its code: rule_of()
    "xid_drain": "gpu_xid_hardware",
    "miscount": "job_mfu_divergence", "regressed": "job_ofu_below_history",
    "drop_tokens": "job_throughput_drop", "drop_mfu": "job_mfu_drop",
    "clock_stuck": "gpu_clock_low", "power_brake": "gpu_power_brake",
    "row_remap_pending": "gpu_row_remap_pending", "fleet_drop": "fleet_ofu_drop",
    "counter_lie": "gpu_counter_fault",
}

# What makes a job worse than it was.
WORSE = set(DROPS) | set(STRAGGLERS) | {"throttle", "slow", "fleet_drop", "power_brake"}
# What is true behind an alert of a rule, by the kinds of the truth. "slow": a GPU of
# jobs[].gpus_slow that is slower than its peers by a twentieth; "idle": of jobs[].idle.
TRUE_OF = {
    "gpu_straggler": {"straggler_clock", "straggler_power_cap", "straggler_thermal", "throttle",
                      "slow"},
    "gpu_clock_low": {"straggler_clock", "straggler_power_cap", "straggler_thermal", "throttle",
                      "drop_clock", "regression", "regression_clock", "slow", "clock_stuck"},
    "gpu_thermal_throttle": {"straggler_thermal", "throttle"},
    "gpu_pcie_replays": {"straggler_stall"}, "gpu_nvlink_errors": {"straggler_link"},
    "node_straggler": {"straggler_host"},
    "job_ofu_drop": WORSE,
    "job_duty_drop": WORSE,
    # What jobs say of themselves follows what their GPUs do.
    "job_throughput_drop": WORSE | {"idle", "spin"},
    "job_mfu_drop": WORSE | {"idle", "spin"},
    "job_no_progress": set(IDLE) | {"idle_startup", "idle_gpus", "idle", "hung", "hang",
                                    "idle_barrier", "spin"},
    "job_loss_not_finite": {"loss_not_finite"}, "job_loss_spike": {"loss_spike"},
    "job_grad_norm": {"grad_norm"},
    "job_hung": {"hung", "hang", "idle_barrier", "spin"},
    "gpu_idle_held": set(IDLE) | {"idle_gpus", "idle"},
    "job_mfu_divergence": {"miscount", "overstated"},
    "job_ofu_below_history": WORSE | {"regressed", "clock_stuck"},
    "node_silent": {*SILENT, "node_down", "gpu_swap"},
    "exporter_lost": {"exporter_silent", "exporter_lost"},
    "gpu_silent": {"gpu_swap"},
    "gpu_xid_hardware": {"xid_drain", "xid_memory", "xid_link", "xid_bus", "xid_gsp"} |
                        set(ANY_XID),
    "gpu_xid_application": {"xid_application", "xid_drain"} | set(ANY_XID),
    "gpu_ecc": {"ecc_double", "xid_memory"},
    "gpu_row_remap": {"row_remap", "row_remap_pending"},
    "gpu_row_remap_failed": {"row_remap_failed"},
    "gpu_row_remap_pending": {"row_remap", "row_remap_pending"},
    "gpu_power_brake": {"power_brake"}, "fleet_ofu_drop": {"fleet_drop"},
    "gpu_counter_fault": {"counter_lie", "no_tensor"},
}


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def rules():
    out = {}
    for path in sorted(glob.glob(RULES_FOLDER + "/*.toml")) + ([OWN] if OWN else []):
        with open(path, "rb") as f:
            for name, rule in tomllib.load(f)["rules"].items():
                out.setdefault(name, {}).update(rule)
    return out


def length(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]] if text else 0


class Event:
    def __init__(self, e, end_of_all):
        self.kind, self.size = e["kind"], e.get("size") or 0
        self.planted = e.get("planted", False)
        self.begin, self.end = seconds(e["start"]), seconds(e["end"]) if e["end"] else end_of_all
        self.sign = e.get("sign")
        if self.kind == "row_remap" and self.sign == "pending":
            self.kind = "row_remap_pending"  # until its reset, which the exporter tells of
        if self.kind in ("row_remap_failed", "counter_lie"):
            self.end = end_of_all  # nobody replaces a board in these fleets, or mends an exporter
        elif self.kind in BOARDS:
            self.end = self.begin + 10 * MINUTE  # a moment; for so long the code is new
        self.job, self.node = e.get("job"), e.get("node")
        self.gpus = set(e.get("gpus") or
                        ([e["entity"]] if e["entity"].startswith("GPU-") else []))

    def __str__(self):
        return (f"{self.kind} {self.size:.3g} {self.sign or ''} of {self.job or self.node} for "
                f"{(self.end - self.begin) / 60:.0f} min")


def ask(data, query):
    return json.loads(run("--data-dir", data, "sql", "--max-rows", "100000", "-o", "json", "-q",
                          query).stdout)


def silences(data):
    """Of nodes, from the samples: longer than two minutes without any."""
    gaps = ask(data,
               "SELECT node, epoch(before) AS begin, epoch(ts) AS \"end\", held AS job FROM "
               "(SELECT node, ts, lag(ts) OVER of_node AS before, lag(job) OVER of_node AS held "
               "FROM (SELECT node, ts, any_value(job) AS job FROM samples GROUP BY 1, 2) WINDOW "
               "of_node AS (PARTITION BY node ORDER BY ts)) WHERE ts - before > INTERVAL 120 "
               "SECOND")
    return gaps, ask(data, "SELECT node, epoch(max(ts)) AS begin, arg_max(job, ts) AS job FROM "
                     "samples GROUP BY node")


class Truth:
    def __init__(self, truth, data):
        self.data = data
        self.begin = seconds(truth["window"]["from"])
        self.end = seconds(truth["window"]["to"])
        self.jobs = {}
        for job in truth["jobs"]:
            self.jobs.setdefault(job["key"], job)
        self.events = [Event(e, self.end) for e in truth["events"]]
        # Exporters of one cluster collect at one interval, which is not the same in all.
        self.intervals = {r["cluster"]: r["every"] for r in ask(
            data, "SELECT split_part(node, '-', 1) AS cluster, median(span_s) AS every "
            "FROM samples GROUP BY 1")}
        gaps, last = silences(data)
        down = [(e["node"], seconds(e["start"]), seconds(e["end"]) if e["end"] else self.end)
                for e in truth["events"] if e["kind"] in ("node_down", "gpu_swap")]

        def kind_of(r, end):
            if any(node == r["node"] and begin < end + 120 and r["begin"] < over + 120
                   for node, begin, over in down):
                return "node_silent"
            job = self.jobs.get(r["job"])
            says = job and "application" in job and \
                (not job["end"] or seconds(job["end"]) > r["begin"] + 5 * MINUTE)
            return "exporter_lost" if says else "exporter_silent"
        named = lambda r, end: {"kind": kind_of(r, end), "entity": r["node"], "node": r["node"],
                                "start": at(r["begin"]), "end": at(end)}
        at = lambda s: datetime.fromtimestamp(s).astimezone().isoformat()
        for r in gaps:
            self.events.append(Event(named(r, r["end"]), self.end))
        for r in last:
            if r["begin"] < self.end - 120:
                self.events.append(Event(named(r, self.end), self.end))
        for e in [e for e in truth["events"] if e["kind"] in CHANGES]:
            for job in truth["jobs"]:
                if job["workflow"] == e["entity"] and seconds(job["start"]) >= seconds(e["start"]):
                    whole = {"start": job["start"], "end": job["end"]}
                    self.events.append(self.part(job, whole, e["kind"], None, e["size"]))
        self.events = [e for e in self.events if e.kind not in CHANGES or not e.planted]
        for job in truth["jobs"]:
            for slow in job.get("gpus_slow", []):
                if slow["factor"] >= 1.05 and not slow["planted"]:
                    self.events.append(self.part(job, slow, "slow", [slow["gpu"]],
                                                 slow["factor"]))
            for idle in job.get("idle", []):
                kind = "spin" if idle["state"] in ("barrier", "hung") else "idle"
                self.events.append(self.part(job, idle, kind, idle.get("which"), idle["gpus"]))

        for e in self.events:
            if e.kind in BOARDS and (silence := self.silence_at(e)):
                e.end = max(e.end, silence.end + 10 * MINUTE)
        self.add_claims(truth)
        for e in [e for e in self.events if e.kind in DROPS and e.job in self.jobs]:
            if "application" in self.jobs[e.job]:
                for kind in REPORTED_DROPS:
                    self.events.append(copy.copy(e))
                    self.events[-1].kind = kind
        self.lies = [e for e in self.events if e.kind == "counter_lie"]
        self.paused = self.read_pauses()
        # The simulator's faults of the telemetry have no events: GPUs without a tensor counter, and
        # those whose counter is 0 beside work from some moment on.
        for r in ask(data, "SELECT gpu, any_value(node) AS node, epoch(min(ts)) AS begin FROM "
                     "samples WHERE tensor_active IS NULL OR (tensor_active = 0 AND "
                     "sm_active > 0.1) GROUP BY 1 HAVING count(*) > 50"):
            self.events.append(Event({"kind": "no_tensor", "entity": r["gpu"], "node": r["node"],
                                      "start": at(r["begin"]), "end": None}, self.end))

    def read_pauses(self):
        """Minutes in which a job with a drop, a straggler or a slow clock pauses, as for a
        checkpoint: by the samples, the truth has none. Nobody waits then, and a rule's own time
        does not go on."""
        jobs = {e.job for e in self.events if e.kind in DROPS + STRAGGLERS + CLOCKS and e.job}
        names = ",".join("'" + job.replace("'", "''") + "'" for job in jobs) or "''"
        paused = collections.defaultdict(set)
        for r in ask(self.data,
                     "SELECT job, epoch(ts) AS ts FROM (SELECT job, ts, gpu_util, median(gpu_util) "
                     "FILTER (gpu_util > 0.1) OVER (PARTITION BY job) AS usual FROM (SELECT job, "
                     "ts, sum(gpu_util * gpu_seconds) / sum(gpu_seconds) AS gpu_util FROM "
                     f"job_minutes WHERE job IN ({names}) GROUP BY 1, 2)) WHERE gpu_util < 0.3 * "
                     "usual"):
            paused[r["job"]].add(r["ts"])
        return paused

    def pause(self, e, begin, end):
        """How long the event's job pauses in that time: whole minutes, the two that each pause has
        a part of, and the window after it that has it in it yet, where the rule is over windows.
        """
        minutes = sorted(m for m in self.paused.get(e.job, []) if begin - MINUTE < m < end)
        pauses = sum(m - MINUTE not in minutes for m in minutes)
        edges = 2 * MINUTE + (WINDOW if e.kind in DROPS + REPORTED_DROPS else 0)
        return len(minutes) * MINUTE + pauses * edges

    def silence_at(self, e):
        """Of the node of a board's event, as it happens: it is seen later, or never."""
        return next((s for s in self.events if s.kind in SILENT and s.node == e.node and
                     s.begin < e.begin < s.end), None)

    def add_claims(self, truth):
        """Jobs whose MFU is counted wrong, and those whose workflow regressed before them."""
        worse = [e for e in truth["events"] if e["kind"] in REGRESSIONS + ["regression"]]
        for job in truth["jobs"]:
            whole = {"start": job["start"], "end": job["end"]}
            if job.get("application", {}).get("inflated"):
                self.events.append(self.part(job, whole, "miscount", None,
                                             job["application"]["inflation"]))
            elif (job.get("reported_mfu") or 0) > 1.5 * (job.get("ofu") or 1):
                # The paper's table, by which the simulator goes, has such errors without a cause.
                # No convention counts so much more than a GPU does.
                self.events.append(self.part(job, whole, "overstated", None,
                                             job["reported_mfu"] / job["ofu"]))
            of = [e for e in worse if e["entity"] == job["workflow"] and
                  seconds(e["start"]) <= seconds(job["start"])]
            if of:
                least = min(of, key=lambda e: e["size"])
                self.events.append(self.part(job, whole, "regressed", None, least["size"]))
                self.events[-1].since = seconds(least["start"])

    def has_history(self, e):
        """Of runs alike that are long enough to be measured there are enough from before the
        change, at an OFU that the rule looks at, and they are most of those before the job."""
        job = self.jobs[e.job]
        alike = lambda o: all(o[k] == job[k] for k in ("workflow", "user", "gpus"))
        runs = [o for o in self.jobs.values()
                if alike(o) and o["end"] and seconds(o["end"]) <= e.begin and
                seconds(o["end"]) - max(seconds(o["start"]), self.begin) >= 600]
        good = [o for o in runs if seconds(o["end"]) <= e.since]
        return len(good) >= 8 and len(good) >= .9 * len(runs) and \
            sorted(o.get("ofu") or 0 for o in good)[len(good) // 2] >= .05

    def grown(self, e, counter):
        """How much an error counter of the GPU grew, an hour: by the samples, the truth has no
        rate."""
        gpu = next(iter(e.gpus))
        rows = ask(self.data, f"SELECT max({counter}) - min({counter}) AS n FROM samples WHERE "
                   f"gpu = '{gpu}' AND ts BETWEEN to_timestamp({e.begin}) AND "
                   f"to_timestamp({e.end})")
        return (rows[0]["n"] or 0) / max((e.end - e.begin) / 3600, .1)

    def lied_about(self, e):
        """Whether counters of a GPU that it befell are wrong: no rule looks at them. A job hangs
        where all of its GPUs do."""
        gpus = e.gpus
        if self.lies and e.kind in HANGS:
            gpus = {row["gpu"] for row in ask(
                self.data, f"SELECT DISTINCT gpu FROM samples WHERE job = '{e.job}' AND ts BETWEEN "
                f"to_timestamp({e.begin}) AND to_timestamp({e.end})")}
        return any(lie.gpus & gpus and lie.begin < e.end for lie in self.lies)

    def works_again(self, e):
        """When the GPUs that it befell work again: before, nobody knows whether it is over."""
        gpus = ",".join(f"'{gpu}'" for gpu in e.gpus)
        rows = ask(self.data, f"SELECT min(epoch(ts)) AS ts FROM samples WHERE gpu IN ({gpus}) AND "
                   f"gpu_util > 0.9 AND tensor_active > 0.02 AND ts > to_timestamp({e.end})")
        return rows[0]["ts"] or self.end

    def clock(self, e):
        """Its GPUs' clock over the model's highest, which is OFU over tensor activity, and how busy
        they are: by the samples, the truth has the part of what the clock would be."""
        gpus = ",".join(f"'{gpu}'" for gpu in e.gpus)
        rows = ask(self.data, "SELECT median(ofu / tensor_active) AS share, "
                   "quantile_cont(gpu_util, 0.1) AS duty, median(tensor_active) AS tensor FROM "
                   f"samples WHERE gpu IN ({gpus}) AND tensor_active > 0.005 AND ts BETWEEN "
                   f"to_timestamp({e.begin}) AND to_timestamp({e.end})")
        return rows[0]

    def fleet_fell(self, e):
        """OFU x time in it, and usually in five minutes before it, of which there are so many."""
        rows = ask(self.data,
                   "SELECT avg(ofu) FILTER (bin >= 0) AS during, "
                   "median(ofu) FILTER (bin < -1800) AS before, "
                   "count(*) FILTER (bin < -1800) AS windows FROM (SELECT "
                   f"floor((epoch(ts) - {e.begin}) / 300) * 300 AS bin, sum(ofu_s) AS ofu "
                   f"FROM job_minutes WHERE epoch(ts) < {e.end} GROUP BY 1)")
        return rows[0]

    def interval(self, e):
        node = e.node or ""
        cluster = self.jobs[e.job]["cluster"] if e.job in self.jobs else node.split("-")[0]
        return max(INTERVAL, self.intervals.get(cluster, INTERVAL))

    def part(self, job, of, kind, gpus, size):
        return Event({"kind": kind, "entity": job["key"], "job": job["key"], "gpus": gpus,
                      "start": of["start"], "end": of["end"], "size": size,
                      "node": of.get("node")}, self.end)


def in_reach(e, rule, truth):
    """Whether the rule promises to tell: by its size, its length, and what came before it. The
    edge of a rule's own threshold is as likely told as not; a margin keeps it out."""
    lasts = e.end - e.begin - truth.pause(e, e.begin, e.end)
    if e.kind != "counter_lie" and truth.lied_about(e):
        return False
    if e.kind in SILENT:
        return lasts >= 120 + length(rule.get("for", "")) + 2 * truth.interval(e) + ROUND
    least = length(rule.get("for", "")) + 2 * INTERVAL
    job = truth.jobs.get(e.job)
    before = e.begin - max(seconds(job["start"]), truth.begin) if job else 0
    if e.kind in BOARDS:
        return e.begin < truth.end - 5 * MINUTE and not truth.silence_at(e)
    if e.kind == "counter_lie":  # for so long its GPU does what it takes for the lie to show
        return e.size >= 2 * HOUR and lasts >= 3 * HOUR
    if e.end >= truth.end - 2 * INTERVAL or job and job["mig"]:
        return False
    if e.kind == "row_remap_pending":
        return e.begin < truth.end - 5 * MINUTE and not truth.silence_at(e)
    if e.kind == "clock_stuck":
        now = truth.clock(e)
        return (lasts >= least + 5 * MINUTE and (now["share"] or 1) < .53 and
                (now["duty"] or 0) > .92 and (now["tensor"] or 0) > .025)
    if e.kind == "fleet_drop":
        fell = truth.fleet_fell(e)
        return (fell["windows"] >= 84 and GPUS >= 600 and fell["during"] < .45 * fell["before"])
    if e.kind == "miscount":
        apart = abs((job.get("reported_mfu") or 0) - (job.get("ofu") or 0))
        return e.end - max(e.begin, truth.begin) >= 2 * HOUR and apart >= .04
    if e.kind == "regressed":  # by the hour, from half an hour of work on
        return (job["gpus"] >= 4 and e.size <= .7 and lasts >= 2.5 * HOUR and
                truth.has_history(e))
    if e.kind in ("straggler_clock", "straggler_power_cap"):
        works = (job.get("ofu") or 0) > .02  # or it waits for nobody
        return works and job["gpus"] >= 8 and e.size >= 1.12 and lasts >= least + WINDOW
    if e.kind == "straggler_host":
        return e.size >= 1.2 and lasts >= least + WINDOW and job["gpus"] >= 16
    if e.kind == "straggler_stall":
        return truth.grown(e, "pcie_replays") >= 600 and lasts >= least + 30 * MINUTE
    if e.kind == "straggler_link":
        return truth.grown(e, "nvlink_errors") >= 300 and lasts >= least + 30 * MINUTE
    if e.kind in DROPS + REPORTED_DROPS:
        return (job["gpus"] >= 4 and e.size <= .7 and before >= 50 * MINUTE and
                lasts >= least + WINDOW + (REPORTS if e.kind in REPORTED_DROPS else 0))
    if e.kind in HANGS:
        return lasts >= least + WINDOW and before >= 35 * MINUTE
    return lasts >= least


def latest(e, rule, truth):
    """When it must have fired. The first two minutes of a job are without work, and nobody's
    (docs/simulate.md, Incidents); nothing fires in the first five of the fleet."""
    if e.kind == "counter_lie":
        return e.end  # when its GPU does what shows it the truth does not say
    job = truth.jobs.get(e.job)
    late = 0
    if job and e.begin - seconds(job["start"]) < 2 * MINUTE:
        late = 2 * MINUTE
    if e.kind in ("miscount", "regressed"):
        late = max(0, truth.begin - e.begin)
    if e.begin - truth.begin < 5 * MINUTE:
        late = max(late, 5 * MINUTE)
    if e.kind == "miscount":
        over = HOUR + 20 * MINUTE  # an hour is judged, every ten minutes
    elif e.kind == "regressed":
        over = 2 * HOUR
    elif e.kind in REPORTED:
        over = REPORTS
    elif e.kind in REPORTED_DROPS:
        over = WINDOW + REPORTS  # the last full window, of reports that came
    else:
        over = WINDOW if e.kind in DROPS + STRAGGLERS + \
            HANGS + ["fleet_drop"] else 0
    news = 20 * MINUTE if e.kind in ("straggler_link", "straggler_stall") else 0
    silent = 120 if e.kind in SILENT else 0
    return e.begin + length(rule.get("for", "")) + over + news + silent + late + \
        2 * truth.interval(e) + ROUND


def longest(e, rule, alert):
    """When it must be resolved."""
    keep = length(rule.get("keep_firing", "5m"))
    keep = min(keep << alert.times, max(LONGEST_KEEP, keep))
    news = 20 * MINUTE if e.kind in ("straggler_link", "straggler_stall") else 0
    unknown = length(rule["keep_unknown"]) if "keep_unknown" in rule else NO_DATA
    return e.end + max(keep, unknown) + news + WINDOW + 2 * INTERVAL + ROUND


class Alert:
    """From when an alert fired until it was resolved; one that fired again has several."""

    def __init__(self, a, times, fired, until, before):
        self.id, self.rule, self.severity = a["id"], a["rule"], a["severity"]
        self.times, self.fired, self.until = times, fired, until
        self.since = seconds(a["since"]) if times == 0 else fired
        s = a["subject"]
        self.job, self.nodes, self.gpus = s["job"], set(s["nodes"]), set(s["gpus"])
        self.jobs = set(s["jobs"])
        if before:  # it was of others then
            self.gpus = set(re.findall(r"GPU-[0-9a-f-]+", before))
            jobs = re.search(r"jobs? (.+)$", before)
            self.jobs = set(jobs[1].split(", ")) if jobs else set()
            self.job = jobs[1] if len(self.jobs) == 1 else ""
        self.summary, self.inhibited = a["summary"], a["inhibited_by"]

    @staticmethod
    def all_of(a):
        out, until, of = [], None, None
        for k, change in reversed(list(enumerate(a["history"]))):
            text, ts = change["text"], seconds(change["ts"])
            if not text.startswith("fires"):
                until = ts
                continue
            out.insert(0, Alert(a, k // 2, ts, until, of))
            of = text.partition("before it was of ")[2] or of
        return out

    def of(self, e):
        """Whether it is about who the event befell."""
        if e.kind == "fleet_drop":
            return self.rule == RULE_OF[e.kind] or bool(self.jobs)
        if e.kind == "row_remap_failed":  # it stays with the board, whichever job has it
            return bool(e.gpus & self.gpus)
        if e.job and self.job and e.job != self.job:
            return False
        if e.gpus and self.gpus:
            return bool(e.gpus & self.gpus)
        if e.job and self.job:
            return e.job == self.job
        if e.node and self.nodes:
            return e.node in self.nodes
        return False

    def at_time_of(self, e, slack):
        return self.since <= e.end + slack and (self.until or 1e18) >= e.begin

    def __str__(self):
        name = lambda s: datetime.utcfromtimestamp(s).strftime("%d %H:%M") if s else "the end"
        return f"{name(self.since)} to {name(self.until)} {self.rule}: {self.summary}"


def told(alerts):
    """Those that somebody was told: not those that another stood before when they fired."""
    fired = {a.id: a.fired for a in reversed(alerts)}
    return [a for a in alerts
            if not a.inhibited or fired.get(a.inhibited, 1e18) > a.fired]


def fleet(preset, seed):
    """The folder of its data directory and its truth."""
    name = f"{preset}-{seed}-{GPUS}-{HOURS}-{PLANTED}"
    folder = os.path.join(KEEP, name) if KEEP else scratch()
    if os.path.exists(folder + "/truth.json"):
        return folder
    os.makedirs(folder, exist_ok=True)
    planted = ",".join(f"{kind}={PLANTED * TIMES.get(kind, 1)}" +
                       (f"@{LEAST[kind]}" if kind in LEAST else "") for kind in KINDS)
    planted += "".join(f",{kind}=1" for kind in ONCE if HOURS >= 20 and seed % 2)
    lies = ["--counters", ",".join(f"{lie}={LIES}" for lie in LIE_KINDS)] \
        if LIES and seed % 2 == 0 else []
    run("simulate", "fleet", "--gpus", str(GPUS), "--preset", preset, "--seed", str(seed),
        "--hours", str(HOURS), "--interval", f"{INTERVAL}s", "--start", START, "--faults", "all",
        "--incidents", planted, *lies, "--into", folder + "/data", "--truth",
        folder + "/truth.json")
    return folder


def judge_decoy(e, truth, said, table, where):
    row = table[e.kind]
    row["planted"] += 1
    row["reach"] += 1
    fired = [a for a in said if a.rule in DECOYS[e.kind] and a.of(e) and
             a.at_time_of(e, 20 * MINUTE) and
             not any(o is not e and o.kind in TRUE_OF[a.rule] and a.of(o) and
                     a.at_time_of(o, WINDOW) for o in truth.events)]
    row["alerted"] += bool(fired)
    if DUMP and fired:
        print(f"    decoy fired, {where}: {e}: {fired[0]}", flush=True)


def judge(preset, seed, table, false):
    folder = fleet(preset, seed)
    raw = json.load(open(folder + "/truth.json"))
    window = ["--from", raw["window"]["from"], "--to", raw["window"]["to"]]
    own = ["--alert-rules", OWN] if OWN else []
    all_alerts = [part for a in json.loads(
        run("--data-dir", folder + "/data", "alerts", "test", "all", "-o", "json", "-q", *window,
            *own).stdout) for part in Alert.all_of(a)]
    truth = Truth(raw, folder + "/data")
    said = told(all_alerts)
    known = rules()
    for e in truth.events:
        if e.kind in DECOYS:
            judge_decoy(e, truth, said, table, f"{preset} {seed}")
        else:
            judge_event(e, known, truth, all_alerts, said, table, f"{preset} {seed}")
    for a in said:
        if a.rule not in TRUE_OF:
            kinds = None
        else:
            kinds = TRUE_OF[a.rule]
        # What a condition is over lies before it: an alert may begin a window after the end.
        if kinds and any(e.kind in kinds and a.of(e) and a.at_time_of(e, WINDOW)
                         for e in truth.events):
            continue
        false[a.severity, a.rule] += 1
        if DUMP:
            near = [str(e) for e in truth.events if a.of(e) and a.at_time_of(e, WINDOW)]
            print(f"    false, {preset} {seed}: {a}  beside {near[:4]}", flush=True)
    if not KEEP:
        shutil.rmtree(folder)


def rule_of(e):
    if e.kind in ANY_XID and int(e.size) in APPLICATION_CODES:
        return "gpu_xid_application"
    return RULE_OF[e.kind]


def judge_event(e, known, truth, alerts, said, table, where):
    if e.kind not in RULE_OF:
        return
    row = table[e.kind]
    row["planted"] += 1
    name = rule_of(e)
    if name not in known or not in_reach(e, known[name], truth):
        return
    rule = known[name]
    row["reach"] += 1
    names = {name} | ({"exporter_lost"} if e.kind == "exporter_silent" else set())
    mine = [a for a in alerts if a.rule in names and a.of(e) and a.at_time_of(e, 0) and
            (e.kind not in OF_A_JOB or e.job in a.jobs)]
    # Another rule that stood before it has told the same people of the same subject.
    instead = [a for a in said if a.of(e) and a.at_time_of(e, 0) and
               a.rule in rule.get("inhibited_by", [])]
    if not mine and not instead:
        if DUMP:
            other = [a.rule for a in alerts if a.of(e) and a.at_time_of(e, 0)]
            print(f"    missed, {where}: {e} {datetime.utcfromtimestamp(e.begin)}, {other}",
                  flush=True)
        return
    row["alerted"] += 1
    first = min(mine or instead, key=lambda a: a.fired)
    due = latest(e, rule, truth) + truth.pause(e, e.begin, first.fired)
    row["in time"] += first.fired <= due
    row["once"] += len(mine) <= 1
    ends = [a.until for a in mine or instead]
    last = max(mine or instead, key=lambda a: a.until or 1e18)
    over, counted = longest(e, rule, last), -1
    if e.kind in CLOCKS:  # the next job may take an hour to begin, and a pause holds as long
        e.end = min(truth.works_again(e), e.end + LONGEST_KEEP)
        over = longest(e, rule, last)
    while counted < (paused := truth.pause(e, e.end, min(last.until or truth.end, over))):
        over, counted = longest(e, rule, last) + paused, paused
    ok = all(ends) and last.until <= over or over > truth.end
    row["resolved"] += ok
    if DUMP and (first.fired > due or not ok or len(mine) > 1):
        print(f"    late or long, {where}: {e} {datetime.utcfromtimestamp(e.begin)}: "
              f"{[str(a)[:60] for a in mine or instead]}", flush=True)


def measure():
    first, _, last = SEEDS.partition("-")
    seeds = range(int(first), int(last) + 1) if last else [int(s) for s in SEEDS.split(",")]
    whole, all_false = collections.defaultdict(collections.Counter), collections.Counter()
    for preset in PRESETS:
        table, false = collections.defaultdict(collections.Counter), collections.Counter()
        for seed in seeds:
            judge(preset, seed, table, false)
        show(preset, table, false, len(seeds) * HOURS / 24)
        for kind, row in table.items():
            whole[kind].update(row)
        all_false.update(false)
    days = len(seeds) * len(PRESETS) * HOURS / 24
    if len(PRESETS) > 1:
        show("all", whole, all_false, days)
    return whole, all_false, days


def show(title, table, false, days):
    columns = ["planted", "reach", "alerted", "in time", "once", "resolved"]
    print(f"{title:24}" + "".join(f"{c:>10}" for c in columns))
    for kind in [*RULE_OF, *DECOYS]:
        if kind in table:
            print(f"  {kind:22}" + "".join(f"{table[kind][c]:10}" for c in columns))
    pages, tickets = rates(false, days)
    print(f"  false: {pages:.2f} pages a day, {tickets:.2f} tickets per 1,000 GPUs and day; "
          f"{dict((rule, n) for (_, rule), n in sorted(false.items()))}", flush=True)


def rates(false, days):
    """Pages a day of a fleet; tickets a day of 1,000 GPUs."""
    count = lambda severity: sum(n for (s, _), n in false.items() if s == severity)
    return count("page") / days, count("ticket") / days / GPUS * 1000


if __name__ == "__main__":
    table, false, days = measure()
    pages, tickets = rates(false, days)
    real = [row for kind, row in table.items() if kind not in DECOYS]
    reach, alerted = (sum(row[c] for row in real) for c in ("reach", "alerted"))
    decoys = [table[kind] for kind in DECOYS if kind in table]
    check(sum(row["alerted"] for row in decoys) <= .01 * sum(row["planted"] for row in decoys) + 1,
          "decoys fire")
    check(reach > 0, "nothing that was planted is in reach of a rule")
    check(alerted >= .95 * reach, f"{alerted} of {reach} are alerted")
    check(pages <= 1, f"{pages:.2f} false pages a day")
    check(tickets <= 5, f"{tickets:.2f} false tickets per 1,000 GPUs and day")
