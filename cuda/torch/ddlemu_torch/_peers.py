# SPDX-License-Identifier: Apache-2.0
"""The processes of the other ranks: whether they live, and how far they are.

All ranks of an emulated fabric are on one host. So a process watches its peers itself, by pidfd. This finds the death of
a rank at once and names it, also where NCCL itself would wait for ever: between ranks of one node, and while a
communicator is made.
"""

import json
import os
import threading
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import _board


class Identity(NamedTuple):
    """What a process tells its peers about itself."""

    rank: int  # global rank
    pid: int
    start: int  # start time, so that a later process with the same pid is not taken for this one
    namespace: str  # of pids
    board: int  # file descriptor of its board

    def to_json(self) -> str:
        """Encode for the store."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> "Identity":
        """Decode what to_json has encoded."""
        return cls(*json.loads(text))


class Peer:
    """The process of another rank."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.rank = identity.rank
        self.dead = False
        # In another pid namespace (another container) the pid means nothing here.
        self.watched = identity.namespace == _namespace()
        self.descriptor = self._open() if self.watched else -1
        self._board: Optional[_board.PeerBoard] = None
        if self.watched and not self.dead:
            self._board = _board.open_board(identity.pid, identity.board)

    def _open(self) -> int:
        """Return a pidfd, or -1 if the process is dead."""
        try:
            descriptor = os.pidfd_open(self.identity.pid)
        except ProcessLookupError:
            self.dead = True
            return -1
        # The pid may have been given to another process before it was opened.
        if _stat(self.identity.pid)[1] != self.identity.start:
            os.close(descriptor)
            self.dead = True
            return -1
        return descriptor

    def state(self) -> str:
        """Say what the operating system does with the process: "lives", "is stopped" or "died"."""
        if self.dead:
            return "died"
        if not self.watched:
            return "lives"
        state, start = _stat(self.identity.pid)
        if start != self.identity.start or state in "ZX":
            return "died"
        return "is stopped" if state in "Tt" else "lives"

    def waits(self) -> List[str]:
        """Return what the threads of the process wait for, as far as this can be read."""
        return [] if self._board is None else self._board.waits()

    def causes(self) -> List[str]:
        """Return why communicators of the process have failed, as far as this can be read."""
        return [] if self._board is None else self._board.causes()

    def death(self) -> str:
        """Say how a process that has died ended: "died", or that one of its communicators had failed before, and why."""
        return "".join(f"failed: {cause}" for cause in self.causes()[:1]) or "died"

    def slot(self, number: int) -> Optional[_board.Slot]:
        """Return the process's slot with a number, or None if it cannot be read."""
        return None if self._board is None else self._board.slot(number)


def _stat(pid: int) -> Tuple[str, int]:
    """Return the state and the start time of a process, or ("X", 0) if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[19])


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


class Process:
    """What this process tells its peers, and all its peers. Groups share them."""

    def __init__(self) -> None:
        self.board = _board.Board()
        self.gpu_failed = False  # a kernel of this process has failed
        self._lock = threading.Lock()
        self._peers: Dict[Identity, Peer] = {}

    def identity(self, rank: int) -> Identity:
        """Return the identity of this process, which has a global rank."""
        pid = os.getpid()
        return Identity(rank, pid, _stat(pid)[1], _namespace(), self.board.descriptor)

    def peer(self, identity: Identity) -> Peer:
        """Return the peer with this identity."""
        with self._lock:
            if identity not in self._peers:
                self._peers[identity] = Peer(identity)
            return self._peers[identity]

    def peers(self) -> List[Peer]:
        """Return all peers."""
        with self._lock:
            return list(self._peers.values())
