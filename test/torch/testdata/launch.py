# SPDX-License-Identifier: Apache-2.0
"""A plain launcher: launch.py N SCRIPT ARGUMENTS starts N ranks. Its exit status is the first rank's that is not 0."""

import os
import socket
import subprocess
import sys


def main():
    count = int(sys.argv[1])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ranks = []
    for rank in range(count):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        # Debian's torch 2.6 and 2.14 have no libuv, and their store asks for it.
        environment = {"USE_LIBUV": "0", **os.environ, **{name: str(value) for name, value in variables.items()}}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv[2:]], env=environment))
    statuses = [rank.wait() for rank in ranks]
    sys.exit(next((s if s > 0 else 128 - s for s in statuses if s), 0))


main()
