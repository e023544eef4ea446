"""10,000 connections that say nothing, and as many that say half of a request, leave the server
answering others."""
import resource
import socket
import sys
import time

from harness import SKIP, Process, check, scratch
from others import Others

MANY = 10_000
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if hard != resource.RLIM_INFINITY and hard < MANY + 1000:
    print(f"skipped: {MANY} connections need more open files than the {hard} allowed here")
    sys.exit(SKIP)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MANY + 2000) if hard > 0 else MANY + 2000,
                                            hard))

server = Process("serve", "--data-dir", scratch(), "--listen", "127.0.0.1:0", "--no-page",
                 "--target", "127.0.0.1:1")

for says in (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "):
    held = []
    with Others(server.url, f"{MANY} connections that say {len(says)} bytes"):
        for _ in range(MANY):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            try:
                s.sendall(says)
            except OSError:
                pass
            held.append(s)
        time.sleep(2)  # all of them are there
    for s in held:
        s.close()
rss = [int(line.split()[1]) for line in open(f"/proc/{server.process.pid}/status")
       if line.startswith("VmRSS")][0]
check(rss < 1536 * 1024, f"the server takes {rss} KiB")
check(server.stop(10) == 0, "it did not stop")
