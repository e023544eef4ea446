"""Exporters with counters that lie, one kind an exporter, and an honest one: the doctor names each
lie with its remedy before the exporter is watched, and a server that scrapes them does as well, on
its targets and in its metrics. Of the honest one nothing is said, whatever its GPUs do."""
import json
import re

from harness import Process, check, run, until

# What is planted, the rule that names it, and words of its remedy.
LIES = {"tensor_unlisted": ("tensor_unlisted", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge"),
        "power_scaled": ("power_scaled", "DCGM_FI_DEV_POWER_USAGE, gauge"),
        "clock_missing": ("clock_missing", "DCGM_FI_DEV_SM_CLOCK, gauge"),
        "duty_missing": ("duty_missing", "DCGM_FI_DEV_GPU_UTIL, gauge")}


def exporter(seed, *lies):
    """Each with GPUs of its own: those of one seed are the same ones."""
    process = Process("simulate", "fleet", "--gpus", "8", "--hours", "2", "--interval", "1s",
                      "--faults", "none", "--seed", str(seed), "--listen", "127.0.0.1:0", *lies)
    return process.get("/targets.txt").split()[0]


def asked(target):
    """The doctor's verdicts and its exit code."""
    r = run("doctor", "--target", target, "--scrapes", "6", "--every", "1s", "-o", "json", "-q",
            expect=None)
    check(r.returncode in (0, 3), f"doctor ended with {r.returncode}: {r.stderr}")
    rows = json.loads(r.stdout)
    check(len(rows) == 8, f"{target}: {len(rows)} GPUs")
    return rows, r.returncode


targets = {kind: exporter(5 + k, "--counters", f"{kind}=8") for k, kind in enumerate(LIES)}
targets["honest"] = exporter(3)
for kind, target in targets.items():
    rows, rc = asked(target)
    said = {(row["verdict"], row["rule"]) for row in rows}
    print(f"doctor, {kind}: {sorted(said, key=str)}")
    if kind == "honest":
        check(rc == 0 and all(row["verdict"] != "faulty" for row in rows), f"accused: {rows}")
        continue
    rule, remedy = LIES[kind]
    check(rc == 3 and said == {("faulty", rule)}, f"{kind}: {rows}")
    check(all(remedy in row["remedy"] for row in rows), f"{kind}: {rows[0]['remedy']}")

arguments = [word for target in targets.values() for word in ("--target", target)]
server = Process("serve", "--listen", "127.0.0.1:0", "--interval", "1s", *arguments)


def findings():
    """By target, once each liar has been found out: a server asks for minutes of evidence."""
    found = {t["url"]: t["counters"] for t in server.json("/api/v1/targets")["targets"]}
    done = all(t in found and (kind == "honest" or found[t]["faulty"] == 8)
               for kind, t in targets.items())
    return found if done else None


found = until(findings, "every liar is found", 300)
for kind, target in targets.items():
    counters = found[target]
    named = [(f["rule"], f["remedy"]) for f in counters["findings"]]
    print(f"server, {kind}: {counters['faulty']} faulty, {[rule for rule, _ in named]}")
    if kind == "honest":
        check(counters["faulty"] == 0 and not named, f"accused: {counters}")
        continue
    rule, remedy = LIES[kind]
    check([r for r, _ in named] == [rule], f"{kind}: {counters}")
    check(remedy in named[0][1], f"{kind}: {named}")
page = server.get("/metrics")
faulty = re.search(r'^flopwatch_counter_gpus\{verdict="faulty"\} (\d+)', page, re.M)
check(faulty and int(faulty[1]) == 8 * len(LIES), "/metrics has other numbers")
shown = run("targets", "--server", server.url, "-o", "table")
table = re.sub(r"\s+", " ", shown.stdout + shown.stderr)
for rule, remedy in LIES.values():
    check(remedy in table, f"flopwatch targets does not say: {remedy}\n{table}")
server.stop()
