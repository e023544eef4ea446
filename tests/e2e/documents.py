"""Every command that README.md and docs/*.md show in a block is run, as it stands there, in a
folder with the files it names and beside a server with a simulated fleet. A command must end as it
should and say something. What cannot run here is in kNotRun, with the reason; every other is run,
and an entry of kNotRun that no document needs is a failure. What a document shows as the output of
a command is compared with what the command says (shown.py).

Usage: documents.py [WORD]: only commands that contain WORD; "shown": the shown outputs alone.
"""
import concurrent.futures
import gzip
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import shown
from harness import BINARY, Process, check, run, scratch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
kGpus, kHours = 64, 6
kTimeout = 600
kShownAtLeast = 12  # outputs that the documents show

# Begins a command; everything else in a block is output, configuration or code.
kPrograms = re.compile(
    r"(\./(run|test)\b|(FLOPWATCH_\w+=\S+ |SLURM_TIME_FORMAT=\S+ )?"
    r"(flopwatch|curl|sacct|squeue|kubectl|cut|source|promtool|dcgmi|nv-hostengine|docker|"
    r"systemctl|nginx|caddy|helm|sudo|install|tar) )")

# A pattern of the command, and why it is not run.
kNotRun = [
    (r"^\./(run|test)\b", "builds everything; CI runs them by themselves"),
    (r"^flopwatch serve\b.*(gpu\[|gpu-node|--http-sd|--targets-file fleet|--slurm)",
     "scrapes a real cluster; the options are parsed by --help's own tests"),
    (r"^flopwatch serve$", "does not end; every other test here is answered by one"),
    (r"^flopwatch top\b(?!.*--once)", "draws on a terminal until q"),
    (r"import prometheus", "needs a Prometheus; tests/e2e/history.py runs it against a real one"),
    (r"report --data-dir DIR --from -\d+d",
     "of what import prometheus wrote; tests/e2e/history.py"),
    (r"^SLURM_TIME_FORMAT|^squeue|import slurm", "needs Slurm's answers; tests/e2e/slurm.py"),
    (r"^kubectl|gpu-node-1:9400|localhost:9400", "needs a cluster's exporter"),
    (r"import table", "needs a site's table; tests/cli/import_table_test.cc runs the maps"),
    (r"DATA_DIR", "of what import table wrote"),
    (r"^flopwatch simulate fleet.*(--listen|--gpus 1000|--gpus 400)",
     "serves until it is stopped, or takes minutes; every e2e test runs it smaller"),
    (r"simulate trace --out large", "writes a gigabyte"),
    (r"^cut ", "needs a list of kernels of one's own"),
    (r"^source |completion (zsh|fish) >", "changes the shell that calls; cli_test runs completion"),
    (r"report\.sqlite|profile_ascend_pt|\*\.prom|scrape\.prom|series\.csv|weekly\.sql|--tsdb",
     "needs a recording of one's own"),
    (r"trace upload|--data-binary", "tests/api/traces_test.cc uploads"),
    (r"--server head", "needs another machine"),
    (r"^curl", "asks for more than this machine"),
    (r"GPU-34319582|--gpu UUID", "needs a GPU that is recorded every second"),
    (r"/(data|backup)/flopwatch", "a folder of one's own"),
    (r"^flopwatch idle, ", "a line of words"),
]

# Exit codes that are right for a question about a fleet as it is.
kMayEnd = [(r"--fail|doctor|compare 2100017|compare 2026|regressions --job", (0, 3, 4, 5)),
           # Nobody in this fleet may hold GPUs idle; the trace may launch no such pattern.
           (r"--notice", (0, 5)), (r"frequent_patterns:", (0, 1)),
           # More rows than are shown is said so.
           (r"^flopwatch (trace )?sql ", (0, 7))]


def blocks(text):
    """Lines of fenced and indented blocks; not those that show an output (shown.py)."""
    fenced = console = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
            console = fenced and line.strip() == "```console"
        elif not console and (fenced or line.startswith("    ")):
            yield number, line.strip()


