#!/usr/bin/env python3
"""Ingest cost beside peers: the same simulated exporters at the same rate, one engine after the
other, in one run.

CPU seconds (user + system, from /proc) of the engine's process alone per million samples it took
in. Peers are Debian's prometheus and victoria-metrics (tools/peers), default settings except the
scrape interval and retention. "receive" is the floor: a client that sends the same requests and
takes the answers out of the sockets, and looks at nothing but where each ends (bench_scrape): what
the kernel alone costs on this machine in this hour.

A CPU second of a virtual machine is no fixed amount of work: others on the same core may take up
to half of it, and no counter of the guest says so. So a loop that hardly touches memory is timed a
millisecond or two at a time all along, one core after the other; "core speed" is its mean speed in
the window as a share of the best of this run. It tells a disturbed run from a quiet one; work that
is bound by memory does not slow down in proportion. A run of several minutes sees fast and slow
seconds: --by-speed adds what a sample cost in each kind (the samples come at one rate, so each
window of two seconds has its share).

  bench/compare.py --gpus 1000 --fields 100 --interval 1 --seconds 60
  bench/compare.py --gpus 10000 --fields 100 --interval 1 --seconds 300 --engines flopwatch
      needs no peers
  bench/compare.py --gpus 10000 --fields 100 --interval 1 --seconds 90
      --engines receive,flopwatch,receive
"""
import argparse
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        rest = f.read().rsplit(")", 1)[1].split()
    return (int(rest[11]) + int(rest[12])) / TICK


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def get(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as r:
        return r.read().decode()


def metric_sum(text, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if re.match(re.escape(name) + r"[{ ]", line))


def wait_for(url, process, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}; see its log")
        try:
            return get(url, 2)
        except OSError:
            time.sleep(0.2)
    sys.exit(f"{url} did not answer within {seconds} s")


def start(command, log):
    return subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class CoreSpeed(threading.Thread):
    """Loops per CPU second: a burst every tenth of a second, one core after the other; it takes
    3 % of a core."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen = []  # (time, loops per CPU second)

    @staticmethod
    def burst(loops):
        begun = time.thread_time()
        for _ in range(loops):
            pass
        return loops / (time.thread_time() - begun)

    def run(self):
        cores = sorted(os.sched_getaffinity(0))
        for k in itertools.count():
            os.sched_setaffinity(0, {cores[k % len(cores)]})  # of this thread
            self.burst(20_000)  # out of the idle state, into the cache
            self.seen.append((time.time(), self.burst(60_000)))
            time.sleep(0.1)

    def share(self, begin, end):
        window = [speed for t, speed in self.seen if begin <= t <= end]
        # The best one but for the luckiest bursts.
        best = sorted(speed for _, speed in self.seen)[-max(1, len(self.seen) // 100)]
        return sum(window) / len(window) / best if window else None


def measure(process, samples, seconds, warm):
    """CPU-s per million samples over a window after warm-up; `samples` reads the engine's own
    counter."""
    time.sleep(warm)
    cpu0, n0, t0 = cpu_seconds(process.pid), samples(), time.time()
    marks = [(t0, cpu0)]
    while (left := t0 + seconds - time.time()) > 0:
        time.sleep(min(2, left))
        marks.append((time.time(), cpu_seconds(process.pid)))
    cpu1, n1, t1 = cpu_seconds(process.pid), samples(), time.time()
    n = n1 - n0
    return {
        "samples_per_s": n / (t1 - t0),
        "cpu_s_per_million": (cpu1 - cpu0) / (n / 1e6) if n else None,
        "rss_mib": rss_mib(process.pid),
        "window": (t0, t1),
        "marks": marks,
    }


def by_speed(result, speed):
    """[(core speed from, to, seconds, CPU-s per million samples)], of the windows between marks."""
    bins = {}
    for (t0, cpu0), (t1, cpu1) in itertools.pairwise(result["marks"]):
        share = speed.share(t0, t1)
        if share is None:
            continue
        seconds, cpu = bins.get(int(share * 10), (0, 0))
        bins[int(share * 10)] = (seconds + t1 - t0, cpu + cpu1 - cpu0)
    rate = result["samples_per_s"] / 1e6
    return [(k / 10, (k + 1) / 10, seconds, cpu / (seconds * rate))
            for k, (seconds, cpu) in sorted(bins.items())]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gpus", type=int, default=1000)
    p.add_argument("--fields", type=int, default=100)
    p.add_argument("--interval", type=float, default=1.0, help="scrape interval in seconds")
    p.add_argument("--seconds", type=int, default=60)
    p.add_argument("--warm", type=int, default=20)
    p.add_argument("--engines", default="flopwatch,victoria-metrics,prometheus")
    p.add_argument("--by-speed",
                   action="store_true",
                   help="also flopwatch's cost by the speed of the core")
    p.add_argument("--flopwatch", default=os.path.join(TOP, "build/release/bin/flopwatch"))
    a = p.parse_args()
    peers = None
    if not set(a.engines.split(",")) <= {"flopwatch", "receive"}:
        peers = subprocess.run([os.path.join(TOP, "tools/peers")],
                               check=True,
                               capture_output=True,
                               text=True).stdout.strip()
    receiver = os.path.join(TOP, "build/bench/bin/bench_scrape")
    for program, preset in ((a.flopwatch, "release"), (receiver, "bench")):
        if not os.path.exists(program) and (program == a.flopwatch or
                                            "receive" in a.engines.split(",")):
            sys.exit(f"{program} is not there: "
                     f"cmake --preset {preset} && cmake --build --preset {preset}")
    speed = CoreSpeed()
    speed.start()
    work = tempfile.mkdtemp(prefix="flopwatch-compare-")
    results = {}
    simulator = None
    try:
        port_file = os.path.join(work, "port")
        simulator = start([
            a.flopwatch, "simulate", "fleet", "--gpus", str(a.gpus), "--fields", str(a.fields),
            "--preset", "llm", "--seed", "1", "--hours", "24", "--faults", "none",
            "--interval", f"{int(a.interval * 1000)}ms", "--listen", "127.0.0.1:0",
            "--port-file", port_file
        ], os.path.join(work, "simulator.log"))
        while not os.path.exists(port_file) or not open(port_file).read():
            if simulator.poll() is not None:
                sys.exit(open(os.path.join(work, "simulator.log")).read())
            time.sleep(0.1)
        port = int(open(port_file).read())
        targets = json.loads(get(f"http://127.0.0.1:{port}/targets"))
        urls = [(t, g.get("labels", {})) for g in targets for t in g["targets"]]
        paths = [labels.get("__metrics_path__", "/metrics") for _, labels in urls]
        print(f"{len(urls)} targets, {a.gpus} GPUs x {a.fields} fields, every {a.interval} s",
              file=sys.stderr)

        for engine in a.engines.split(","):
            data = os.path.join(work, engine)
            log = os.path.join(work, engine + ".log")
            if engine == "receive":
                listed = os.path.join(work, "paths")
                with open(listed, "w") as f:
                    f.write("".join(path + "\n" for path in paths))
                process = start([receiver, "--port", str(port), "--paths", listed,
                                 "--rate", str(round(len(paths) / a.interval))], log)
                per_answer = a.gpus * a.fields / len(paths)
                samples = lambda: int(open(log).read().split("\n")[-2]) * per_answer
            elif engine == "flopwatch":
                process = start([
                    a.flopwatch, "serve", "--data-dir", data, "--listen", "127.0.0.1:19530",
                    "--interval", f"{int(a.interval * 1000)}ms", "--http-sd",
                    f"http://127.0.0.1:{port}/targets"
                ], log)
                wait_for("http://127.0.0.1:19530/healthz", process)
                samples = lambda: metric_sum(get("http://127.0.0.1:19530/metrics"),
                                             "flopwatch_ingest_samples_total")
            else:
                config = os.path.join(work, engine + ".yml")
                with open(config, "w") as f:
                    f.write(f"global:\n  scrape_interval: {int(a.interval * 1000)}ms\n"
                            f"  scrape_timeout: {int(a.interval * 1000)}ms\n")
                    f.write("scrape_configs:\n- job_name: gpu\n  http_sd_configs:\n"
                            f"  - url: http://127.0.0.1:{port}/targets\n")
                if engine == "prometheus":
                    process = start([
                        f"{peers}/prometheus", f"--config.file={config}",
                        f"--storage.tsdb.path={data}", "--web.listen-address=127.0.0.1:19090"
                    ], log)
                    wait_for("http://127.0.0.1:19090/-/ready", process)
                    samples = lambda: metric_sum(get("http://127.0.0.1:19090/metrics"),
                                                 "prometheus_tsdb_head_samples_appended_total")
                else:
                    process = start([
                        f"{peers}/victoria-metrics", f"-promscrape.config={config}",
                        f"-storageDataPath={data}", "-httpListenAddr=127.0.0.1:18428"
                    ], log)
                    wait_for("http://127.0.0.1:18428/health", process)
                    samples = lambda: metric_sum(get("http://127.0.0.1:18428/metrics"),
                                                 "vm_rows_inserted_total")
            result = measure(process, samples, a.seconds, a.warm)
            stop(process)
            print(engine, json.dumps({k: v for k, v in result.items() if k != "marks"}),
                  file=sys.stderr)
            while engine in results:  # asked for again
                engine += " again"
            results[engine] = result
        own = results.get("flopwatch", {}).get("cpu_s_per_million")
        print("| engine | samples/s | CPU-s per M samples | times flopwatch | RSS MiB | "
              "core speed |\n| --- | --- | --- | --- | --- | --- |")
        for engine, r in results.items():
            c = r["cpu_s_per_million"]
            share = speed.share(*r["window"])
            print(f"| {engine} | {r['samples_per_s']:.0f} | {c:.3f} | {c / own:.1f} | "
                  f"{r['rss_mib']:.0f} | {share:.2f} |"
                  if c and own and share else f"| {engine} | no samples | | | | |")
        if a.by_speed and own:
            print("\n| core speed | seconds | CPU-s per M samples |\n| --- | --- | --- |")
            for low, high, seconds, cost in by_speed(results["flopwatch"], speed):
                print(f"| {low:.1f} to {high:.1f} | {seconds:.0f} | {cost:.3f} |")
    finally:
        if simulator is not None and simulator.poll() is None:
            stop(simulator)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
