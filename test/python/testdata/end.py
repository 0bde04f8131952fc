# SPDX-License-Identifier: Apache-2.0
"""The end of a rank with open connections: it does not crash, and its peer gets an error
and does not hang. Prints how both ended."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import goemu


def returns(plugin, link):
    link.irecv()
    link.isend(b"on its way")


poll = ctypes.CDLL(os.environ["POLL"])


def polled(plugin, link):
    """NCCL's progress thread goes on while the process ends."""
    goemu.check("poll", poll.poll_request(plugin.net.test, link.irecv()))
    time.sleep(0.1)


def polled_through_python(plugin, link):
    """A daemon thread of Python goes on while the process ends."""
    request = link.irecv()
    threading.Thread(target=lambda: goemu.until(lambda: link.done(request), "nothing"), daemon=True).start()
    time.sleep(0.1)


def leave_worker():
    """Leaves a data loader, with all it inherited, until the test is over."""
    if os.fork() == 0:
        os.read(int(os.environ["OVER"]), 1)
        os._exit(0)


def returns_with_worker(plugin, link):
    leave_worker()


def killed_with_worker(plugin, link):
    leave_worker()
    os.kill(os.getpid(), signal.SIGKILL)


def killed(plugin, link):
    os.kill(os.getpid(), signal.SIGKILL)


def rank0(case):
    plugin = goemu.Plugin().init()
    link = plugin.link(sys.stdin, sys.stdout)
    link.exchange()
    globals()[case](plugin, link)


def both(case):
    here = os.path.dirname(__file__)
    over, stop = os.pipe()
    in0, out1 = os.pipe()
    in1, out0 = os.pipe()
    env = {**os.environ, "OVER": str(over)}
    first = subprocess.Popen([sys.executable, __file__, "rank0", case], stdin=in0, stdout=out0, env=env, pass_fds=[over])
    peer = subprocess.Popen([sys.executable, os.path.join(here, "peer.py")], stdin=in1, stdout=out1, env={**env, "RANK": "1"})
    print(f"rank 0: {first.wait(goemu.PATIENCE)}, rank 1: {peer.wait(goemu.PATIENCE)}")
    os.close(stop)


if sys.argv[1] == "rank0":
    rank0(sys.argv[2])
else:
    both(sys.argv[1])
