# SPDX-License-Identifier: Apache-2.0
"""What a launcher has to handle, without torch: launched.py fail lets rank 1 fail; sleep waits for a signal; count says
for a second how many SIGINT came; port prints that of the store."""

import os
import signal
import sys
import time


def say(*words):
    sys.stdout.write(" ".join(["rank", os.environ["RANK"], *words]) + "\n")
    sys.stdout.flush()


def end(number, _):
    say("got", signal.Signals(number).name)
    os._exit(5)


if sys.argv[1] == "port":
    sys.exit(say(os.environ["MASTER_PORT"]))
if sys.argv[1] == "count":
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(time.monotonic()))
    say("ready")
    while not got or time.monotonic() < got[0] + 1:
        time.sleep(0.01)
    sys.exit(say("got", str(len(got))))
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
say("ready")
if sys.argv[1] == "fail" and os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(60)
