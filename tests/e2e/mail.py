"""Alerts by mail, through a real SMTP server that wants STARTTLS and a login: a page at once, a
user's tickets in one digest of their own, at the hour of the day that was asked for. The server is
killed while it tells, and the mail server goes away: nothing is lost, and what comes twice is the
same mail, with the same Message-ID.
"""
import datetime
import email
import email.policy
import os
import random
import subprocess
import threading
import time
import urllib.request

from harness import SKIP, Process, check, run, scratch, until

KILLS = 6
OPERATORS = "ops@fleet.example"
# GPU to the user whose job it is; the rest is of nobody that the exporter names.
USERS = {0: "ann", 1: "ann", 2: "bob"}
HOT = range(4, 4 + KILLS)
LATE = 4 + KILLS
GPUS = LATE + 1
RULES = """
[rules.hot]
scope = "gpu"
when = "gpu_temp_c > 90"
for = "1s"
keep_firing = "1s"
group = "gpu"
severity = "page"
value = "gpu_temp_c"
summary = "{gpus} of {node} at {value} degrees"
action = "Look at the fans."

[rules.warm]
scope = "gpu"
when = "gpu_temp_c > 70 and gpu_temp_c <= 90"
for = "1s"
keep_firing = "1s"
group = "gpu"
severity = "ticket"
owner = "user"
value = "gpu_temp_c"
summary = "{gpus} is warm"
"""
TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "smtp-sink")


class Sink:
    """The mail server, which comes back on the port that it had."""

    def __init__(self):
        self.folder, self.process = scratch(), None
        self.start(0)
        self.port = int(open(self.folder + "/port").read())

    def start(self, port):
        if os.path.exists(self.folder + "/port"):
            os.remove(self.folder + "/port")
        self.process = subprocess.Popen(
            [TOOL, self.folder, "--port", str(port), "--starttls", "--login", "flop:wa tch"],
            stdin=subprocess.PIPE)
        until(lambda: os.path.exists(self.folder + "/port") or self.process.poll() is not None,
              "the mail server listens", 30)
        if self.process.poll() == SKIP:
            raise SystemExit(SKIP)
        check(self.process.poll() is None, "the mail server did not start")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def mails(self, begin=""):
        out = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".eml"):
                with open(f"{self.folder}/{name}", "rb") as f:
                    out.append(email.message_from_binary_file(f, policy=email.policy.default))
        return [m for m in out if m["Subject"].startswith(begin)]


def text(temperatures):
    """An exporter's, of all GPUs of a node."""
    lines = []
    for gpu in range(GPUS):
        user = f',user="{USERS[gpu]}"' if gpu in USERS else ""
        labels = (f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3",'
                  f'Hostname="n1",hpc_job="{gpu + 100}"{user}')
        for name, value in (("DCGM_FI_DEV_GPU_TEMP", temperatures.get(gpu, 60)),
                            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", .4 + random.random() / 100),
                            ("DCGM_FI_DEV_SM_CLOCK", 1700), ("DCGM_FI_DEV_POWER_USAGE", 600),
                            ("DCGM_FI_DEV_GPU_UTIL", 99)):
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def hour_of_digest():
    """A time at least 75 s ahead, and the zone in which it is a full hour."""
    at = datetime.datetime.fromtimestamp(time.time() + 135, datetime.timezone.utc)
    at = at.replace(second=0, microsecond=0)
    zone = f"+00:{60 - at.minute:02}" if at.minute else "+00:00"
    return at, zone, (at.hour + (1 if at.minute else 0)) % 24


def once(mails, kills):
    """One mail of each Message-ID; what came twice is the same, and no more of it than kills."""
    first = {}
    for m in mails:
        same = first.setdefault(m["Message-ID"], m)
        check((same["To"], same["Subject"], same.get_content()) ==
              (m["To"], m["Subject"], m.get_content()), f"two mails under {m['Message-ID']}")
    check(len(mails) - len(first) <= kills, f"{len(mails)} mails of {len(first)}")
    return list(first.values())


