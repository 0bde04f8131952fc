# SPDX-License-Identifier: Apache-2.0
"""A plain launcher, for a torch whose torchrun does not start.

    python -m ddlemu_torch.launch --nproc-per-node 2 train.py ARGUMENTS

starts a program once for each rank, with the variables that torch.distributed reads. When a rank fails, the others have
some seconds to say why they cannot go on, then they are ended. The exit status is that of the rank that failed first.
It needs no torch itself, so this file can also be run.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import time
from typing import Any, List

_PORT = 29500  # with several nodes, where all have to know it
_PORT_TRIES = 100
_POLL = 0.02  # seconds
_PATIENCE = 5.0  # seconds that the others have after a rank has failed
_GRACE = 5.0  # seconds that they then have to end, before they are killed
_SAME_INTERRUPT = 1.0  # seconds after that of the terminal, in which `ddlemu run` passes on the one that it got too


def main() -> int:
    """Launch what the command line says. Return the exit status."""
    options = _arguments()
    port = options.master_port or (_free_port() if options.nnodes == 1 else _PORT)
    ranks: List[subprocess.Popen] = []

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: _send(ranks, number))
    interrupts = _Interrupts()
    for local in range(options.nproc_per_node):
        ranks.append(_start(options, local, port, interrupts))
    return _wait(ranks, interrupts)


class _Interrupts:
    """Passes on SIGINT that a process has sent to this launcher alone.

    A terminal sends SIGINT to the ranks too, and a second one would interrupt what they do at their end. Only the kernel
    says who has sent a signal, and only to a process that waits for it instead of handling it.
    """

    def __init__(self) -> None:
        self.ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # as in the background of a shell
        self.by_terminal = -_SAME_INTERRUPT  # when the terminal sent the last one
        if not self.ignored:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def allow(self) -> None:
        """Let this process, a rank before it begins, get SIGINT again."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def pass_on(self, ranks: List[subprocess.Popen], seconds: float) -> None:
        """Wait this long, or for one SIGINT."""
        if self.ignored:
            time.sleep(seconds)
            return
        received = signal.sigtimedwait({signal.SIGINT}, seconds)
        if received is None:
            return
        if received.si_code > 0:  # of the kernel, for the terminal
            self.by_terminal = time.monotonic()
        elif time.monotonic() > self.by_terminal + _SAME_INTERRUPT:
            _send(ranks, signal.SIGINT)


def _start(options: argparse.Namespace, local: int, port: int, interrupts: _Interrupts) -> subprocess.Popen:
    count = options.nproc_per_node
    variables = {"RANK": options.node_rank * count + local, "WORLD_SIZE": options.nnodes * count,
                 "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": options.master_addr, "MASTER_PORT": port}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    if count > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does, so that ranks do not share a core
    return subprocess.Popen([sys.executable, *(["-m"] if options.module else []), options.program, *options.arguments],
                            env=environment, preexec_fn=interrupts.allow)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ddlemu_torch.launch", description="Start a program on each rank.")
    parser.add_argument("--nproc-per-node", type=int, default=1, metavar="N", help="number of ranks of a node")
    parser.add_argument("--nnodes", type=int, default=1, metavar="M", help="number of nodes, each with a launcher")
    parser.add_argument("--node-rank", type=int, default=0, metavar="I", help="this node: 0 to M-1")
    parser.add_argument("--master-addr", default="127.0.0.1", metavar="NAME", help="address of node 0")
    parser.add_argument("--master-port", type=int, default=0, metavar="PORT",
                        help=f"default: one that is free; with several nodes {_PORT}")
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="the file of the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS")
    options = parser.parse_args()
    if options.nproc_per_node < 1:
        parser.error(f"--nproc-per-node {options.nproc_per_node}: at least 1")
    if not 0 <= options.node_rank < options.nnodes:
        parser.error(f"--node-rank {options.node_rank}: must be 0 to {options.nnodes - 1}, because --nnodes is {options.nnodes}")
    return options


def _free_port() -> int:
    """Return a port that is free, and that the kernel gives to no other socket before rank 0 listens there.

    It gives ports of its own range to sockets that ask for none. Below the range only a program that names the port takes it.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    for port in random.sample(range(first // 2, first), k=min(_PORT_TRIES, first - first // 2)):
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:  # in use, or for root only
                continue
            return port
    sys.exit(f"no port of {first // 2} to {first - 1} is free: give --master-port")


def _wait(ranks: List[subprocess.Popen], interrupts: _Interrupts) -> int:
    """Wait for all ranks. Return 0, or the status of the rank that failed first, as a shell would tell it."""
    failed, since = 0, 0.0
    while any([rank.poll() is None for rank in ranks]):
        if not failed:
            failed, since = _failure(ranks), time.monotonic()
        elif time.monotonic() > since + _PATIENCE + _GRACE:
            _send(ranks, signal.SIGKILL)
        elif time.monotonic() > since + _PATIENCE:
            _send(ranks, signal.SIGTERM)
        interrupts.pass_on(ranks, _POLL)
    failed = failed or _failure(ranks)
    return failed if failed >= 0 else 128 - failed


def _failure(ranks: List[subprocess.Popen]) -> int:
    """Return the status of a rank that has failed, or 0."""
    return next((rank.returncode for rank in ranks if rank.returncode), 0)


def _send(ranks: List[subprocess.Popen], number: int) -> None:
    for rank in ranks:
        if rank.poll() is None:
            rank.send_signal(number)


if __name__ == "__main__":
    sys.exit(main())
