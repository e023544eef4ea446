#!/usr/bin/env python3
"""Compares what flopwatch says of recordings of a real GPU with what is known of them.

  judge.py [DIR]      default: h200/ beside this file

DIR is what record.py and counters.py wrote. Prints a line a case and fails where a cause that was
found before is not the first finding any more, where a healthy job is accused, where FLOPs differ
from PyTorch's own count, or where OFU is not what the counters and the FLOPs say it must be.
"""
import gzip
import json
import os
import subprocess
import sys

BINARY = os.environ.get("FLOPWATCH_BINARY", "build/release/bin/flopwatch")
HERE = os.path.dirname(os.path.abspath(__file__))
# Dense peaks of the H200 by NVIDIA's data sheet, TFLOP/s; its FP64 peak holds at 1980 MHz.
PEAKS = {"bf16": 989.4, "fp16": 989.4, "bf16_half_the_time": 989.4, "bf16_small": 989.4,
         "bf16_zeros": 989.4, "tf32": 494.7, "fp8": 1978.9}
# Steps of which PyTorch counted another part than the trace shows: an evaluation of every third, a
# loader in the count, block-sparse attention.
UNEQUAL = ("evaluation_at_times", "two_causes", "templates_of_triton")
failures = []


def check(true, text):
    if not true:
        failures.append(text)
        print("FAILED: " + text)


def ask(*arguments):
    out = subprocess.run([BINARY, *arguments, "-o", "json"], capture_output=True, text=True,
                         check=False)
    if not out.stdout:
        raise SystemExit(f"flopwatch {' '.join(arguments)}: {out.stderr}")
    return json.loads(out.stdout)


def flops_a_step(path, steps):
    table = ask("trace", "ops", path)["operators"]
    rows = table if isinstance(table, list) else [
        dict(zip(table["columns"], row)) for row in table["rows"]]
    return sum(row["flops"] or 0 for row in rows) / steps


def judge_flops(name, case, path):
    counted = case["flops"]
    if isinstance(counted, str) or counted == 0 or name in UNEQUAL:
        return ""
    steps = ask("trace", "info", path)["ranks"][0]["steps"]
    ours = flops_a_step(path, steps)
    # PyTorch counts causal attention in full; the decoders have up to a twelfth of it.
    check(0.91 * counted <= ours <= 1.0001 * counted,
          f"{name}: {ours:.4g} FLOPs a step, PyTorch counted {counted:.4g}")
    return f"{ours / counted:.3f}"


def judge_traces(directory, truth):
    print(f"{'case':22}{'first finding':22}{'claimed':>8}{'true':>7}{'FLOPs':>7}  expected")
    right = planted = accused = healthy = 0
    for name, case in sorted(truth["cases"].items()):
        path = f"{directory}/{name}.json.gz"
        found = ask("trace", "findings", path)["findings"]
        first = found[0]["id"] if found else "-"
        above = [f["id"] for f in found if f["severity"] != "info"]
        loss = ""
        if "without_paced_ms" in case:
            loss = f"{100 * (1 - case['without_paced_ms'] / case['paced_ms']):.0f} %"
        claimed = f"{found[0]['claimed_pct']:.0f} %" if found else ""
        print(f"{name:22}{first:22}{claimed:>8}{loss:>7}{judge_flops(name, case, path):>7}  "
              f"{', '.join(case['expect']) or 'nothing'}"
              f"{' (known: ' + case['known_miss'] + ')' if 'known_miss' in case else ''}")
        if case["expect"]:
            planted += 1
            right += first in case["expect"]
            check(first in case["expect"] or "known_miss" in case,
                  f"{name}: the first finding is {first}")
        else:
            healthy += 1
            accused += bool(above)
            check(not above, f"{name}: a healthy job is accused of {', '.join(above)}")
    print(f"the cause first in {right} of {planted}; {accused} of {healthy} healthy jobs accused\n")


def value(text, name):
    for line in text.splitlines():
        if line.startswith(name + "{"):
            return float(line.rsplit(" ", 1)[1])
    raise SystemExit(f"a scrape has no {name}")


def judge_counters(directory):
    with open(f"{directory}/loads.json", encoding="utf-8") as file:
        loads = json.load(file)["loads"]
    with gzip.open(f"{directory}/scrapes.jsonl.gz", "rt") as file:
        scrapes = [json.loads(line) for line in file]
    print(f"{'load':20}{'TFLOP/s':>8}{'MFU':>7}{'OFU':>7}{'/MFU':>6}{'MHz read':>9}{'counted':>8}"
          f"{'OFU by it / MFU':>17}")
    for name, load in loads.items():
        within = [(s["time"] - before["time"], s["text"])
                  for before, s in zip(scrapes, scrapes[1:])
                  if before["time"] >= load["start"] and s["time"] <= load["end"]]
        seconds = sum(dt for dt, _ in within)
        mean = lambda f: sum(dt * f(t) for dt, t in within) / seconds  # noqa: E731
        tensor = mean(lambda t: value(t, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"))
        read_mhz = mean(lambda t: value(t, "DCGM_FI_DEV_SM_CLOCK"))
        if name not in PEAKS:
            check(name == "fp64" or tensor < 0.001, f"{name}: the tensor pipes were at rest")
            continue
        mfu = load["flops"] / (load["end"] - load["start"]) / 1e12 / PEAKS[name]
        ofu = mean(lambda t: ask(
            "calc", "ofu", "--gpu", "NVIDIA H200",
            "--tensor-active", str(value(t, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")),
            "--sm-clock", str(value(t, "DCGM_FI_DEV_SM_CLOCK")))[0]["ofu"])
        counted = tensor * load["mean_sm_mhz"] / 1830
        print(f"{name:20}{mfu * PEAKS[name]:8.1f}{100 * mfu:6.1f}%{100 * ofu:6.1f}%"
              f"{ofu / mfu:6.2f}{read_mhz:9.0f}{load['mean_sm_mhz']:8.0f}{counted / mfu:17.3f}")
        # Large products: nothing is padded, so executed FLOPs are the counted ones.
        check(abs(counted / mfu - 1) < (0.05 if "small" in name or "half" in name else 0.015),
              f"{name}: tensor activity by the counted clock is not the MFU")
        check(0.99 < ofu / mfu < 1.15, f"{name}: OFU is {ofu / mfu:.2f} times MFU")


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/h200"
    with open(f"{directory}/truth.json", encoding="utf-8") as file:
        truth = json.load(file)
    print(f"recorded on {truth['gpu']}, PyTorch {truth['torch']}\n")
    judge_traces(directory, truth)
    if os.path.exists(f"{directory}/loads.json"):
        judge_counters(directory)
    if failures:
        raise SystemExit(f"{len(failures)} failed")


if __name__ == "__main__":
    main()