def main():
    random.seed(1)
    sink, folder = Sink(), scratch()
    with open(folder + "/rules.toml", "w") as f:
        f.write(RULES)
    with open(folder + "/login", "w") as f:
        f.write("flop\nwa tch\n")
    at, zone, hour = hour_of_digest()
    with open(folder + "/flopwatch.toml", "w") as f:
        f.write(f"""[server]
time_zone = "{zone}"
[alerts]
external_url = "https://fleet.example"
interval = "1s"
grace = "1s"
rules_file = "{folder}/rules.toml"
mail = "smtp://127.0.0.1:{sink.port}"
mail_from = "flopwatch@fleet.example"
mail_operators = "{OPERATORS}"
mail_domain = "fleet.example"
mail_addresses = ["bob=robert@other.example"]
mail_digest_hour = {hour}
mail_starttls = "required"
mail_ca_file = "{sink.folder}/ca.pem"
mail_login_file = "{folder}/login"
""")

    def server():
        return Process("serve", "--config", folder + "/flopwatch.toml", "--data-dir",
                       folder + "/data", "--listen", "127.0.0.1:0", "--target",
                       "http://127.0.0.1:1/metrics")

    process, temperatures, done = [server()], {}, threading.Event()

    def push():
        while not done.is_set():
            try:
                urllib.request.urlopen(urllib.request.Request(
                    process[0].url + "/api/v1/push/n1", text(dict(temperatures)).encode()),
                    timeout=5).read()
            except OSError:
                pass  # it is killed
            time.sleep(.5)

    threading.Thread(target=push, daemon=True).start()
    # GPU 3 has no user: its ticket is the operators'.
    temperatures.update({gpu: 80 for gpu in (0, 1, 2, 3)})
    until(lambda: len([a for a in process[0].json("/api/v1/alerts")["alerts"]
                       if a["rule"] == "warm"]) == 4, "tickets fire", 40)

    kills = 0
    for gpu in HOT:
        temperatures[gpu] = 95
        time.sleep(2 + 2 * random.random())  # before, in and after the telling
        process[0].kill9()
        kills += 1
        process[0] = server()
    until(lambda: len(once(sink.mails("page: "), kills)) >= KILLS, "every page came", 60)
    pages = once(sink.mails("page: "), kills)
    check(sorted(m["Subject"] for m in pages) ==
          sorted(f"page: GPU-{gpu} of n1 at 95 degrees" for gpu in HOT),
          f"{[m['Subject'] for m in pages]}")
    for m in pages:
        body = m.get_content()
        check(m["X-RcptTo"] == OPERATORS and m["X-MailFrom"] == "flopwatch@fleet.example" and
              "https://fleet.example/alerts/" in body and "Look at the fans." in body and
              "95 degC" in body, f"{m}")

    # It is over, and the mail says of which one.
    temperatures[HOT[0]] = 60
    over = until(lambda: sink.mails("resolved: "), "it is over", 60)[0]
    answered = [m for m in pages if m["Message-ID"] == over["In-Reply-To"]]
    check(len(answered) == 1 and f"GPU-{HOT[0]} " in answered[0]["Subject"], f"{over}")

    # The mail server is away, and flopwatch is killed meanwhile.
    sink.stop()
    temperatures[LATE] = 95
    until(lambda: process[0].json("/api/v1/alerts")["engine"]["outbox"] == 1, "it waits", 60)
    failed = until(lambda: [r for r in process[0].json("/api/v1/alerts")["engine"]["receivers"]
                            if r["failed"] > 0], "the failure is counted", 60)
    check("127.0.0.1" in failed[0]["last_error"], f"{failed}")
    process[0].kill9()
    kills += 1
    process[0] = server()
    sink.start(sink.port)
    until(lambda: any(f"GPU-{LATE} " in m["Subject"] for m in sink.mails("page: ")),
          "it came when the mail server was back", 90)

    # Digests: one a person, at their hour.
    for _ in range(3):
        wait = at.timestamp() - time.time()
        time.sleep(max(0, wait) + random.random() * 1.5)
        process[0].kill9()
        kills += 1
        process[0] = server()
    until(lambda: len(once(sink.mails("flopwatch "), kills)) >= 3, "the digests came", 60)
    day = (at + datetime.timedelta(minutes=int(zone[-2:]))).strftime("%Y-%m-%d")
    digests = {m["X-RcptTo"]: m for m in once(sink.mails("flopwatch "), kills)}
    check({to: m["Subject"] for to, m in digests.items()} ==
          {"ann@fleet.example": f"flopwatch {day}: 2 tickets",
           "robert@other.example": f"flopwatch {day}: 1 ticket",
           OPERATORS: f"flopwatch {day}: 1 ticket"},
          f"{[(to, m['Subject']) for to, m in digests.items()]}")
    for to, gpus in (("ann@fleet.example", {0, 1}), ("robert@other.example", {2}),
                     (OPERATORS, {3})):
        body = digests[to].get_content()
        check({gpu for gpu in range(GPUS) if f"GPU-{gpu} is warm" in body} == gpus, body)
        check(digests[to]["Date"].datetime >= at, f"{digests[to]['Date']} is before {at}")

    # What comes after the digest of a day is for the next.
    temperatures[1] = 60
    before = len(sink.mails())
    until(lambda: len([a for a in process[0].json("/api/v1/alerts")["alerts"]
                       if a["rule"] == "warm"]) == 3, "one ticket is over", 60)
    time.sleep(3)
    check(len(sink.mails()) == before, f"{[m['Subject'] for m in sink.mails()[before:]]}")
    done.set()
    check(process[0].stop() == 0, "it did not stop well:\n" + process[0].text())

    # What cannot work is said at once, in a line.
    os.environ["FLOPWATCH_ALERTS_MAIL_FROM"] = "nobody"
    r = run("serve", "--config", folder + "/flopwatch.toml", "--data-dir", folder + "/data",
            "--listen", "127.0.0.1:0", expect=None)
    check(r.returncode != 0 and "mail_from" in r.stderr, f"{r.returncode} {r.stderr}")
    print(f"{kills} kills, {len(pages)} pages and {len(digests)} digests, "
          f"{len(sink.mails()) - len({m['Message-ID'] for m in sink.mails()})} twice")


main()
