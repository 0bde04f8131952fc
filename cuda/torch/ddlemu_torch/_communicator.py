# SPDX-License-Identifier: Apache-2.0
"""A communicator of NCCL with its stream, and what happens when it fails.

A communicator is made with blocking = 0: a call that would wait for a peer returns ncclInProgress. So no thread is ever
inside a call of NCCL for long, and the communicator can be aborted.

When it fails, `failing` is set first. A thread then looks for the cause, notes which operations were complete, and
aborts. An operation whose event is signaled after that has not ended well.
"""

import ctypes
import itertools
import os
import threading
import time
from collections import deque
from ctypes import c_int, c_void_p
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Set

from ._board import Message, Slot, mark
from ._errors import DdlemuError, Late
from ._exchange import Exchange
from ._library import IN_PROGRESS, NOT_READY, SUCCESS, Library, UniqueId
from ._pauses import Pauses
from ._peers import Identity, Peer, Process
from ._types import type_name
from ._work import Work

_MOST_WORKS = 256  # operations that are queued. NCCL's own queue has room for more.
_DEATH = 0.5  # seconds in which the death of a peer is found after NCCL has noticed an error
_STOP = 2.0  # seconds within which an aborted communicator usually stops
_KERNEL_STOP = 0.2  # the same after an error of a kernel: then CUDA does not say any more what is complete
_FAILED = " failed: "
_DEADLOCK = "deadlock"
_POLL = 0.0001  # seconds
_LONGEST_PAUSE = 0.01  # seconds. A virtual clock goes on while a thread sleeps for more than 4 ms.
_YIELDS = 200  # looks before the first pause. A thread of NCCL 2.29 takes some 100 us to launch an operation.


class Member(NamedTuple):
    """A rank of a communicator."""

    group_rank: int
    global_rank: int


