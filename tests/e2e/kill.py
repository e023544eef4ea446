"""kill -9 during ingest, 50 times: no row that the server had reported as stored is lost, and every
restart opens."""
import random
import sys
import time

from harness import Process, check, scratch, until

cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 50
rng = random.Random(20261121)
simulator = Process("simulate", "fleet", "--gpus", "64", "--preset", "llm", "--seed", "3",
                    "--hours", "24", "--interval", "100ms", "--faults", "none", "--listen",
                    "127.0.0.1:0")
data = scratch() + "/data"
# Everything that rows_appended counts: of GPUs, of any other metric, of applications.
ROWS = ("SELECT (SELECT count(*) FROM samples) + (SELECT count(*) FROM metrics) + "
        "(SELECT count(*) FROM application_samples) AS n")
acknowledged = 0
for cycle in range(cycles):
    server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--interval", "100ms",
                     "--http-sd", simulator.url + "/targets")
    stored = server.sql(ROWS)[0]["n"]
    check(stored >= acknowledged,
          f"cycle {cycle}: {acknowledged} rows were acknowledged, {stored} are there")
    until(lambda: server.json("/api/v1/status")["store"]["rows_appended"] > 0, "rows are appended")
    # Read the count the server reports until the moment of death.
    end = time.time() + rng.uniform(0.0, 0.8)
    while True:
        acknowledged = stored + server.json("/api/v1/status")["store"]["rows_appended"]
        if time.time() >= end:
            break
    server.kill9()
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0")
stored = server.sql(ROWS)[0]["n"]
check(stored >= acknowledged,
      f"after the last kill: {acknowledged} rows were acknowledged, {stored} are there")
check(server.stop() == 0, "clean stop")
print(f"{cycles} kills, {stored} rows, none lost")
