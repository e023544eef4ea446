"""What a job is told of its MFU, both ways: every planted miscount is found, and healthy jobs are
not told that their MFU is wrong, on any surface.

The whole way: the simulator's exporters and reports with all of their faults, ingest, store, a
server; then what people read of each job that reports an MFU: its row and its own answer of the
API (from which the page is drawn), `flopwatch divergence --job`, its card (`flopwatch job`), and
the report as text, Markdown and HTML. A job is told so where it has an alarm, where a mistake is
named, or where a corrected MFU stands beside the claimed one. Seeds that nothing was tuned on.

Jobs of other presets than llm report no MFU: there any word of a wrong one is wrong.

  divergence.py [PRESET...]     FLOPWATCH_TEST_SEEDS=20: so many fleets of each preset (1), from
  FLOPWATCH_TEST_FIRST_SEED on (803); FLOPWATCH_TEST_GPUS (256), FLOPWATCH_TEST_HOURS (12);
  FLOPWATCH_TEST_DUMP=FILE: what each job was told, as lines of JSON
"""
import json
import os
import re
import sys
import urllib.parse
from datetime import datetime

from harness import Process, check, run, scratch

PRESETS = sys.argv[1:] or ["llm", "research"]
SEEDS = int(os.environ.get("FLOPWATCH_TEST_SEEDS", "1"))
FIRST = int(os.environ.get("FLOPWATCH_TEST_FIRST_SEED", "803"))
GPUS = os.environ.get("FLOPWATCH_TEST_GPUS", "256")
HOURS = int(os.environ.get("FLOPWATCH_TEST_HOURS", "12"))
DUMP = os.environ.get("FLOPWATCH_TEST_DUMP")
START = 1_794_873_600
END = START + HOURS * 3600
KEPT = {"FLOPWATCH_STORE_RAW_RETENTION": "3650d", "FLOPWATCH_STORE_MINUTE_RETENTION": "3650d"}
SURFACES = ("row", "answer", "card of the divergence", "card of the job", "API of the job page",
            "report")

# Words that tell somebody that the number is wrong, or why it were.
ACCUSES = re.compile(r"times\s+too\s+(high|low)|corrected\s+MFU|causes\s+explain|no\s+definite\s+"
                     r"cause|explained\s+by\s+none|MFU\s+is\s+(probably\s+)?wrong|counted\s+twice|"
                     r"MFU[^.]*\balarm\b|\balarm\b[^.]*MFU\s+is")


def seconds(window):
    ends = [datetime.fromisoformat(window[k].replace("Z", "+00:00")) for k in ("from", "to")]
    return (ends[1] - ends[0]).total_seconds()


def told_by(text):
    found = ACCUSES.search(text)
    return found.group(0) if found else None


def told_by_numbers(d):
    """Of a row or an answer of the API."""
    if d["flagged"]:
        return d["verdict"]
    if d.get("causes"):
        return "causes: " + "+".join(d["causes"])
    named = [e["title"] for e in d.get("explanations", []) if any(p["error"] for p in e["parts"])]
    if named:
        return "explanations: " + named[0]
    if d.get("corrected_mfu") is not None:
        return "corrected MFU"
    return told_by(d["headline"]) or told_by(" ".join(d.get("findings", [])))


