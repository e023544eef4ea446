"""The proxies of docs/site-guide.md, tried: each block is given to the real nginx or Caddy, with
the ports, certificate and passwords of this test in place of the site's, before a real server. Who
has no password gets nothing; with it the page and the API are there under the site's name.

nginx and caddy are looked for on the PATH, or where FLOPWATCH_NGINX and FLOPWATCH_CADDY say; those
of Debian 12 run unpacked (apt-get download nginx caddy; dpkg -x).
"""
import base64
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import harness
from harness import Process, check, scratch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
kName, kUser, kPassword = "flopwatch.example.org", "alice", "not a secret"
kStartSeconds = 20
kTrace = b"{" + b" " * (3 << 20) + b"}"  # larger than what a proxy takes if nothing is said


def block(language):
    """The one block of the guide in that language."""
    with open(f"{ROOT}/docs/site-guide.md") as f:
        found = re.findall(rf"^```{language}\n(.*?)^```", f.read(), re.M | re.S)
    check(len(found) == 1, f"docs/site-guide.md has {len(found)} blocks of {language}")
    return found[0]


def replaced(text, pairs):
    for old, new in pairs:
        check(text.count(old) == 1, f"the guide's block has {text.count(old)} times {old!r}")
        text = text.replace(old, new)
    return text


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def certificate(folder):
    r = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", f"/CN={kName}", "-addext", f"subjectAltName=DNS:{kName}",
                        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"],
                       capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)


def nginx(program, folder, port, server):
    with open(f"{folder}/htpasswd", "w") as f:
        f.write(f"{kUser}:{{PLAIN}}{kPassword}\n")
    site = replaced(block("nginx"), [
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/flopwatch.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/flopwatch.key", f"{folder}/key.pem"),
        ("/etc/nginx/flopwatch.htpasswd", f"{folder}/htpasswd"),
        ("127.0.0.1:9530", f"127.0.0.1:{server.port}")])
    parts = "".join(f"{name}_temp_path {folder}/{name};\n"
                    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # As root it would hand its work to a user who may not read this folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    with open(f"{folder}/nginx.conf", "w") as f:
        f.write(f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
                f"events {{}}\nhttp {{\naccess_log off;\n{parts}{site}}}\n")
    return [program, "-p", folder, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def caddy(program, folder, port, server):
    version = subprocess.run([program, "version"], capture_output=True, text=True).stdout
    numbers = [int(x) for x in re.findall(r"\d+", version)[:2]]
    r = subprocess.run([program, "hash-password", "--plaintext", kPassword], capture_output=True,
                       text=True)
    check(r.returncode == 0, r.stderr)
    site = replaced(block("caddy"), [
        (kName + " {", f"https://{kName}:{port} {{\n  bind 127.0.0.1\n"
                       f"  tls {folder}/cert.pem {folder}/key.pem"),
        ('<hash of "caddy hash-password">', r.stdout.strip()),
        ("127.0.0.1:9530", f"127.0.0.1:{server.port}")])
    if numbers < [2, 8]:  # as the guide says
        site = replaced(site, [("basic_auth", "basicauth")])
    with open(f"{folder}/Caddyfile", "w") as f:
        f.write(f"{{\n  admin off\n  auto_https disable_redirects\n}}\n{site}")
    return [program, "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]


def ask(port, path, password=None, body=b""):
    """Status and body of a request to the proxy under the site's name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"Host: {kName}", "Connection: close",
             f"Content-Length: {len(body)}"]
    if password is not None:
        token = base64.b64encode(f"{kUser}:{password}".encode()).decode()
        lines.append(f"Authorization: Basic {token}")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        with context.wrap_socket(plain, server_hostname=kName) as s:
            s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
            answer = b""
            while more := s.recv(1 << 16):
                answer += more
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), rest.decode(errors="replace")


def wait_for(port, process, folder):
    end = time.time() + kStartSeconds
    while time.time() < end:
        try:
            return ask(port, "/")
        except OSError:
            with open(f"{folder}/log") as f:
                check(process.poll() is None, "it ended:\n" + f.read())
            time.sleep(0.1)
    check(False, f"nothing answers on port {port}")


def tried(name, program, configure, server):
    folder, port = scratch(), free_port()
    certificate(folder)
    command = configure(program, folder, port, server)
    environment = os.environ | {"HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
    with open(f"{folder}/log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        status, _ = wait_for(port, process, folder)
        check(status == 401, f"{name}: without a password {status}")
        check(ask(port, "/api/v1/status", "wrong")[0] == 401, f"{name}: with a wrong password")
        status, page = ask(port, "/", kPassword)
        check(status == 200 and "flopwatch" in page, f"{name}: the page is {status}: {page[:200]}")
        status, text = ask(port, "/api/v1/status", kPassword)
        check(status == 200 and '"version"' in text, f"{name}: the API is {status}: {text[:200]}")
        # Whatever is said of its content, the proxy let it through to the server.
        status, text = ask(port, "/api/v1/traces", kPassword, kTrace)
        check(status != 413 and '"error"' in text, f"{name}: a trace is {status}: {text[:200]}")
    finally:
        process.terminate()
        process.wait()
    print(f"{name}: 401 without a password, the page and the API with it", flush=True)


def main():
    programs = [("nginx", os.environ.get("FLOPWATCH_NGINX") or shutil.which("nginx"), nginx),
                ("caddy", os.environ.get("FLOPWATCH_CADDY") or shutil.which("caddy"), caddy)]
    if not any(program for _, program, _ in programs):
        print("SKIPPED: neither nginx nor caddy is here")
        sys.exit(harness.SKIP)
    server = Process("serve", "--listen", "127.0.0.1:0", "--data-dir", f"{scratch()}/data",
                     "--host-name", kName)
    for name, program, configure in programs:
        if program:
            tried(name, program, configure, server)
        else:
            print(f"{name} is not here: its block is not tried", flush=True)


if __name__ == "__main__":
    main()