def documents():
    return [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs/*.md")))


def commands():
    for file in documents():
        with open(file) as f:
            text = f.read()
        for number, line in blocks(text):
            if kPrograms.match(line + " "):
                # Words that explain stand behind two blanks or more, or "#".
                yield (f"{os.path.relpath(file, ROOT)}:{number}",
                       re.split(r"\s{2,}(?![^\"]*\"[^\"]*$)|\s+# ", line)[0])


def make_files(folder):
    """What the documents name: a model's configuration, logs, traces of a few ranks."""
    run("simulate", "trace", "--out", f"{folder}/traces", "--ranks", "8", "--steps", "14",
        "--truth", f"{folder}/trace-truth.json")
    ranks = sorted(glob.glob(f"{folder}/traces/*.json*"))
    check(len(ranks) >= 8, f"traces of 8 ranks: {ranks}")
    packed = ranks[0].endswith(".gz")

    def text(path):
        return (gzip.open if packed else open)(path, "rb").read()

    for name, rank in (("rank0", 0), ("rank7", 7), ("before", 0), ("after", 1),
                       ("workers0", 0), ("workers4", 4)):
        with gzip.open(f"{folder}/{name}.json.gz", "wb", 1) as f:
            f.write(text(ranks[rank]))
    for name, rank in (("rank0", 0), ("a", 0), ("b", 1)):
        with open(f"{folder}/{name}.json", "wb") as f:
            f.write(text(ranks[rank]))
    for name in ("before", "after", "DIR"):
        shutil.copytree(f"{folder}/traces", f"{folder}/{name}")
    # Llama 2 7B, as its config.json on the hub has it.
    json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
               "intermediate_size": 11008, "num_attention_heads": 32, "num_hidden_layers": 32,
               "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
               "hidden_act": "silu", "tie_word_embeddings": False},
              open(f"{folder}/config.json", "w"))
    line = (" [2026-06-01 08:{0:02d}:00] iteration {1:8d}/ 1000 | consumed samples: {2} | elapsed "
            "time per iteration (ms): 6000.0 | throughput per GPU (TFLOP/s/GPU): 400.0 | learning "
            "rate: 1.0E-04 | global batch size: 1024 | lm loss: 2.5E+00 |\n")
    log = "".join(line.format(k, 10 * k, 10240 * k) for k in range(1, 30))
    arguments = {"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 11008,
                 "num_attention_heads": 32, "seq_length": 4096, "padded_vocab_size": 32000,
                 "swiglu": True, "group_query_attention": False,
                 "untie_embeddings_and_output_weights": True}
    head = "------------------------ arguments ------------------------\n"
    head += "".join(f"  {name} {'.' * (46 - len(name))} {value}\n"
                    for name, value in arguments.items())
    head += "-------------------- end of arguments ---------------------\n"
    for name in ("train.log", "old.log"):
        open(f"{folder}/{name}", "w").write(head + log)
    with gzip.open(f"{folder}/slurm-2115078.out.gz", "wt") as f:
        f.write(log)
    with open(f"{folder}/metrics.jsonl", "w") as f:
        for k in range(1, 30):
            f.write(json.dumps({"timestamp": 1780300800 + 60 * k, "step": k, "mfu": 41.0}) + "\n")
    # Programs of a site that a command pipes into.
    os.mkdir(f"{folder}/bin")
    os.symlink(os.path.abspath(BINARY), f"{folder}/bin/flopwatch")
    for name in ("mail", "sendmail", "page-someone"):
        with open(f"{folder}/bin/{name}", "w") as f:
            f.write("#!/bin/sh\ncat >/dev/null\n" if name != "page-someone" else "#!/bin/sh\n")
        os.chmod(f"{folder}/bin/{name}", 0o755)


def named(server):
    """What the documents' names stand for in the simulated fleet."""
    jobs = server.json("/api/v1/jobs?from=-6h&limit=100")["jobs"]
    check(len(jobs) > 3, "the simulated fleet has jobs")
    ids = [j["job"] for j in jobs]
    workflow = next((j["workflow"] for j in jobs if j["workflow"]), "")
    node = server.json("/api/v1/gpus?limit=1")["gpus"][0]["node"]
    return {"2115078": ids[0], "team-a/train-0": ids[1], "2100017": ids[2], "2100423": ids[3],
            "--step 12": "--step 105", "llama-sft": workflow, "n042": node,
            "localhost:9530": server.url[7:],
            "127.0.0.1:9530": server.url[7:]}


def cached_promtool():
    """That beside the Prometheus of other tests, where it was fetched before."""
    r = subprocess.run([f"{ROOT}/tools/prometheus", "install", "--cached"], capture_output=True,
                       text=True)
    beside = os.path.join(os.path.dirname(r.stdout.strip()), "promtool")
    return beside if r.returncode == 0 and os.access(beside, os.X_OK) else None


def check_rules():
    """Rules speak of metrics that docs/metrics.md has, which a test holds against the program."""
    with open(f"{ROOT}/docs/metrics.md") as f:
        known = set(re.findall(r"flopwatch_\w+", f.read()))
    with open(f"{ROOT}/deploy/prometheus/flopwatch-rules.yml") as f:
        used = set(re.findall(r"flopwatch_\w+", "".join(x for x in f if "expr:" in x)))
    check(used and used <= known, f"rules of unknown metrics: {sorted(used - known)}")
    promtool = shutil.which("promtool") or cached_promtool()
    if promtool is None:
        print("the rules are not judged: no promtool here (tools/prometheus install has one)")
        return
    r = subprocess.run([promtool, "check", "rules",
                        f"{ROOT}/deploy/prometheus/flopwatch-rules.yml"],
                       capture_output=True, text=True)
    check(r.returncode == 0, r.stdout + r.stderr)
    found = re.search(r"SUCCESS: (\d+) rules", r.stdout)
    check(found and int(found[1]) > 0, f"promtool found no rules: {r.stdout}")
    print(f"promtool: {found[0]}", flush=True)


def reason_not_run(command):
    return next((why for pattern, why in kNotRun if re.search(pattern, command)), None)


def may_end(command):
    return next((codes for pattern, codes in kMayEnd if re.search(pattern, command)), (0,))


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    folder = scratch()
    started = time.time()
    check_rules()
    make_files(folder)
    run("simulate", "fleet", "--gpus", str(kGpus), "--hours", str(kHours), "--seed", "3",
        "--into", f"{folder}/data")
    server = Process("serve", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data")
    names = named(server)
    os.rename(f"{folder}/slurm-2115078.out.gz", f"{folder}/slurm-{names['2115078']}.out.gz")
    environment = os.environ | {"FLOPWATCH_SERVER": server.url,
                                "PATH": f"{folder}/bin:{os.environ['PATH']}",
                                "XDG_CONFIG_HOME": folder, "COLUMNS": "80"}
    print(f"a fleet of {kGpus} GPUs after {time.time() - started:.0f} s", flush=True)

    def one(where_and_command):
        where, command = where_and_command
        line = command
        for name, real in names.items():
            line = line.replace(name, real)
        line = line.replace("--gpus 512 ", "--gpus 64 ")  # the same, in seconds
        r = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment,
                           capture_output=True, text=True, timeout=kTimeout,
                           stdin=subprocess.DEVNULL)
        if r.returncode not in may_end(command):
            return (f"{where}: {command}\n  as {line}\n"
                    f"  ended with {r.returncode}: {r.stderr[-400:]}")
        # Silence is an answer of commands that write a file, and of -q.
        quiet = re.search(r">|-q\b|--write|--svg|-O |--out|--truth|--export|mail|jq", command)
        if r.returncode == 0 and not quiet and not (r.stdout.strip() or r.stderr.strip()):
            return f"{where}: {command}\n  said nothing"
        return None

    # The same line in two documents is one command.
    seen, ran, left_out = set(), [], {}
    for where, command in commands():
        if wanted not in command or command in seen:
            continue
        seen.add(command)
        why = reason_not_run(command)
        if why is None:
            ran.append((where, command))
        else:
            left_out.setdefault(why, []).append(command)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [f for f in pool.map(one, ran) if f]
    check(wanted or len(ran) > 100, f"only {len(ran)} commands were found to run")
    unused = [p for p, why in kNotRun if not any(re.search(p, c) for c in seen)]
    print(f"{len(ran)} commands run, {sum(map(len, left_out.values()))} left out, "
          f"{time.time() - started:.0f} s", flush=True)
    check(not failures, f"{len(failures)} of {len(ran)} commands:\n" + "\n".join(failures))
    if not wanted or "shown" in wanted:
        names = [os.path.relpath(f, ROOT) for f in documents()]
        failures, compared = shown.compare(ROOT, names, folder, environment)
        print(f"{compared} shown outputs compared, {time.time() - started:.0f} s", flush=True)
        check(not failures, f"{len(failures)} of {compared} shown outputs are not what the "
              "commands say (FLOPWATCH_UPDATE_DOCUMENTS=1 writes them anew):\n"
              + "\n".join(failures))
        check(compared >= kShownAtLeast, f"only {compared} outputs are shown")
    if not wanted:
        check(not unused, f"kNotRun speaks of commands that no document has: {unused}")


if __name__ == "__main__":
    main()
