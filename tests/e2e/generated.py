"""Requests made from docs/openapi.json by Schemathesis: every answer is one that the document has,
none is a 500, and the server is as well afterwards as before.

usage: generated.py [REQUESTS]   of each kind and operation (8)
"""
import copy
import json
import os
import subprocess
import sys
import urllib.request

from harness import Process, SKIP, check, run, scratch, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAX_RSS = 1536 << 20
# Not judged: whether what is refused fits the document, and the other way. Windows end after they
# begin, durations are whole minutes, and a parameter without a value is one that is not given; a
# schema cannot say that.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance,unsupported_method,"
          "allow_header_conformance")
OF_A_JOB = "/api/v1/jobs/{job}/mfu"
TRACE = (b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,'
         b'"args":{"device":0,"stream":7,"correlation":1}}]}')
HOOKS = '''
import schemathesis

# Bytes as they are: what a stranger sends.
@schemathesis.serializer("application/x-protobuf", "application/octet-stream")
def as_bytes(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
'''

requests = sys.argv[1] if len(sys.argv) > 1 else "8"
installed = subprocess.run([f"{ROOT}/tools/schemathesis", "install"], capture_output=True,
                           text=True)
if installed.returncode == SKIP:
    print(f"skipped: {installed.stderr.strip()}")
    sys.exit(SKIP)
check(installed.returncode == 0, f"tools/schemathesis install: {installed.stderr}")
program = installed.stdout.strip()

data = scratch()
run("simulate", "fleet", "--gpus", "64", "--hours", "3", "--into", data)
server = Process("serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--target", "127.0.0.1:1")
with urllib.request.urlopen(urllib.request.Request(
        server.url + "/api/v1/traces?job=1", data=TRACE, method="POST"), timeout=30) as r:
    trace = r.headers["Location"].rsplit("/", 1)[1]
until(lambda: server.json("/api/v1/traces/" + trace)["state"] == "ready", "the trace to be ready")
job = server.json("/api/v1/jobs?from=-3h&limit=1")["jobs"][0]["job"]
gpu = server.json("/api/v1/gpus?limit=1")["gpus"][0]["gpu"]


def schemathesis(name, document, *arguments):
    """Its exit code and what it said."""
    folder = scratch()
    with open(f"{folder}/openapi.json", "w") as f:
        json.dump(document, f)
    with open(f"{folder}/hooks.py", "w") as f:
        f.write(HOOKS)
    # Names of things that are there, so that answers are more than "there is none".
    with open(f"{folder}/schemathesis.toml", "w") as f:
        f.write('hooks = "hooks.py"\n')
        for path, key, value in (("/api/v1/traces/", "id", trace), ("/api/v1/jobs/", "job", job),
                                 ("/api/v1/gpus/", "uuid", gpu)):
            f.write(f'[[operations]]\ninclude-path-regex = "^{path}"\ninclude-method = "GET"\n'
                    f'parameters = {{ "path.{key}" = "{value}" }}\n')
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    r = subprocess.run(
        [program, "--config-file", f"{folder}/schemathesis.toml", "run", f"{folder}/openapi.json",
         "--url", server.url, "-c", CHECKS, "--phases", "examples,coverage,fuzzing", "--seed", "1",
         "--continue-on-failure", "--request-timeout", "120", "--no-color", "--warnings", "off",
         *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
    print(f"{name}: exit {r.returncode}; " + " ".join(
        line.strip() for line in r.stdout.splitlines() if "generated" in line), flush=True)
    return r.returncode, r.stdout + r.stderr


with open(f"{ROOT}/docs/openapi.json") as f:
    committed = json.load(f)
for name, arguments in (
        ("docs/openapi.json", ("--exclude-path", OF_A_JOB)),
        # A job may be called "1/mfu": GET says that there is none, and not that GET is wrong.
        (OF_A_JOB, ("--include-path", OF_A_JOB, "--exclude-checks", "unsupported_method"))):
    code, said = schemathesis(name, committed, "-n", requests, *arguments)
    check(code == 0, "an answer is not what docs/openapi.json says:\n" + said[-20000:])

# The judge does judge: a document that asks for what no answer has.
wrong = copy.deepcopy(committed)
wrong["components"]["schemas"]["Jobs"]["required"].append("what_no_answer_has")
code, said = schemathesis("a wrong document", wrong, "-n", "2", "--include-path", "/api/v1/jobs")
check(code == 1 and "what_no_answer_has" in said, "a wrong document is not noticed:\n" + said)

check(server.json("/api/v1/jobs?from=-3h&limit=1")["jobs"], "the server lost its jobs")
peak = server.peak()
print(f"at most {peak >> 20} MiB", flush=True)
check(peak < MAX_RSS, f"{peak} bytes of memory")
check(server.stop() == 0, "it ended badly:\n" + server.text())
