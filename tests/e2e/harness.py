"""Starts the real binary as a user would and talks to it over loopback. Standard library only."""
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import contract

BINARY = os.environ.get("FLOPWATCH_BINARY", "build/release/bin/flopwatch")
SKIP = 77  # ctest reads this exit code as "skipped"

_processes = []
_folders = []


@atexit.register
def _clean_up():
    for p in _processes:
        if p.poll() is None:
            p.kill()
            p.wait()
    for f in _folders:
        shutil.rmtree(f, ignore_errors=True)


def scratch():
    folder = tempfile.mkdtemp(prefix="flopwatch-e2e-")
    _folders.append(folder)
    return folder


def check(condition, message):
    if not condition:
        print("FAILED:", message, flush=True)
        sys.exit(1)


def run(*args, expect=0):
    r = subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=900)
    if expect is not None:
        check(r.returncode == expect,
              f"{' '.join(args)} ended with {r.returncode}, not {expect}\n{r.stdout}\n{r.stderr}")
    return r


def _stat(pid):
    """What follows the name in /proc/PID/stat: state, parent, …; empty once it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid):
    return int((_stat(pid) + ["0", "0"])[1])


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def runs(pid):
    """A zombie is over: who reaps it may be slow."""
    return (_stat(pid) or ["Z"])[0] != "Z"


class Process:
    """A running flopwatch with its log; `port_file` gives the port it chose."""

    def __init__(self, *args, port=True, environment=None):
        folder = scratch()
        self.log = os.path.join(folder, "log")
        self.port_file = os.path.join(folder, "port")
        command = [BINARY, *args] + (["--port-file", self.port_file] if port else [])
        self.process = subprocess.Popen(command, stdout=open(self.log, "w"),
                                        stderr=subprocess.STDOUT,
                                        env=os.environ | (environment or {}))
        _processes.append(self.process)
        self.port = self._wait_for_port() if port else None
        self.url = f"http://127.0.0.1:{self.port}"

    def _wait_for_port(self):
        end = time.time() + 60
        while time.time() < end:
            if os.path.exists(self.port_file):
                text = open(self.port_file).read().strip()
                if text:
                    return int(text)
            check(self.process.poll() is None, "it did not start:\n" + self.text())
            time.sleep(0.02)
        check(False, "no port within 60 s:\n" + self.text())

    def text(self):
        return open(self.log, errors="replace").read()

    def get(self, path, timeout=120):
        with urllib.request.urlopen(self.url + path, timeout=timeout) as r:
            return r.read().decode()

    def json(self, path, timeout=120):
        """An answer, held against docs/openapi.json where that has its path."""
        answer = json.loads(self.get(path, timeout))
        schema = contract.schema_of(path)
        wrong = contract.errors(answer, schema) if schema else []
        check(not wrong, f"{path} is not what docs/openapi.json says:\n" + "\n".join(wrong[:10]))
        return answer

    def sql(self, query):
        answer = self.json("/api/v1/sql?" + urllib.parse.urlencode({"q": query, "limit": 100000}))
        names = [c["name"] for c in answer["columns"]]
        return [dict(zip(names, row)) for row in answer["rows"]]

    def peak(self):
        """The most memory it ever had, in bytes."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(l.split()[1]) for l in f if l.startswith("VmHWM")) << 10

    def workers(self):
        """The processes that it has started to do somebody's work (flopwatch worker)."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if _parent(pid) == self.process.pid and runs(pid) and b"worker" in _command(pid)]

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds=60):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            check(False, "it did not stop on SIGTERM:\n" + self.text())
        return self.process.returncode


def until(condition, message, seconds=60, every=0.1):
    """Waits for a condition; a helper against sleeps of guessed length."""
    end = time.time() + seconds
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(every)
    check(False, f"not within {seconds} s: {message}")
