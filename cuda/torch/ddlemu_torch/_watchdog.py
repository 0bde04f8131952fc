# SPDX-License-Identifier: Apache-2.0
"""The thread that notices errors which no other thread is waiting for.

It sleeps while nothing is in flight. Else it looks five times a second: at the processes of the peers, at NCCL's errors,
and at the time limits, and once more at the end of the grace after a death. It leaves an operation alone that was started
less than a fifth of a second ago.
"""

import os
import select
import threading
import time
from typing import Dict, List, Optional

from ._communicator import Communicator
from ._peers import Peer, Process

_TICK = 0.2  # seconds
_GRACE = 0.3  # seconds that an operation has for its end after a member has died


class Watchdog:
    """Watches the communicators of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._communicators: List[Communicator] = []
        self._deaths: Dict[int, float] = {}  # by process: when the death was noticed
        self._asleep = False
        self._wake_in, self._wake_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        threading.Thread(target=self._run, name="ddlemu-watchdog", daemon=True).start()

    def add(self, communicator: Communicator) -> None:
        """Watch a communicator."""
        with self._lock:
            self._communicators.append(communicator)
        self.wake()

    def remove(self, communicator: Communicator) -> None:
        """Stop to watch a communicator."""
        with self._lock:
            self._communicators.remove(communicator)

    def wake(self) -> None:
        """Tell the watchdog that something is in flight."""
        if self._asleep:
            self._asleep = False
            os.write(self._wake_out, b"x")

    def _run(self) -> None:
        while True:
            self._asleep = True
            busy = any(c.works or c.busy for c in self._snapshot())
            if busy:
                self._asleep = False
            self._sleep(self._next_look() if busy else None)
            for communicator in self._snapshot():
                self._look(communicator)

    def _next_look(self) -> float:
        """Return in how many seconds to look again while something is in flight."""
        now = time.monotonic()
        return min([_TICK] + [died + _GRACE - now for died in self._deaths.values() if died + _GRACE > now])

    def _snapshot(self) -> List[Communicator]:
        with self._lock:
            return list(self._communicators)

    def _sleep(self, limit: Optional[float]) -> None:
        """Sleep until a peer dies, wake is called, or the limit in seconds is over."""
        poll = select.poll()
        poll.register(self._wake_in, select.POLLIN)
        peers: Dict[int, Peer] = {}
        for peer in self._process.peers():
            if peer.descriptor >= 0 and not peer.dead:
                peers[peer.descriptor] = peer
                poll.register(peer.descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(None if limit is None else limit * 1000):
            if descriptor == self._wake_in:
                os.read(self._wake_in, 4096)
            else:
                peers[descriptor].dead = True

    def _look(self, communicator: Communicator) -> None:
        """Fail a communicator for which there is a reason."""
        if communicator.failing:
            return
        now = time.monotonic()
        dead = [peer for peer in list(communicator.peers.values()) if peer.dead]
        if dead:
            since = min(self._deaths.setdefault(peer.identity.pid, now) for peer in dead)
            if not communicator.lost:  # members that die later may do so because of this
                names = ", ".join(f"rank {peer.rank} {peer.death()}" for peer in sorted(dead, key=lambda p: p.rank))
                communicator.lost = communicator.failure_of_members() or names
            if communicator.busy or now - since >= _GRACE:
                communicator.purge()
                if communicator.works or communicator.busy:
                    communicator.fail(communicator.lost)
            return
        if communicator.works and communicator.works[0].started < now - _TICK:
            communicator.purge()
            if communicator.works:
                communicator.check()
        elif communicator.busy:
            communicator.check_members()
