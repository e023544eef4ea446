#!/usr/bin/env python3
"""A whole fleet on one machine: simulated exporters, one server, live endpoints asked all the
while.

Prints the server's CPU share and memory, whether every scrape was kept and why one was not, the
latency of live endpoints during ingest and bytes a sample on disk. The simulator runs beside the
server on the same cores, as in the claim.

Latency is the client's wall time. The second figure leaves out how long this client and the
server's answering threads were ready and waited for a core (schedstat): on a shared machine only
that one says something about the server.

  bench/fleet.py --gpus 100000 --fields 20 --interval 10 --seconds 120
"""
import argparse
import http.client
import json
import os
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare import TOP, cpu_seconds, get, metric_sum, rss_mib, start, stop, wait_for  # noqa: E402


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))]


def disk_bytes(folder):
    return sum(
        os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def answering_threads(pid):
    tasks = f"/proc/{pid}/task"
    return [
        f"{tasks}/{t}/schedstat" for t in os.listdir(tasks)
        if open(f"{tasks}/{t}/comm").read().startswith("http")
    ]


def waited_ms(files):
    return sum(int(open(f).read().split()[1]) for f in files) / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gpus", type=int, default=100_000)
    p.add_argument("--fields", type=int, default=20)
    p.add_argument("--interval", type=float, default=10.0)
    p.add_argument("--seconds", type=int, default=120)
    p.add_argument("--warm", type=int, default=45)
    p.add_argument("--flopwatch", default=os.path.join(TOP, "build/release/bin/flopwatch"))
    a = p.parse_args()
    work = tempfile.mkdtemp(prefix="flopwatch-fleet-")
    simulator = server = None
    interval = f"{int(a.interval * 1000)}ms"
    try:
        port_file = os.path.join(work, "port")
        simulator = start([
            a.flopwatch, "simulate", "fleet", "--gpus", str(a.gpus), "--fields", str(a.fields),
            "--preset", "llm", "--seed", "1", "--hours", "24", "--faults", "none",
            "--interval", interval, "--listen", "127.0.0.1:0", "--port-file", port_file
        ], os.path.join(work, "simulator.log"))
        while not os.path.exists(port_file) or not open(port_file).read():
            if simulator.poll() is not None:
                sys.exit(open(os.path.join(work, "simulator.log")).read())
            time.sleep(0.1)
        port = int(open(port_file).read())
        data = os.path.join(work, "data")
        server = start([
            a.flopwatch, "serve", "--data-dir", data, "--listen", "127.0.0.1:19531", "--interval",
            interval, "--http-sd", f"http://127.0.0.1:{port}/targets"
        ], os.path.join(work, "server.log"))
        base = "http://127.0.0.1:19531"
        wait_for(base + "/healthz", server)
        time.sleep(a.warm)

        def samples():
            return metric_sum(get(base + "/metrics"), "flopwatch_ingest_samples_total")

        jobs = json.loads(get(base + "/api/v1/jobs?limit=100000&running=true", 60))["jobs"]
        by_size = sorted((j["usage"]["gpus"], j["job"]) for j in jobs if j["usage"]["gpus"])
        size, middle = by_size[len(by_size) // 2]
        print(f"jobs running       {len(jobs)}, the middle one has {size} GPUs, "
              f"the largest {by_size[-1][0]}")
        paths = [
            "/api/v1/fleet", "/api/v1/jobs?limit=50", "/api/v1/jobs/" + middle,
            "/api/v1/gpus?limit=50&sort=ofu", "/api/v1/status", "/metrics"
        ]
        latency = {path: [] for path in paths}
        own = {path: [] for path in paths}
        waits = ["/proc/thread-self/schedstat"] + answering_threads(server.pid)
        peak_rss = 0.0
        connection = http.client.HTTPConnection("127.0.0.1", 19531, timeout=30)
        cpu0, sim0 = cpu_seconds(server.pid), cpu_seconds(simulator.pid)
        n0, t0 = samples(), time.time()
        while time.time() < t0 + a.seconds:
            for path in paths:
                w, t = waited_ms(waits), time.perf_counter()
                connection.request("GET", path)
                connection.getresponse().read()
                took = (time.perf_counter() - t) * 1e3
                latency[path].append(took)
                own[path].append(took - (waited_ms(waits) - w))
            peak_rss = max(peak_rss, rss_mib(server.pid))
            time.sleep(0.05)
        cpu1, sim1 = cpu_seconds(server.pid), cpu_seconds(simulator.pid)
        n1, t1 = samples(), time.time()
        targets = json.loads(get(base + "/api/v1/targets?limit=1000000", 60))["targets"]
        n = n1 - n0
        print(f"samples/s          {n / (t1 - t0):.0f} "
              f"(offered {a.gpus * a.fields / a.interval:.0f})")
        print(f"server             {(cpu1 - cpu0) / (t1 - t0):.2f} cores, "
              f"{(cpu1 - cpu0) / (n / 1e6):.3f} CPU-s per M samples")
        print(f"simulator          {(sim1 - sim0) / (t1 - t0):.2f} cores")
        print(f"memory, peak       {peak_rss:.0f} MiB")
        print(f"targets            {len(targets)}, up {sum(t['state'] == 'up' for t in targets)}, "
              f"failures {sum(t['failures'] for t in targets)}, "
              f"scrapes skipped {sum(t.get('skipped', 0) for t in targets)}")
        reasons = {}
        for t in targets:
            if t["failures"]:
                reason = re.sub(r"[0-9.:]+", "N", t["last_failure"] or "")
                reasons[reason] = reasons.get(reason, 0) + t["failures"]
        for reason, n in sorted(reasons.items(), key=lambda r: -r[1])[:5]:
            print(f"  failed           {n}  {reason}")
        for path in paths:
            print(f"{path[:34]:34} p50 {percentile(latency[path], .5):6.2f} ms  "
                  f"p99 {percentile(latency[path], .99):6.2f} ms  "
                  f"max {max(latency[path]):6.2f} ms  "
                  f"without waiting for a core: p99 {percentile(own[path], .99):6.2f} ms")
        total = samples()
        stop(server)
        print(f"disk               {disk_bytes(data) / total:.2f} bytes a sample "
              f"(all files, {total:.0f} samples)")
        server = None
    finally:
        for process in (server, simulator):
            if process is not None and process.poll() is None:
                stop(process)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
