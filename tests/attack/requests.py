"""Requests that are made to be misread, on the real binary: smuggled behind one that two servers
would cut differently; sent by a page of another site; with markup in every name that is shown.
Other answers and memory meanwhile."""
import re
import socket

from harness import Process, check, scratch, until
from others import Others

MAX_RSS = 1536 << 20
ROUNDS = 150  # so that there is a p99 of the other answers
server = Process("serve", "--data-dir", scratch(), "--listen", "127.0.0.1:0",
                 "--target", "127.0.0.1:1")


def rss():
    return [int(line.split()[1]) << 10 for line in open(f"/proc/{server.process.pid}/status")
            if line.startswith("VmHWM")][0]


def exchange(raw):
    """All that comes back over one connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as s:
        try:
            s.sendall(raw)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while part := s.recv(65536):
                answer += part
        except OSError:
            pass
        return answer


def gpu(uuid, **labels):
    text = ",".join(f'{k}="{v}"' for k, v in
                    {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA H100 80GB HBM3",
                     "Hostname": "n", **labels}.items())
    return (f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{text}}} 0.5\n"
            f"DCGM_FI_DEV_SM_CLOCK{{{text}}} 1500\n").encode()


others = Others(server.url, "requests that are made to be misread")
others.open()

# --- smuggling: what stands behind an ambiguous length is nobody's request ---
HIDDEN = gpu("GPU-smuggled")
SMUGGLED = (b"POST /api/v1/push/evil HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            % len(HIDDEN) + HIDDEN)
AMBIGUOUS = {
    "length_and_chunks": [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
    "chunks_and_length": [b"Transfer-Encoding: chunked", b"Content-Length: 5"],
    "two_lengths": [b"Content-Length: 5", b"Content-Length: 0"],
    "length_list": [b"Content-Length: 5, 0"],
    "signed_length": [b"Content-Length: +5"],
    "negative_length": [b"Content-Length: -5"],
    "hex_length": [b"Content-Length: 0x5"],
    "space_before_colon": [b"Transfer-Encoding : chunked"],
    "unknown_coding": [b"Transfer-Encoding: xchunked"],
    "two_codings": [b"Transfer-Encoding: gzip, chunked"],
    "chunked_not_last": [b"Transfer-Encoding: chunked, identity"],
    "two_encodings": [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
    "tab_in_name": [b"Transfer\tEncoding: chunked"],
    "folded": [b"Transfer-Encoding:\r\n chunked", b"Content-Length: 5"],
    "nul_in_value": [b"Content-Length: 5\0"],
    "bare_line_feed": [b"X: y\nTransfer-Encoding: chunked", b"Content-Length: 5"],
    "negative_chunk": [b"Transfer-Encoding: chunked"],
}
for name, headers in list(AMBIGUOUS.items()) * ROUNDS:
    first = {"negative_chunk": b"-5\r\n"}.get(name, b"0\r\n\r\n")
    raw = (b"POST /api/v1/push/n HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(headers) +
           b"\r\n\r\n" + first + SMUGGLED)
    answer = exchange(raw)
    check(answer.startswith(b"HTTP/1.1 4"), f"{name}: not refused: {answer[:200]}")
    check(len(re.findall(rb"(?m)^HTTP/1\.1 \d", answer)) == 1,
          f"{name}: what was hidden is answered: {answer[:900]}")
check(server.json("/api/v1/gpus")["total"] == 0, "a smuggled push was taken")

# --- pages of other sites change nothing, by any route that writes ---
WRITES = [("POST", "/api/v1/push/n"), ("POST", "/api/v1/write"), ("POST", "/v1/metrics"),
          ("POST", "/api/v1/jobs/7/mfu"), ("POST", "/api/v1/traces"),
          ("DELETE", "/api/v1/traces/20260101-000000-abcdef"), ("POST", "/api/v1/sql")]
FOREIGN = [b"Origin: http://evil.example", b"Origin: null", b"Sec-Fetch-Site: cross-site",
           b"Sec-Fetch-Site: same-site", b"Origin: http://localhost.evil.example",
           b"Origin: http://localhost:1"]
body = gpu("GPU-forged")
for method, path in WRITES * ROUNDS:
    for says in FOREIGN:
        answer = exchange(b"%s %s HTTP/1.1\r\nHost: localhost:%d\r\n%s\r\nContent-Type: "
                          b"text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" %
                          (method.encode(), path.encode(), server.port, says, len(body)) + body)
        check(answer.startswith(b"HTTP/1.1 403 "), f"{method} {path} with {says}: {answer[:200]}")
        check(b"access-control-allow" not in answer.lower(), f"{path} lets {says} read")
preflight = exchange(b"OPTIONS /api/v1/push/n HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                     b"http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
                     b"Connection: close\r\n\r\n")
check(b"access-control-allow" not in preflight.lower(), f"a preflight is granted: {preflight}")
check(server.json("/api/v1/gpus")["total"] == 0, "a page of another site pushed a GPU")

# --- markup in every name: nothing that a browser takes for a document carries it ---
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"
text = gpu("GPU-" + MARKUP, Hostname=MARKUP, modelName=MARKUP, hpc_job=MARKUP, user=MARKUP)
answer = exchange(b"POST /api/v1/push/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                  b"Connection: close\r\n\r\n" % len(text) + text)
check(answer.startswith(b"HTTP/1.1 200 "), f"the push is not taken: {answer}")
until(lambda: server.json("/api/v1/gpus")["total"] == 1, "the GPU is known")
for path in ("/", "/jobs/" + "%3Cscript%3Ealert(1)%3C/script%3E", "/api/v1/gpus", "/api/v1/jobs",
             "/api/v1/jobs/%3Cscript%3E", "/api/v1/nothing%3Cscript%3E", "/api/v1/status",
             "/api/v1/targets", "/metrics", "/openapi.json",
             "/api/v1/sql?q=SELECT%20'%3Cscript%3E'"):
    answer = exchange(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" %
                      path.encode())
    head, _, shown = answer.partition(b"\r\n\r\n")
    kind = (re.search(rb"(?im)^content-type: *([^\r;]*)", head) or [b"", b""])[1]
    check(re.search(rb"(?im)^x-content-type-options: *nosniff", head), f"{path}: {head}")
    if kind == b"text/html":
        check(b"content-security-policy: default-src 'none'" in head.lower(), f"{path}: {head}")
        check(b"alert(1)" not in shown and b"onerror=alert" not in shown, f"{path} shows markup")
    else:
        check(kind in (b"application/json", b"text/plain"), f"{path} is {kind}")

others.close()
print(f"{len(AMBIGUOUS)} ambiguous requests, {len(WRITES) * len(FOREIGN)} of other sites: at most "
      f"{rss() >> 20} MiB")
check(rss() < MAX_RSS, f"{rss()} bytes of memory")
check(server.stop(10) == 0, "it did not stop")
