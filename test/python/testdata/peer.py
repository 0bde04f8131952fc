# SPDX-License-Identifier: Apache-2.0
"""Rank 1: sends back what it receives, on LINKS links."""

import os
import sys
import threading

import goemu

plugin = goemu.Plugin().init()
links = [plugin.link(sys.stdin, sys.stdout) for _ in range(int(os.environ.get("LINKS", "1")))]
threads = [threading.Thread(target=link.serve) for link in links[1:]]
for thread in threads:
    thread.start()
try:
    links[0].serve()
except goemu.NetError as e:
    print(f"peer: {e}", file=sys.stderr)
    sys.exit(3)
for thread in threads:
    thread.join()
for link in links:
    link.close()
