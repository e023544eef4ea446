"""What a document shows as the output of a command, held against what the command says.

A block of README.md or docs/*.md that begins with ```console has commands behind "$ " and under
each what a person sees of it on a terminal of 80 columns; a line "…" stands for lines left out.
Numbers, ids, times, bars and sparklines are those of the day; all the rest (words, names of
columns, lines and their order) must be what the program says now. The commands read a stored fleet
that is the same every time, or files that documents.py makes.

FLOPWATCH_UPDATE_DOCUMENTS=1 writes what the program says into the documents.
"""
import difflib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from harness import check, run

kColumns, kRows = 80, 24
kTimeout = 60
kLeftOut = "…"
# The fleet of the documents: half a day of a research cluster with one exporter that has lost its
# profiling fields. docs/cli.md has the same line.
kFleet = ["--gpus", "96", "--preset", "research", "--hours", "8", "--seed", "12", "--start",
          "2026-11-03T08:00:00Z", "--faults", "telemetry", "--counters", "tensor_gone=1"]
# Where answers come from is said on stderr; a reader's comes from a server.
kNotShown = re.compile(r"no server: reading the store in ")


class Shown:
    """One command of a document and the lines below it, [first, last) of the file's."""

    def __init__(self, file, first, command):
        self.file, self.first, self.command, self.lines = file, first, command, []

    @property
    def where(self):
        return f"{self.file}:{self.first}"


def of_text(name, text):
    """The commands of a document that have their output under them."""
    found, inside = [], False
    for number, line in enumerate(text.split("\n")):
        if line.startswith("```"):
            inside = line.strip() == "```console"
        elif inside and line.startswith("$ "):
            found.append(Shown(name, number + 1, line[2:].strip()))
        elif inside:
            check(found, f"{name}: a console block begins without a command")
            found[-1].lines.append(line)
    for s in found:
        while s.lines and not s.lines[-1].strip():
            s.lines.pop()
    return [s for s in found if s.lines]


def on_terminal(command, folder, environment):
    """What a person sees of the command: stdout and stderr on one terminal, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", kRows, kColumns, 0, 0))
    process = subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=folder,
                               env=environment | {"NO_COLOR": "1", "TERM": "xterm"},
                               stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    out, end = b"", time.time() + kTimeout
    while time.time() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                more = os.read(master, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            out += more
    os.close(master)
    if process.poll() is None and time.time() >= end:
        process.kill()
    process.wait()
    # Progress is written over: what stands before the last erasure of a line is gone.
    lines = [re.sub(r".*\x1b\[K", "", line.replace("\r", "")).rstrip()
             for line in out.decode(errors="replace").split("\n")]
    lines = [line for line in lines if not kNotShown.match(line)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def shape(line):
    """The line without what is of the day: numbers, ids and times, bars, width of columns."""
    line = re.sub(r"[█▉▊▋▌▍▎▏░▓▒·▁▂▃▄▅▆▇]+", " ", line)
    line = re.sub(r"[<>]?\d[\d.,]*", "0", line)
    return " ".join(line.split())


def parts(lines):
    """What is shown before a line of "…" and what after it."""
    if kLeftOut not in lines:
        return lines, None
    at = lines.index(kLeftOut)
    check(kLeftOut not in lines[at + 1:], "one line of … a command is enough")
    return lines[:at], lines[at + 1:]


def expected(lines, real):
    """What should stand where `lines` stand: as many of the real ones."""
    head, tail = parts(lines)
    if tail is None:
        return real
    return real[:len(head)] + [kLeftOut] + (real[-len(tail):] if tail else [])


def difference(lines, real):
    """None where the shapes are the same, else what differs."""
    want = expected(lines, real)
    a, b = [shape(x) for x in lines], [shape(x) for x in want]
    if a == b:
        return None
    return "\n".join(difflib.unified_diff(a, b, "shown", "real", lineterm="", n=1))


def self_test(lines, real):
    """A renamed word, a dropped line and a new one must be seen; other numbers must not."""
    spots = [i for i, x in enumerate(lines) if re.search("[A-Za-z]{3}", x)]
    for i in (spots[0], spots[-1]):
        renamed = list(lines)
        renamed[i] = re.sub("[A-Za-z]{3}", "Zzz", lines[i], count=1)
        check(difference(renamed, real), f"a renamed word is not seen: {renamed[i]}")
    if kLeftOut not in lines:
        check(difference(lines[1:], real), "a dropped line is not seen")
    check(difference(lines[:1] + ["another line"] + lines[1:], real), "a new line is not seen")
    other = [re.sub(r"\d", "7", x) for x in lines]
    check(not difference(other, real), "numbers are not of the day")


def update(root, found):
    """Writes what the commands say; from the last one of each file, so that places stay."""
    for s in sorted(found, key=lambda s: (s.file, -s.first)):
        path = os.path.join(root, s.file)
        with open(path) as f:
            text = f.read().split("\n")
        text[s.first:s.first + len(s.lines)] = expected(s.lines, s.real)
        with open(path, "w") as f:
            f.write("\n".join(text))


def compare(root, names, folder, environment):
    """Every shown output of the documents; the failures and how many were compared."""
    found = []
    for name in names:
        with open(os.path.join(root, name)) as f:
            found += of_text(name, f.read())
    run("simulate", "fleet", *kFleet, "--into", f"{folder}/documents-data")
    environment = {k: v for k, v in environment.items() if k != "FLOPWATCH_SERVER"} | {
        "FLOPWATCH_STORE_DIRECTORY": f"{folder}/documents-data",
        "FLOPWATCH_SERVER_LISTEN": "127.0.0.1:1"}
    failures = []
    for s in found:
        s.real = on_terminal(s.command, folder, environment)
        wrong = difference(s.lines, s.real)
        if wrong:
            failures.append(f"{s.where}: {s.command}\n{wrong}")
        else:
            self_test(s.lines, s.real)
    if os.environ.get("FLOPWATCH_UPDATE_DOCUMENTS") == "1":
        update(root, found)
        failures = []
    return failures, len(found)