class Communicator:
    """A communicator of some ranks of a group. Safe for concurrent use."""

    def __init__(self, library: Library, process: Process, title: str, members: List[Member], rank: int) -> None:
        self.library = library
        self.title = title  # such as "group 0" or "the pair 0 to 1 of group 0", for messages
        self.members = members  # by their rank in the communicator
        self.rank = rank
        self.own_rank = members[rank].global_rank
        self.works: Deque[Work] = deque()
        self.launches = 0
        self._launching: List[Work] = []  # the one that NCCL is being called for
        self.busy = False  # it is being made, or NCCL is being called
        self.failing = False
        self.lost = ""  # set by the watchdog, such as "rank 1 died"
        self.peers: Dict[int, Peer] = {}  # by global rank, without this process
        self._slots: Dict[int, Slot] = {}  # the peers' slots, by global rank, as far as they can be read
        self._process = process
        self._slot = process.board.take()
        self._index = {member.global_rank: i for i, member in enumerate(members)}
        self._completions = 0
        self._sent, self._receiving = [0] * len(members), [0] * len(members)  # messages by member
        self._threads: Set[int] = set()  # that have called collectives
        self._order = self._done = 0  # operations that were launched, and how many of these are complete
        self._connecting = threading.Lock()
        self._connected = False
        self._waiting: Optional[Work] = None  # the last one for which a thread waits
        self._handle: Optional[c_void_p] = None
        self._stream: Optional[c_void_p] = None
        self._events: List[c_void_p] = []
        self._lock = threading.Lock()  # held while NCCL is called
        self._state = threading.Lock()  # of failing and of the counters
        self._cause = ""
        self._diagnosed = threading.Event()
        self._stopped = threading.Event()
        self._kernel_failed = False
        self._drained: Optional[c_void_p] = None  # an event after all operations of a failed communicator
        self._closed = False
        self._released = False

    # Making it.

    def connect(self, exchange: Exchange, name: str, device: int, deadline: float, operation: str) -> None:
        """Make the communicator together with the other members, who call this with the same name, unless it is made.

        operation is what the program has called, for messages.
        """
        if self._connected:
            return
        with self._connecting:
            if self._connected:
                return
            try:
                self._slot.write_wait(f"{operation} of {self.title}, which makes a communicator")
                self._raise_if_failing()
                self._initialise(self._meet(exchange, name, deadline), device, deadline)
                self._slot.write_wait("")
            except DdlemuError as error:
                self.fail(str(error), look_for_death=not isinstance(error, Late))
                self.await_stop()
                raise DdlemuError(f"ddlemu: make the communicator of {self.title} for {operation}, on rank "
                                  f"{self.own_rank}: {self.cause()}") from None
            finally:
                self.busy = False
            self._connected = True

    def _meet(self, exchange: Exchange, name: str, deadline: float) -> UniqueId:
        """Learn who the other members are. Return the unique id, which the first member makes."""

        def collect(key: str) -> Dict[int, str]:
            found = exchange.collect(key, [m.group_rank for m in others], poll)
            return {m.global_rank: found[m.group_rank] for m in others}

        def poll(missing: List[int]) -> None:
            self._raise_if_hopeless([m.global_rank for m in others if m.group_rank in missing], deadline)

        others = [m for i, m in enumerate(self.members) if i != self.rank]
        self.peers = {rank: self._process.peer(Identity.from_json(text)) for rank, text in collect("process").items()}
        own = self.library.unique_id().to_bytes().hex() if self.rank == 0 else ""
        exchange.post(name, f"{self._slot.number} {own}")
        values = {rank: text.split(" ") for rank, text in collect(name).items()}
        slots = {rank: self.peers[rank].slot(int(number)) for rank, (number, _) in values.items()}
        self._slots = {rank: slot for rank, slot in slots.items() if slot is not None}
        return UniqueId.from_buffer_copy(bytes.fromhex(own or values[self.members[0].global_rank][1]))

    def _raise_if_hopeless(self, missing: List[int], deadline: float) -> None:
        """Raise if members that have not come need not be waited for any longer."""
        self._raise_if_failing()
        if time.monotonic() > deadline:
            absent = ", ".join(f"rank {rank}" for rank in missing)
            waits = "".join(self._doing(rank, f"; rank {rank}") for rank in missing)
            raise Late(f"timeout: {absent} did not come{waits}")

    def _initialise(self, unique_id: UniqueId, device: int, deadline: float) -> None:
        lib = self.library
        with self._lock:
            lib.check_cuda(lib.cudaSetDevice(device))
            self._handle = c_void_p()
            self.call(lib.ncclCommInitRankConfig, ctypes.byref(self._handle), len(self.members), unique_id, self.rank,
                      ctypes.byref(lib.non_blocking_config()))
            self._settle(deadline)
            self._stream = lib.new_stream()

    def _settle(self, deadline: float, work: Optional[Work] = None) -> None:
        """Wait while NCCL is in progress, for a work if there is one. The caller holds the lock."""
        state = c_int()
        for look in itertools.count():
            self.library.check_nccl(self.library.ncclCommGetAsyncError(self._handle, ctypes.byref(state)))
            if state.value == SUCCESS:
                # NCCL 2.22 keeps the job of a group in memory of the thread that called it, and looks at it at the next
                # call, when this thread may have ended. Any call ends the job now.
                self.library.check_nccl(self.library.ncclCommCount(self._handle, ctypes.byref(state)))
                return
            if state.value != IN_PROGRESS:
                raise DdlemuError(self.library.nccl_error(state.value, self._handle))
            self._raise_if_failing()
            if time.monotonic() > deadline:
                raise Late("timeout: NCCL could not connect the ranks" + (self._who(work) if work else ""))
            if look < _YIELDS:
                os.sched_yield()
            else:
                if work and self._waiting is not work:
                    self.begin_wait(work)
                time.sleep(_POLL)

    # Using it.

    def launch(self, work: Work, call: Callable[[c_void_p, c_void_p], Any]) -> None:
        """Let call start an operation; it gets NCCL's handle and the stream. Raise DdlemuError if that fails.

        An operation without a signature, in which not all members take part, has no sequence number.
        """
        self._make_room()
        try:
            with self._lock:
                self._raise_if_failing()
                self.busy = True
                self._launching = [work]
                event = self._events.pop() if self._events else self.library.new_event()
                self._number(work)
                call(self._handle, self._stream)
                # NCCL connects to a peer at the first send or receive. It may return ncclSuccess before it has.
                self._settle(work.started + work.limit, work)
                self.library.check_cuda(self.library.cudaEventRecord(event, self._stream))
                self.end_wait(work)
                self.works.append(work)
                self._launching = []
                work.launched(event)
        except DdlemuError as error:
            self.fail(str(error), look_for_death=not isinstance(error, Late))
            self.await_stop()
            raise work.error() from None
        finally:
            self.busy = False

    def _number(self, work: Work) -> None:
        """Give a work its numbers and tell the other members what this one is about to call."""
        self._order += 1
        work.order = self._order
        if work.signature:
            self._threads.add(threading.get_ident())
            self.launches += 1
            work.sequence = self.launches
            self._slot.write_call(work.sequence, work.signature.number, work.signature.text, work.sends)
            self._note()
        for i, message in enumerate(work.messages):
            counts = self._sent if message.is_send else self._receiving
            counts[message.member] += 1
            work.messages[i] = message._replace(number=counts[message.member], order=self._order)
            self._slot.write_message(work.messages[i])

    def _raise_if_failing(self) -> None:
        if self.failing or self.lost:
            raise DdlemuError(self.lost or self.cause())

    def rank_of(self, group_rank: int) -> int:
        """Return the rank in this communicator of a rank of the group."""
        return next(i for i, member in enumerate(self.members) if member.group_rank == group_rank)

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Call a function of NCCL and raise DdlemuError if it fails."""
        code = function(*arguments)
        if code not in (SUCCESS, IN_PROGRESS):
            raise DdlemuError(self.library.nccl_error(code, self._handle))

    def _make_room(self) -> None:
        """Let go of the works that have ended, and with them of their tensors. Wait if too many have not."""
        if self.works:
            self.purge()
        while len(self.works) >= _MOST_WORKS and not self.failing:
            self.works[0].await_end()

    def purge(self) -> None:
        """Complete the works that have ended, in their order."""
        for work in list(self.works):
            if not work.query():
                return

    def begin_wait(self, work: Work) -> None:
        """Tell the other ranks that a thread waits for a work."""
        self._waiting = work
        self._slot.write_wait(f"{work.name()} of {self.title}")

    def end_wait(self, work: Work) -> None:
        """Tell the other ranks that the work is complete, unless another thread waits."""
        if self._waiting is work:
            self._waiting = None
            self._slot.write_wait("")

    def completed(self, work: Work, event: c_void_p) -> None:
        """Note that an operation is complete. Its event can be used again."""
        with self._state:
            self._completions = max(self._completions, work.sequence)
            self._done = max(self._done, work.order)
            for message in work.messages:
                if not message.is_send:
                    self._slot.write_received(message)
            self._events.append(event)
            while self.works and self.works[0].complete:
                self.works.popleft()
        self._note()

    def check(self) -> None:
        """Fail if NCCL has noticed an error since the last call, or if an operation is not complete in time."""
        if self._lock.acquire(blocking=False):  # else a thread calls NCCL, and will notice
            try:
                state = c_int()
                if self._handle and not self.failing:
                    self.library.ncclCommGetAsyncError(self._handle, ctypes.byref(state))
                error = self.library.nccl_error(state.value, self._handle) if state.value not in (SUCCESS, IN_PROGRESS) else ""
            finally:
                self._lock.release()
            if error:
                self.fail(error)
        for work in list(self.works):
            difference = self.difference(work)
            if difference:
                self.fail(difference, look_for_death=False)
                return
            if work.overdue() and not work.query():
                self.fail_late(work)
                return
        self.check_members()

    def check_members(self) -> None:
        """Fail if another member has failed, or has left the group without the operations that this one has started."""
        failure = self.failure_of_members()
        if failure:
            self.fail(failure, look_for_death=False)
            return
        for rank, slot in list(self._slots.items()):
            progress = slot.progress()
            if progress.closed and self.works and not self._has_called(self.works[0], self._index[rank], slot):
                self.fail(f"rank {rank} has left the group", look_for_death=False)
                return

    def failure_of_members(self) -> str:
        """Say which other member has failed and why, as "rank 1 failed: ...", or return an empty string.

        A member that failed may have ended since. Its board stays readable.
        """
        for rank, slot in list(self._slots.items()):
            cause = slot.cause()
            if cause:
                return cause if _FAILED in cause else f"rank {rank}{_FAILED}{cause}"
        return ""

    def difference(self, work: Work) -> str:
        """Say how another member's call differs from this one, or return an empty string. A call not made yet is equal."""
        for message in work.messages:
            difference = self._difference_of(message)
            if difference:
                return difference
        if work.signature is None:
            return ""
        number, signature = work.sequence, work.signature
        own = mark(number, signature.number)
        for rank, slot in self._slots.items():
            other = slot.mark(number)
            if other == own:
                if work.receives:
                    sent, expected = slot.sent(number, self.rank), work.receives[self._index[rank]]
                    if sent is not None and sent != expected:
                        return (f"in call number {number} rank {rank} sends {sent} elements to this rank, which expects "
                                f"{expected}")
            elif other >> 32 == number & 0xFFFFFFFF:
                text = slot.text(number) or "something else"
                return (f"in call number {number} this rank called {signature.text.decode()}, but rank {rank} called {text}"
                        f"{self._hint_of_threads()}")
        return ""

    def _difference_of(self, message: Message) -> str:
        """Say how a send of this rank differs from its receive, or the other way, or return an empty string."""
        rank = self.members[message.member].global_rank
        partner = message.partner(self.rank)
        other = self._slots[rank].message(partner.is_send, partner.member, message.number) if rank in self._slots else None
        if other is None or (other.kind, other.elements) == (message.kind, message.elements):
            return ""
        send, receive = (message, other) if message.is_send else (other, message)
        sender, receiver = (self.own_rank, rank) if message.is_send else (rank, self.own_rank)
        return (f"rank {sender} sends {send.elements} elements of {type_name(send.kind)} to rank {receiver}, which receives "
                f"{receive.elements} of {type_name(receive.kind)}: this is send number {send.number}, and recv number "
                f"{receive.number}")

    def _hint_of_threads(self) -> str:
        """Say that threads may have mixed their calls, if several threads have called."""
        if len(self._threads) < 2:
            return ""
        return (f": {len(self._threads)} threads of this rank call this group, in an order that may differ from rank to rank; "
                "on GPUs, 'cpu:gloo,cuda:nccl' gives them two backends: give each thread a group of its own, by new_group")

    def _note(self) -> None:
        self._slot.write(self.launches, self._completions, self._done, self._closed, self._released)

    # When it fails.

    def fail(self, cause: str, look_for_death: bool = True) -> None:
        """Abort the communicator. With look_for_death, the death of a member is the cause if one has died."""
        with self._state:
            if self.failing:
                return
            self.failing = True
        threading.Thread(target=self._abort, args=(cause, look_for_death), name="ddlemu-abort", daemon=True).start()

    def fail_late(self, work: Work) -> None:
        """Abort the communicator because a work is not complete in time. A member that has failed before is the cause."""
        late = f"timeout: it is not complete after {work.limit:.3g} s"
        self.fail(self.failure_of_members() or f"{late}{self._who(work)}", look_for_death=False)

    def cause(self) -> str:
        """Return why the communicator has failed."""
        self._diagnosed.wait()
        return self._cause

    def await_stop(self) -> None:
        """Wait until no operation of a failed communicator touches memory any more. Usually this takes milliseconds.

        NCCL's abort takes longer: it ends when the ranks of the same node have aborted too. Only kernels touch the memory
        of tensors, and they end at once.
        """
        self._diagnosed.wait()
        end = time.monotonic() + (_KERNEL_STOP if self._kernel_failed else _STOP)
        while not self._stopped.wait(_LONGEST_PAUSE) and time.monotonic() < end:
            if self._drained and self.library.cudaEventQuery(self._drained) != NOT_READY:
                return

    def _abort(self, cause: str, look_for_death: bool) -> None:
        difference = ""
        for work in [*self.works, *self._launching]:
            difference = self.difference(work)
            if difference:
                cause = difference if cause == difference else f"{difference} ({cause})"
                break
            if work.ended_before_failure():
                work.finish()
        crossing = "" if difference else self._crossing_of_launch()
        if crossing:
            cause = f"{crossing} ({cause})"
        reason = "" if difference or crossing else self._reason(cause, look_for_death)
        if self._kernel_failed and not reason:
            cause = self._deadlock(cause)
        self._cause = f"{reason} ({cause})" if reason and reason != cause else cause
        self._slot.write_cause(self._cause)
        self._diagnosed.set()
        locked = self._lock.acquire(timeout=_STOP)  # a call of NCCL that does not return is ended by the abort
        handle, self._handle = self._handle, None
        if locked:
            self._lock.release()
        if handle:
            self._drained = self.library.record_end(self._stream) if self._stream else None
            self.library.ncclCommAbort(handle)
        self.works.clear()
        self._release()
        self._stopped.set()

    def _reason(self, cause: str, look_for_death: bool) -> str:
        """Return which other rank is the reason of a failure, or an empty string."""
        if self.lost:
            return self.lost
        self._kernel_failed = self.library.is_launch_timeout(cause)
        self._process.gpu_failed |= self._kernel_failed
        if self._kernel_failed:
            deadlock = any(_DEADLOCK in text for peer in self._process.peers() for text in peer.causes())
            return "" if deadlock else self._find_dead(0) or self._find_dead_elsewhere()
        if look_for_death:
            reason = self.failure_of_members() or self._find_dead(_DEATH)
            return self.failure_of_members() or reason  # a member that has failed, and ended since, has said why
        return self._find_dead(0)

    def _deadlock(self, cause: str) -> str:
        """Say what the other ranks do in a deadlock, of which CUDA says only that a kernel waited for too long."""
        if not self.works:
            return cause
        return f"{_DEADLOCK}: it is not complete, and nothing is left to happen{self._who(self.works[0])}"

    def _crossing_of_launch(self) -> str:
        """Say that NCCL could not connect two ranks because both send first, or both receive first."""
        for work in self._launching:
            for rank, slot in self._slots.items():
                crossing = self._crossing(work, slot)
                if crossing:
                    return f"rank {rank} has called {'send' if work.messages[0].is_send else 'recv'} too{crossing}"
        return ""

    def _find_dead(self, limit: float) -> str:
        """Return which members are gone, such as "rank 1 died", or an empty string if none goes within the limit."""
        end = time.monotonic() + limit
        while True:
            states = [(rank, self._state_of(rank, peer)) for rank, peer in sorted(self.peers.items())]
            # Members may have left because another one died.
            for reason in ("died", "has left the group"):
                gone = [f"rank {rank} {self.peers[rank].death() if reason == 'died' else reason}"
                        for rank, state in states if state == reason]
                if gone:
                    return ", ".join(gone)
            if time.monotonic() > end:
                return ""
            time.sleep(0.01)

    def _find_dead_elsewhere(self) -> str:
        """Return which ranks that are not members died: all ranks of a job fail together (DDLEMU_FAIL_TOGETHER)."""
        return ", ".join(f"rank {rank} died" for rank in sorted({p.rank for p in self._process.peers() if p.state() == "died"}))

    def _state_of(self, rank: int, peer: Peer) -> str:
        """Say what a member does: "lives", "is stopped", "has left the group" or "died"."""
        state = peer.state()
        slot = self._slots.get(rank)
        has_left = slot is not None and slot.progress().closed and not slot.cause()  # one that failed has closed too
        return "has left the group" if state == "lives" and has_left else state

    def _who(self, work: Work) -> str:
        """Say what keeps an operation from being complete, for each member of which something is known."""
        reasons = []
        for rank, peer in sorted(self.peers.items()):
            state = self._state_of(rank, peer)
            member, slot = self._index[rank], self._slots.get(rank)
            if state != "lives":
                reasons.append(f"rank {rank} {peer.death() if state == 'died' else state}")
            elif slot and work.messages:
                reasons += self._who_of_messages(work, rank, member, slot)
            elif slot and slot.progress().launched < work.sequence:
                number = slot.progress().launched
                last = f"its last call is number {number}" if number else "it has made no call"
                reasons.append(f"rank {rank} has not called it ({last}){self._doing(rank, ' and')}")
        if not reasons and self._slots:
            reasons.append("all ranks have called it")
        return "".join(f"; {reason}" for reason in reasons)

    def _who_of_messages(self, work: Work, rank: int, member: int, slot: Slot) -> List[str]:
        """Say what a member does about the messages of this work with it, if it has not called them or cannot yet."""
        for message in work.messages:
            if message.member != member:
                continue
            name = f"its {'recv from' if message.is_send else 'send to'} rank {self.own_rank}, number {message.number},"
            if slot.messages(not message.is_send, self.rank) < message.number:
                return [f"rank {rank} has not called {name}{self._doing(rank, ' and')}{self._crossing(work, slot)}".rstrip(",")]
            other = slot.message(not message.is_send, self.rank, message.number)
            first = slot.first_unfinished(len(self.members))
            if other and first and first.order < other.order:
                before = f"{'send to' if first.is_send else 'recv from'} rank {self.members[first.member].global_rank}"
                return [f"rank {rank} has called {name} after its {before}, number {first.number}, which is not complete"
                        f"{self._crossing(work, slot)}"]
        return []

    def _has_called(self, work: Work, member: int, slot: Slot) -> bool:
        """Return whether a member has called what this work needs of it."""
        if work.messages:
            return all(slot.messages(not m.is_send, self.rank) >= m.number for m in work.messages if m.member == member)
        return slot.progress().launched >= work.sequence

    def _crossing(self, work: Work, slot: Slot) -> str:
        """Say that both ranks of a pair send first, or receive first, if they do."""
        if len(work.messages) != 1:
            return ""
        own, first = work.messages[0], slot.first_unfinished(len(self.members))
        if not first or first.member != self.rank or first.is_send != own.is_send:
            return ""
        word, other = ("send", "receive") if own.is_send else ("receive", "send")
        return (f": both ranks {word} first, and NCCL executes the calls of a pair of ranks in their order: let one of them "
                f"{other} first, or call batch_isend_irecv")

    def _doing(self, rank: int, before: str) -> str:
        """Say what another rank waits for, after a word, or return an empty string if it waits in no call."""
        waits = self.peers[rank].waits() if rank in self.peers else []
        return f"{before} waits in {' and in '.join(waits)}" if waits else ""

    # Its end.

    def close(self, limit: float, last: bool = False) -> None:
        """Destroy the communicator. Wait at most limit seconds until the peers have what this process has sent.

        last: then wait also until they have destroyed theirs.
        """
        if self.failing:
            self.await_stop()
            return
        end = time.monotonic() + limit
        for work in list(self.works):
            work.look(max(0, int(1e9 * (end - time.monotonic()))))
        self._closed = True
        self._note()
        pauses = Pauses(self.library)
        while not self.failing and time.monotonic() < end and not self._peers_are_done():
            pauses.wait()
        if self.failing:
            return
        unfinished = any(not work.query() for work in self.works)
        with self._state:
            if self.failing:
                return
            self.failing, self._cause = True, "the process group was destroyed"
        self._diagnosed.set()
        dead = any(peer.state() == "died" for peer in self.peers.values())
        with self._lock:
            handle, self._handle = self._handle, None
            # As on a GPU, nothing runs after a kernel that has failed, and NCCL would wait for it. The process ends soon.
            if handle and not self._process.gpu_failed:
                (self.library.ncclCommAbort if dead or unfinished else self.library.ncclCommDestroy)(handle)
            self._release()
        self._stopped.set()
        # Not before: NCCL's threads of a rank end when the threads of the other ranks of its node have closed their
        # connections.
        while last and time.monotonic() < end and not self._peers_have_released():
            pauses.wait()

    def _peers_have_released(self) -> bool:
        """Return whether every peer has destroyed its communicator, or died."""
        return all(slot.progress().released or self.peers[rank].state() == "died" for rank, slot in self._slots.items())

    def _peers_are_done(self) -> bool:
        """Return whether no peer needs anything from this process any more."""
        for rank, slot in self._slots.items():
            progress = slot.progress()
            has_all = progress.completed >= self.launches and slot.received(self.rank) >= self._sent[self._index[rank]]
            done = progress.closed or slot.cause() or has_all
            if not done and self.peers[rank].state() != "died":
                return False
        return True

    def _release(self) -> None:
        """Free what belongs to the communicator, which NCCL no longer uses."""
        for event in self._events:
            self.library.cudaEventDestroy(event)
        self._events.clear()
        if self._stream:
            self.library.cudaStreamDestroy(self._stream)
            self._stream = None
        self._closed = self._released = True
        self._note()
        self._process.board.give_back(self._slot)
