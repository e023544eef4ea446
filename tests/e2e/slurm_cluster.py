"""A real Slurm for one test: tools/slurm starts it in a scratch folder and stops it at the end.

Its clients are called with a time limit each; times are Unix seconds (SLURM_TIME_FORMAT).
"""
import atexit
import datetime
import os
import re
import subprocess
import sys
import time

from harness import SKIP, check, scratch, until

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "slurm")


class Cluster:
    def __init__(self, hour_ends):
        """`hour_ends`: seconds from now to the end of an hour in the accounting's time zone."""
        installed = subprocess.run([TOOL, "install"], stderr=subprocess.PIPE, text=True,
                                   timeout=700)
        if installed.returncode == SKIP:
            print("skipped:", installed.stderr.strip(), flush=True)
            sys.exit(SKIP)
        check(installed.returncode == 0, f"tools/slurm install: {installed.stderr}")
        above = scratch()
        os.chmod(above, 0o755)  # jobs of other users work below it
        self.dir = os.path.join(above, "cluster")
        atexit.register(self.stop)  # before the folder goes
        self.hour_end = int(time.time()) + hour_ends
        started = subprocess.run([TOOL, "start", self.dir, "--hour-ends", str(hour_ends)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, timeout=200)
        check(started.returncode == 0, f"tools/slurm start: {started.stderr}")
        with open(self.dir + "/environment") as f:
            said = dict(line.rstrip("\n").split("=", 1) for line in f)
        self.env = {**os.environ, "SLURM_CONF": said["SLURM_CONF"], "SLURM_TIME_FORMAT": "%s"}
        self.zone = said["ACCOUNTING_TZ"]
        minutes, seconds = self.zone.split(":")[1:]
        self.east = int(minutes) * 60 + int(seconds)
        self.hour_end += -(self.hour_end + self.east) % 3600  # start read its clock later

    def stop(self):
        subprocess.run([TOOL, "stop", self.dir], stdin=subprocess.DEVNULL, timeout=60, check=False)

    def call(self, *command, expect=0, env=None, timeout=20):
        r = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                           stdin=subprocess.DEVNULL, env={**self.env, **(env or {})})
        if expect is not None:
            check(r.returncode == expect, f"{' '.join(command)}: {r.stdout}{r.stderr}")
        return r.stdout

    def table(self, *command, env=None):
        """Rows of a client's -P output with a header, by column."""
        lines = self.call(*command, env=env).splitlines()
        names = lines[0].split("|")
        return [dict(zip(names, line.split("|"))) for line in lines[1:]]

    def submit(self, user, name, script, *options):
        """Submits a job; `script` is lines of sh after the first. Returns its raw id."""
        path = f"{self.dir}/work/{name}.sh"
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\n{script}\n")
        said = self.call("sbatch", "--parsable", f"--uid={user}", f"--job-name={name}",
                         f"--chdir={self.dir}/work", "--time=10", *options, path)
        return int(re.match(r"\d+", said).group())

    def state(self, job):
        said = self.call("scontrol", "show", "job", "-o", str(job))
        return re.search(r"JobState=(\w+)", said).group(1)

    def await_state(self, job, *states, seconds=60):
        until(lambda: self.state(job) in states, f"job {job} {' or '.join(states)}, not "
              f"{self.state(job)}", seconds=seconds, every=0.3)

    def update(self, *what):
        self.call("scontrol", "update", *what)

    def sreport(self, *what):
        """A report on the hour that ends at hour_end, in GPU-seconds."""
        def local(t):
            return datetime.datetime.fromtimestamp(
                t + self.east, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        rows = self.call("sreport", "-P", "-T", "gres/gpu", "-t", "Seconds", *what,
                         "start=" + local(self.hour_end - 3600), "end=" + local(self.hour_end),
                         env={"TZ": self.zone}).splitlines()
        begin = next((k for k, line in enumerate(rows) if line.startswith("Cluster|")), None)
        if begin is None:
            return []
        names = rows[begin].split("|")
        return [dict(zip(names, line.split("|"))) for line in rows[begin + 1:]]
