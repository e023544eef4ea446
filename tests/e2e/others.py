"""What others wait for while a server is attacked: asks a mix of answers steadily, from a process
of its own, so that an attack written in Python does not count as a slow answer. Standard library
only.

    with Others(server.url, "bodies"):
        attack()

prints how many answers there were, their p50 and p99, and the path with the slowest p99. At most
one in a hundred may be left without an answer (where there are more connections than the server
takes, one that is slow to ask may lose its place). Times are asserted only where
FLOPWATCH_OTHERS_P99_S says so (seconds), because tests run on machines that have other work;
bench/README.md has what was measured.
"""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

# What a page and a scraper ask for all the time, and one question to the store.
PATHS = ("/healthz", "/api/v1/fleet", "/metrics", "/api/v1/jobs?limit=50",
         "/api/v1/gpus?limit=50&sort=ofu", "/api/v1/status", "/api/v1/targets?limit=50",
         "/api/v1/jobs?from=now-2d&to=now-1d")
TIMEOUT_S = 30
PAUSE_S = 0.004  # between two answers, each over a connection of its own


def ask(url, paths):
    """Until standard input ends: {path: [seconds of each answer]} and what failed, as JSON."""
    os.set_blocking(sys.stdin.fileno(), False)
    took, failed = {path: [] for path in paths}, []
    print("ready", flush=True)
    while True:
        for path in paths:
            if sys.stdin.buffer.read(1) == b"":
                json.dump({"took": took, "failed": failed}, sys.stdout)
                return
            begun = time.monotonic()
            try:
                with urllib.request.urlopen(url + path, timeout=TIMEOUT_S) as r:
                    r.read()
            except urllib.error.HTTPError:
                pass  # an answer: /healthz says 503 while nothing can be stored
            except OSError as e:
                failed.append(f"{path}: {e}")
                begun -= TIMEOUT_S  # no answer is slower than any
            took[path].append(time.monotonic() - begun)
            time.sleep(PAUSE_S)


def quantile(seconds, q):
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * q))] if seconds else 0.0


class Others:
    def __init__(self, url, during, paths=PATHS):
        self.url, self.during, self.paths = url, during, paths

    def open(self):
        # It ends with this process, whose end closes its standard input.
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.url,
                                         *self.paths], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def close(self):
        from harness import check  # the process that asks needs none of it
        out, _ = self.process.communicate(timeout=3 * TIMEOUT_S)
        answer = json.loads(out)
        took, failed = answer["took"], answer["failed"]
        every = [s for seconds in took.values() for s in seconds]
        slowest = max(took, key=lambda path: quantile(took[path], 0.99))
        p99 = quantile(every, 0.99)
        print(f"{self.during}: {len(every)} other answers, p50 {quantile(every, 0.5) * 1e3:.1f} "
              f"ms, p99 {p99 * 1e3:.0f} ms, longest {max(every) * 1e3:.0f} ms; slowest {slowest}, "
              f"p99 {quantile(took[slowest], 0.99) * 1e3:.0f} ms", flush=True)
        check(100 * len(failed) <= len(every),
              f"{self.during}: {len(failed)} of {len(every)} other answers failed: {failed[:5]}")
        limit = os.environ.get("FLOPWATCH_OTHERS_P99_S")
        check(limit is None or p99 <= float(limit),
              f"{self.during}: other answers took {p99:.2f} s at p99")

    def __enter__(self):
        return self.open()

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()


if __name__ == "__main__":
    ask(sys.argv[1], sys.argv[2:])
