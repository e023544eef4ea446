"""Where a regression began: the commit of the training code that its first run is the first of.

Simulated applications report a commit, another one every few runs. Of some planted regressions one
comes with the first changed run, of others none does; the truth says which. Both ways: the evidence
names it where the truth does, and no commit where it names none.

  commits.py [GPUS [HOURS [SEED,SEED]]]
"""
import json
import re
import sys

from harness import check, run, scratch

GPUS = sys.argv[1] if len(sys.argv) > 1 else "256"
HOURS = sys.argv[2] if len(sys.argv) > 2 else "96"
SEEDS = sys.argv[3].split(",") if len(sys.argv) > 3 else ["1"]
FAMILIES = ["tensor", "clock", "duty", "memory", "network"]


def fleet(seed):
    """Findings at the run where something changed, by workflow, and the truth of these."""
    folder = scratch()
    run("simulate", "fleet", "--gpus", GPUS, "--hours", HOURS, "--preset", "llm", "--seed", seed,
        "--interval", "60s", "--start", "2026-11-02T00:00:00Z", "--faults", "none", "--incidents",
        ",".join(f"regression_{family}=12@0.2" for family in FAMILIES),
        "--into", folder + "/data", "--truth", folder + "/truth.json")
    truth = json.load(open(folder + "/truth.json"))
    window = [a for end in ("from", "to") for a in ("--" + end, truth["window"][end])]
    found = json.loads(run("--data-dir", folder + "/data", "regressions", "-o", "json", "-q",
                           *window).stdout)
    name = lambda job: re.sub(r"-r\d+$", "", job)
    jobs = {j["key"]: j for j in truth["jobs"]}
    events = {e["entity"]: e for e in truth["events"]
              if e["kind"].startswith("regression_") and e.get("planted")}
    for f in found:
        event = events.get(f.get("workflow") or name(f["run"]))
        job = jobs.get(f["run"])
        # Jobs of fewer than eight GPUs report nothing.
        if event and job and job["run"] == event["run"] and job.get("application"):
            yield f, event


named = of = wrong = without = 0
for seed in SEEDS:
    for f, event in fleet(seed):
        said = [part for part in f["evidence"].split("; ") if part.startswith("commit ")]
        commit = event.get("commit")
        if commit:
            of += 1
            named += any(commit in part.partition(" -> ")[2] for part in said)
        else:
            without += 1
            wrong += bool(said)
print(f"{named} of {of} regressions that came with a commit name it; {wrong} of {without} others "
      "name one")
check(of >= 5 and without >= 3, "too few regressions are found to say anything")
check(named == of, "a commit that a regression came with is not named")
check(wrong == 0, "a commit is named that did not come with the regression")
