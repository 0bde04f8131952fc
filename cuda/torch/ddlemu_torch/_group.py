# SPDX-License-Identifier: Apache-2.0
"""A process group: its communicators, and how an operation is started on them."""

import os
import threading
import time
import weakref
from collections import Counter
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import _check
from ._board import MOST_SIZES
from ._calls import Operation, run
from ._communicator import Communicator, Member
from ._errors import DdlemuError, refuse
from ._exchange import Exchange
from ._peers import Identity
from ._runtime import announce, call_at_exit, check_gpu, runtime, was_forked
from ._self_messages import SelfMessages
from ._signature import signature_of
from ._torch_version import version
from ._work import Work

_DESTROY_LIMIT = 10.0  # seconds that destroy_process_group waits until peers have what was sent to them

# How often this process has made a group with this name. The ranks of a group make it equally often, so they can use one
# store for all of these groups.
_generations: "Counter[str]" = Counter()
_groups: "weakref.WeakSet[Group]" = weakref.WeakSet()


def groups() -> "List[Group]":
    """Return the groups of this process that a program still refers to."""
    return list(_groups)


@call_at_exit
def _close_all(limit: float) -> None:
    """Close each group. Wait for each at most limit seconds."""
    for group in groups():
        group.close(limit)


def attempt() -> str:
    """Return how often torchrun has started the ranks again: it may give them the store of those before, with its values.

    The number is that of an agent. Several agents may differ, and then it cannot be used.
    """
    alone = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if alone else "0"


