"""One sender invents GPUs, jobs, series, models and nodes as fast as it can: by push, remote write
and OTLP. What is known goes on being stored and answered, memory is bounded, and it shows."""
import json
import random
import threading
import time
import urllib.error
import urllib.request

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import Process, check, scratch, until
from others import Others
from wire import series, snappy

ATTACK_S = 15
MAX_RSS = 1.5 * 2**30
LINE = ('DCGM_FI_{f}{{gpu="{i}",UUID="{u}",device="nvidia{i}",modelName="{m}",Hostname="{h}"'
        ',hpc_job="{j}"}} {v}\n')
MODEL = "NVIDIA H100 80GB HBM3"


def gpu(index, uuid, host, job, model=MODEL):
    values = [("PROF_PIPE_TENSOR_ACTIVE", "0.300000"), ("DEV_SM_CLOCK", "1500"),
              ("DEV_POWER_USAGE", "%.3f" % random.uniform(300, 700))]
    return "".join(LINE.format(f=f, i=index, u=uuid, h=host, j=job, m=model, v=v)
                   for f, v in values)


class Honest(BaseHTTPRequestHandler):
    """An exporter of eight GPUs, scraped every second."""
    scrapes = 0

    def do_GET(self):
        Honest.scrapes += 1
        payload = "".join(gpu(k, f"GPU-honest-{k}", "honest", "honest-job")
                          for k in range(8)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args):
        pass


# Bodies are made once, with a number of six digits in every name that is another in every request:
# an attacker spends less on a body than the server.
NUMBER, NOW = "NNNNNN", "1" * 19


def push_body():
    """1,000 GPUs nobody has seen, each with a job and a series of its own, and 64 models."""
    text = "".join(gpu(k, f"GPU-P{NUMBER}-{k}", f"push{NUMBER}", f"job-{NUMBER}-{k}",
                       f"model {NUMBER} {k % 64}") for k in range(1000))
    text += "".join(f'invented_total{{id="{NUMBER}-{k}"}} 1\n' for k in range(1000))
    return (f"/api/v1/push/push{NUMBER}", text.encode(), {"Content-Type": "text/plain"})


def write_body():
    """GPUs of 2,000 instances nobody has seen."""
    ts = int(time.time() * 1000)
    out = b""
    for k in range(2000):
        labels = {"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "UUID": f"GPU-W{NUMBER}-{k}",
                  "gpu": "0", "modelName": MODEL, "Hostname": f"write{NUMBER}-{k}",
                  "instance": f"write{NUMBER}-{k}:9400", "hpc_job": f"write-job-{NUMBER}-{k}"}
        out += series(labels, ts, 0.5)
        out += series({**labels, "__name__": f"invented_{NUMBER}_{k}"}, ts, 1)
    return ("/api/v1/write", out, {"Content-Type": "application/x-protobuf"})


def otlp_body():
    """The same over OTLP, in JSON."""
    resources = []
    for k in range(1000):
        resources.append({
            "resource": {"attributes": [
                {"key": "host.name", "value": {"stringValue": f"otlp{NUMBER}-{k}"}}]},
            "scopeMetrics": [{"metrics": [{
                "name": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                "gauge": {"dataPoints": [{
                    "timeUnixNano": NOW, "asDouble": 0.5,
                    "attributes": [
                        {"key": "UUID", "value": {"stringValue": f"GPU-O{NUMBER}-{k}"}},
                        {"key": "gpu", "value": {"stringValue": "0"}}]}]}}]}]})
    return ("/v1/metrics", json.dumps({"resourceMetrics": resources}).encode(),
            {"Content-Type": "application/json"})


class Attacker(threading.Thread):
    def __init__(self, url, body):
        super().__init__(daemon=True)
        self.url, self.body, self.answers, self.retry_after = url, body, {}, True

    def run(self):
        path, template, headers = self.body()
        end, n = time.time() + ATTACK_S, 0
        while time.time() < end:
            n += 1
            number = "%06d" % n
            payload = template.replace(NUMBER.encode(), number.encode())
            payload = payload.replace(NOW.encode(), str(time.time_ns()).encode())
            if self.body is write_body:
                payload = snappy(payload)
            request = urllib.request.Request(self.url + path.replace(NUMBER, number), payload,
                                             headers)
            try:
                status = urllib.request.urlopen(request, timeout=30).status
            except urllib.error.HTTPError as e:
                status = e.code
                if status == 429:
                    self.retry_after &= "Retry-After" in e.headers
            except OSError:
                status = 0
            self.answers[status] = self.answers.get(status, 0) + 1


def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def main():
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Honest)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    server = Process("serve", "--data-dir", scratch(), "--listen", "127.0.0.1:0",
                     "--interval", "1s", "--target",
                     f"http://127.0.0.1:{exporter.server_port}/metrics")
    until(lambda: server.json("/api/v1/gpus")["total"] == 8, "the honest GPUs are known")
    began, scrapes = time.time(), Honest.scrapes

    attackers = [Attacker(server.url, body) for body in (push_body, write_body, otlp_body)]
    most = 0
    with Others(server.url, "one sender that invents GPUs, jobs and series"):
        for attacker in attackers:
            attacker.start()
        while any(a.is_alive() for a in attackers):
            most = max(most, rss(server.process.pid))
            time.sleep(0.05)
        time.sleep(8)  # what remote write and OTLP sent has settled, and is flushed
    most = max(most, rss(server.process.pid))
    for attacker in attackers:
        print(attacker.body.__name__, attacker.answers, flush=True)
    print(f"at most {most / 2**20:.0f} MiB", flush=True)
    check(most < MAX_RSS, f"{most} bytes of memory")

    # Nothing ends the storing, and what the honest exporter said is complete and live.
    status = server.json("/api/v1/status")
    print(status["ingest"], flush=True)
    check(status["ingest"]["dropped_rows"] == 0, "rows were dropped")
    seen = Honest.scrapes - scrapes
    check(seen >= 0.7 * (time.time() - began), f"only {seen} scrapes")
    rows = server.sql("SELECT count(*) AS n FROM samples s WHERE gpu LIKE 'GPU-honest-%'")
    check(rows[0]["n"] >= 8 * (seen - 3), f"{rows[0]['n']} rows of {seen} scrapes of 8 GPUs")
    job = server.json("/api/v1/jobs?q=honest-job&limit=10")
    check(any(j["job"] == "honest-job" for j in job["jobs"]), "the honest job is gone")

    # The attacker was held to its budget, and told so.
    refused = status["ingest"]["refused"]
    for reason in ("model_budget", "source_budget"):
        check(refused.get(reason, 0) > 0, f"no {reason} in {refused}")
    check(attackers[1].answers.get(429, 0) > 0, "remote write was never told to wait")
    check(all(a.retry_after for a in attackers), "429 without Retry-After")
    check(status["gpus"] < 200_000, f"one sender has made {status['gpus']} GPUs known")
    server.stop()


main()