def texts_of(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else \
            value if isinstance(value, list) else ():
        yield from texts_of(inner)


def parts_of_report(server, window, names):
    """What the report says of each of these jobs: lines with its name, whatever their format."""
    of = {name: "" for name in names}
    for form in ("text", "md", "html"):
        text = run("--server", server.url, "report", *window, "--top", "1000", "-q",
                   *(["--format", form] if form != "text" else ["-o", "wide"])).stdout
        for line in re.sub(r"</tr>", "\n", text).splitlines():
            for name in re.findall(r"[\w./-]+", line):
                if name in of:
                    of[name] += line + "\n"
    return of


def fleet(preset, seed):
    """What each job that reports an MFU is in truth, and what it was told where."""
    folder = scratch()
    run("simulate", "fleet", "--gpus", GPUS, "--preset", preset, "--seed", str(seed), "--hours",
        str(HOURS), "--start", str(START), "--interval", "60s", "--faults", "all", "--into",
        folder + "/data", "--truth", folder + "/truth.json")
    with open(folder + "/truth.json") as f:
        truth = json.load(f)
    server = Process("serve", "--data-dir", folder + "/data", "--listen", "127.0.0.1:0",
                     "--target", "127.0.0.1:1", environment=KEPT)
    window = ["--from", str(START), "--to", str(END)]
    asked = f"from={START}&to={END}"
    rows = {r["job"]: r for r in server.json(f"/api/v1/divergence?{asked}&limit=10000")["jobs"]}
    jobs = {j["key"]: j for j in truth["jobs"]}
    report = parts_of_report(server, window, rows)
    out = []
    for name, row in rows.items():
        said = jobs[name]["application"]
        path = "/api/v1/jobs/" + urllib.parse.quote(name, safe="")
        answer = server.json(f"{path}/divergence?{asked}")["divergence"]
        card = run("--server", server.url, "divergence", "--job", name, *window, "-o",
                   "table").stdout
        job = run("--server", server.url, "job", name, *window, "-o", "table").stdout
        detail = server.json(f"{path}?{asked}")
        page = " ".join(texts_of(detail))
        # An alarm is a note of the card and the page, in the same words; nothing else is.
        note = detail["mfu_alarm"]
        check((note is not None) == answer["flagged"] == ("MFU against OFU, " in job) and
              (note is None or note["headline"] == answer["headline"]),
              f"{preset} {seed}: {name}: {answer['verdict']}, {note}\n{job}")
        told = [told_by_numbers(row), told_by_numbers(answer), told_by(card), told_by(job),
                (note and note["verdict"]) or told_by(page), told_by(report[name])]
        out.append({"preset": preset, "seed": seed, "job": name, "gpus": row["gpus"],
                    "inflated": said["inflated"], "cause": said["cause"],
                    "worked_on": said["gpus"], "full_recompute": said["full_recompute"],
                    "convention": said["convention"], "model": said["model"],
                    "verdict": row["verdict"], "mfu": row["mfu"], "ofu": row["ofu"],
                    "e": row["difference_expected"], "r": row["ratio_expected"],
                    "flagged": row["flagged"] and answer["flagged"], "undecided":
                    row["undecided"], "causes": row["causes"], "headline": row["headline"],
                    "findings": answer["findings"], "gpu_seconds": row["gpu_seconds"],
                    "window_s": answer["window"], "reported_jobs": len(rows),
                    "told": dict(zip(SURFACES, told))})
    # Whoever reports nothing is told nothing.
    silent = [j for j in truth["jobs"] if j["key"] not in rows]
    for job in silent[:5]:
        status = run("--server", server.url, "job", job["key"], *window, "-o", "table",
                     expect=None).stdout
        check(not told_by(status), f"{preset} {seed}: {job['key']} reports nothing: {status}")
    server.stop()
    told = json.loads(run("--data-dir", folder + "/data", "alerts", "test", "job_mfu_divergence",
                          "-o", "json", "-q", *window).stdout)
    alerted = {alert["subject"]["job"] for alert in told}
    for job in out:
        job["alerted"] = job["job"] in alerted
    check(alerted <= set(rows), f"{preset} {seed}: alerts of jobs that report nothing: {alerted}")
    return out, len(silent)


def main():
    everything, silent = [], 0
    for preset in PRESETS:
        for seed in range(FIRST, FIRST + SEEDS):
            jobs, quiet = fleet(preset, seed)
            everything += jobs
            silent += quiet
            if DUMP:
                with open(DUMP, "a") as f:
                    f.writelines(json.dumps(job) + "\n" for job in jobs)
    judged = [j for j in everything if j["verdict"] != "not_computable"]
    healthy = [j for j in judged if not j["inflated"]]
    wrong = [j for j in judged if j["inflated"]]
    told = [j for j in healthy if any(j["told"].values())]
    alarms = [j for j in healthy if j["flagged"]]
    found = [j for j in wrong if j["flagged"]]
    named = [j for j in found if j["cause"] in j["causes"]]
    for job in told:
        print(f"  told wrongly: {job['preset']} {job['seed']} {job['job']}, {job['gpus']} GPUs, "
              f"{job['verdict']}: {job['told']}")
    for job in wrong:
        if job not in found:
            print(f"  not found: {job['preset']} {job['seed']} {job['job']}, {job['gpus']} GPUs, "
                  f"{job['cause']}, {job['verdict']}: {job['headline']}")
    print(f"{', '.join(PRESETS)}, seeds {FIRST} to {FIRST + SEEDS - 1}, {GPUS} GPUs, {HOURS} h: "
          f"{len(wrong)} miscounts, {len(found)} found, {len(named)} with their cause; "
          f"{len(healthy)} healthy jobs, {len(alarms)} with an alarm, {len(told)} told that their "
          f"MFU is wrong ({100 * len(told) / max(1, len(healthy)):.2f} %); "
          f"{len(everything) - len(judged)} not computable, {silent} report nothing")
    for surface in SURFACES:
        print(f"  {surface}: {sum(bool(j['told'][surface]) for j in healthy)}")
    # Of so long a window the rule has room for an hour and its `for`.
    long = [j for j in wrong if seconds(j["window_s"]) >= 2 * 3600]
    quiet = [j for j in long if not j["alerted"]]
    loud = [j for j in healthy if j["alerted"]]
    print(f"  alerts: {len(long) - len(quiet)} of {len(long)} miscounts, {len(loud)} of "
          f"{len(healthy)} healthy jobs")
    check(not quiet, f"no alert of {[j['job'] for j in quiet]}")
    check(len(loud) <= max(1, .005 * len(healthy)), f"alerts of {[j['job'] for j in loud]}")
    check(found == wrong, "a planted miscount is not found")
    check(len(told) <= max(1, .005 * len(healthy)), "healthy jobs are told that their MFU is wrong")


if __name__ == "__main__":
    main()