class Group:
    """The communicators of a process group, which are made when they are first used. Safe for concurrent use."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str, global_ranks: Sequence[int],
                 own_rank: int, generation: Optional[int] = None) -> None:
        """generation is different for each group of a name and a store. By default the ranks make these equally often."""
        self.rank, self.size, self.name = rank, size, name
        self.timeout = timeout.total_seconds()
        self.members = [Member(i, r) for i, r in enumerate(global_ranks)]
        self.closed = False
        self.monitored_barriers = 0  # that this rank has called
        self.work_type: Callable[..., Work] = Work
        if not global_ranks:
            self.members = [Member(i, i) for i in range(size)]
            announce(rank, size)
        self._runtime = runtime()
        self._lock = threading.RLock()
        self._main: Optional[Communicator] = None
        self._pairs: Dict[int, Communicator] = {}  # by the other rank
        self._to_itself: Optional[Communicator] = None  # of the messages of this rank to itself, without NCCL
        self._self_messages = SelfMessages()
        self._batch: Optional[Batch] = None
        self._is_eager = False
        self._identities: Dict[int, Identity] = {}  # by rank, as far as they were asked for
        if generation is None:
            generation = _generations[name]
            _generations[name] += 1
        self.exchange = Exchange(store, f"{attempt()}/{name}/{generation}", rank)
        # Rank 0 may host the store. When that ends first, a thread of the other processes spins in torch below 2.1.
        # A thread that runs keeps the virtual clock from going on.
        self._leaves_last = rank == 0 and not global_ranks and version() < (2, 1)
        self.check = _check.make(self.exchange, size)
        if size > 1:
            check_gpu(own_rank)
            self.exchange.post("process", self._runtime.process.identity(own_rank).to_json())
        self._gpu = own_rank
        _groups.add(self)

    # Starting operations.

    def start(self, operation: Operation) -> Optional[Work]:
        """Start an operation of all ranks of the group. In a batch there is no work yet."""
        if self._batch:
            return self._batch.add(operation)
        communicator = self.communicator(operation.name)
        work = self._work(communicator, operation)
        if self.check:
            self.check.compare(operation, communicator, work.limit)
        communicator.launch(work, lambda handle, stream: run(operation.calls, communicator, handle, stream))
        self._runtime.watchdog.wake()
        return work

    def start_pair(self, operation: Operation, peer: int) -> Optional[Work]:
        """Start a send to another rank of the group, or a receive. Outside of a batch each pair of ranks has a communicator.

        As in c10d's backend for NCCL the first call of a pair returns when the other rank has made its own. NCCL executes
        the calls of a communicator one after the other, in both directions. In a group that connects eagerly the
        communicator is that of all ranks.
        """
        if self._batch:
            return self._batch.add(operation)
        communicator = self.communicator() if self._is_eager else self._connected_pair(peer, operation.name)
        work = self._work(communicator, operation)
        communicator.launch(work, lambda handle, stream: run(operation.calls, communicator, handle, stream))
        self._runtime.watchdog.wake()
        return work

    def start_to_itself(self, operation: Operation, is_send: bool) -> Optional[Work]:
        """Start a send of this rank to itself, or its receive. The output is its tensor."""
        work = self._work(self._communicator_to_itself(), operation)
        start = self._self_messages.send if is_send else self._self_messages.receive
        start(work, operation.outputs[0])
        if self._batch:
            return self._batch.add_to_itself(work)
        return work

    def finish_alone(self, operation: str, outputs: Sequence[Any]) -> Work:
        """Return the work of an operation that is complete, as those of a group of one rank are."""
        work = self.work_type(self.communicator(), operation, outputs, self.timeout)
        work.launched(None)
        return work

    def start_batch(self) -> None:
        """From now on, collect operations instead of starting them."""
        if self._batch:
            raise refuse("start_coalescing", "the operations of another block are not started yet: end it first")
        self._batch = Batch()

    def drop_batch(self) -> None:
        """Forget the operations that were collected."""
        self._batch = None

    def end_batch(self) -> Work:
        """Start the operations that were collected, as one group of NCCL."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.check_to_itself()
        if batch is not None and batch.to_itself and not batch.operations:
            return batch.to_itself[-1]
        if batch is None or not batch.operations:
            return self.finish_alone("end_coalescing", [])
        return self.start(batch.operation())

    def _work(self, communicator: Communicator, operation: Operation) -> Work:
        work = self.work_type(communicator, operation.name, operation.outputs, self.seconds(operation.timeout))
        work.keep(operation.calls)
        work.messages = [m._replace(member=communicator.rank_of(m.member)) for m in operation.messages]
        for action in operation.actions:
            work.when_complete(action)
        if operation.signature:
            work.signature = signature_of(operation.signature)
            if self.size <= MOST_SIZES:
                work.sends, work.receives = operation.sends, operation.receives
        return work

    def sequence(self) -> int:
        """Return how many collectives this rank has started."""
        return self._main.launches if self._main else 0

    def seconds(self, timeout: Optional[timedelta]) -> float:
        """Return a timeout of an operation's options, or the group's if that is not set."""
        seconds = timeout.total_seconds() if timeout is not None else 0
        return seconds if seconds > 0 else self.timeout

    def dead(self, ranks: Sequence[int]) -> List[int]:
        """Return those ranks of the group that are known to have died."""
        for rank in ranks:
            if rank not in self._identities and self.exchange.posted("process", rank):
                self._identities[rank] = Identity.from_json(self.exchange.get("process", rank))
        known = [rank for rank in ranks if rank in self._identities]
        return [rank for rank in known if self._runtime.process.peer(self._identities[rank]).state() == "died"]

    # Communicators.

    def communicator(self, operation: str = "the first call") -> Communicator:
        """Return the communicator of all ranks. The first call makes it, together with the other ranks."""
        runtime()  # raises in a forked child
        if self._main is not None:
            return self._main
        with self._lock:
            if self._main is None:
                communicator = self._new(f"group {self.name}", self.members)
                if self.size > 1:
                    communicator.connect(self.exchange, "all", self._gpu, time.monotonic() + self.timeout, operation)
                self._main = communicator
            return self._main

    def connect_eagerly(self) -> None:
        """Make the communicator now, and use it for sends and receives outside of batches too."""
        self._is_eager = True
        self.communicator()

    def has_communicator(self) -> bool:
        """Return whether the group has made its first communicator."""
        return bool(self._communicators())

    def _connected_pair(self, peer: int, operation: str) -> Communicator:
        """Return the communicator of this rank and a peer. The first call makes it, together with the peer."""
        runtime()  # raises in a forked child
        first, second = sorted([self.rank, peer])
        communicator = self._pair(peer)
        communicator.connect(self.exchange, f"pair/{first}/{second}", self._gpu, time.monotonic() + self.timeout, operation)
        return communicator

    def _pair(self, peer: int) -> Communicator:
        with self._lock:
            if peer not in self._pairs:
                members = [self.members[rank] for rank in sorted([self.rank, peer])]
                title = f"the pair {members[0].global_rank} and {members[1].global_rank} of group {self.name}"
                self._pairs[peer] = self._new(title, members)
            return self._pairs[peer]

    def _new(self, title: str, members: List[Member]) -> Communicator:
        if self.closed:
            raise DdlemuError(f"ddlemu: group {self.name} was destroyed")
        rank = next(i for i, m in enumerate(members) if m.group_rank == self.rank)
        communicator = Communicator(self._runtime.library, self._runtime.process, title, members, rank)
        communicator.busy = len(members) > 1  # it will be connected
        self._runtime.watchdog.add(communicator)
        return communicator

    def _communicator_to_itself(self) -> Communicator:
        runtime()  # raises in a forked child
        with self._lock:
            if self._to_itself is None:
                own = self.members[self.rank]
                self._to_itself = self._new(f"rank {own.global_rank} to itself in group {self.name}", [own])
            return self._to_itself

    def _communicators(self) -> List[Communicator]:
        single = [c for c in (self._main, self._to_itself) if c]
        return single + list(self._pairs.values())

    # The end.

    def abort(self) -> None:
        """Abort all operations that are in flight. The group cannot be used any more."""
        self.closed = True
        if was_forked():
            return
        for communicator in self._communicators():
            communicator.fail("the process group was aborted", look_for_death=False)
        self.close(0)

    def close(self, limit: float = _DESTROY_LIMIT) -> None:
        """Destroy the communicators. Wait at most limit seconds until peers have what this rank has sent."""
        if was_forked():
            return
        self.closed = True
        end = time.monotonic() + limit
        with self._lock:
            communicators = self._communicators()
            main, self._main, self._to_itself = self._main, None, None
            self._pairs.clear()
        for communicator in communicators:
            last = communicator is main and self._leaves_last
            communicator.close(max(0.0, end - time.monotonic()), last)
            self._runtime.watchdog.remove(communicator)


class Batch:
    """Operations that are started together."""

    def __init__(self) -> None:
        self.operations: List[Operation] = []
        self.to_itself: List[Work] = []  # messages of this rank to itself

    def add(self, operation: Operation) -> None:
        """Add an operation. It has no work of its own."""
        self.operations.append(operation)

    def add_to_itself(self, work: Work) -> None:
        """Add a message of this rank to itself, which is complete if its partner was added before."""
        self.to_itself.append(work)

    def check_to_itself(self) -> None:
        """Refuse a message of this rank to itself that has no partner."""
        for work in self.to_itself:
            if not work.complete:
                raise refuse(work.operation, "it is to this rank itself, and its partner is not in the batch")

    def operation(self) -> Operation:
        """Return all as one operation."""
        ops = self.operations
        timeouts = [op.timeout for op in ops if op.timeout is not None]
        return Operation(
            name="coalesced " + ", ".join(sorted({op.name for op in ops})),
            calls=[call for op in ops for call in op.calls],
            outputs=[output for op in ops for output in op.outputs],
            actions=[action for op in ops for action in op.actions],
            timeout=max(timeouts) if timeouts else None,
            signature=tuple(op.signature for op in ops if op.signature),
            messages=[message for op in ops for message in op.messages],
        )
