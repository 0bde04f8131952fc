# SPDX-License-Identifier: Apache-2.0
"""Shared memory in which a process tells its peers how far it is, and what it has called.

Each communicator of the process has a slot. It is written without a system call: at each launch, at each completion, while
a thread waits, and when the communicator fails. Peers read it when they complete an operation, when they look for the
cause of a failure, and when they close the communicator. A word is written and read at once. A word that says that others
are there is written after them.

    words of a slot   content
    0                 sequence number of the last collective that was launched
    1                 sequence number of the last collective that is known to be complete
    2                 flags
    3                 length of the cause of its failure in bytes, 0 if there is none
    4                 how many operations of any kind are complete, in the order of their launches
    5                 length of the text of what a thread waits for, 0 if no thread waits
    6 to 37           that text
    38 to 97          the cause
    98 to 609         marks of the last calls, that of number n at n % 512, see mark
    610 to 4705       the last calls themselves, 64 words each, that of number n at n % 64
    4706 to 4801      how many messages were sent to each member, received from each, and received and complete
    4802 to 10945     the last 32 messages to each member, and then from each, 3 words each, see Message

After the slots a word says how many of them were ever used.
"""

import mmap
import os
import threading
from typing import Callable, List, NamedTuple, Optional, Sequence

_CLOSED, _RELEASED = 1, 2
_DONE = 4
_WAIT, _WAIT_BYTES = 6, 256
_CAUSE, _CAUSE_BYTES = 38, 480
_MARKS, _MARK_COUNT = 98, 512  # more than the operations that a communicator queues
_CALLS, _CALL_COUNT, _CALL_WORDS = 610, 64, 64
# Words of a call: its number, the elements that it sends to each rank, and its text with the length before it.
_SIZES, _MOST_SIZES = 1, 32
_TEXT, _TEXT_BYTES = 34, 240
_MOST_MEMBERS = 32  # as many as there are software GPUs
_COUNTS = _CALLS + _CALL_COUNT * _CALL_WORDS
_MESSAGES, _MESSAGE_COUNT, _MESSAGE_WORDS = _COUNTS + 3 * _MOST_MEMBERS, 32, 3
_SLOT_WORDS = _MESSAGES + 2 * _MOST_MEMBERS * _MESSAGE_COUNT * _MESSAGE_WORDS
_SLOTS = 8192


class Progress(NamedTuple):
    """How far a process is with a communicator."""

    launched: int
    completed: int
    closed: bool  # the process no longer uses the communicator
    released: bool  # and NCCL has given back what belonged to it


class Message(NamedTuple):
    """A send to another member of a communicator, or a receive from it."""

    is_send: bool
    member: int  # the other one
    number: int  # among those of this kind with this member, from 1
    kind: int  # of the elements, a number that is the same in all ranks
    elements: int
    order: int  # of its operation among all of the communicator, from 1

    def partner(self, member: int) -> "Message":
        """Return what the other member must call, if this message is that of the given member."""
        return self._replace(is_send=not self.is_send, member=member)


def mark(number: int, signature: int) -> int:
    """Return the mark of a call: its sequence number and the 32-bit signature, which is the same on all ranks."""
    return (number & 0xFFFFFFFF) << 32 | signature


class Slot:
    """The part of a communicator in the memory of a process."""

    def __init__(self, words: memoryview, number: int) -> None:
        self._words = words[number * _SLOT_WORDS:(number + 1) * _SLOT_WORDS]
        self._bytes = self._words.cast("B")
        self.number = number

    # Writing, in the own process.

    def clear(self) -> None:
        """Forget what another communicator has written."""
        self._words[:_CAUSE] = memoryview(bytes(8 * _CAUSE)).cast("Q")
        self._words[_DONE:_WAIT] = memoryview(bytes(8 * (_WAIT - _DONE))).cast("Q")
        self._words[_MARKS:_CALLS] = memoryview(bytes(8 * _MARK_COUNT)).cast("Q")
        self._words[_COUNTS:_MESSAGES] = memoryview(bytes(8 * (_MESSAGES - _COUNTS))).cast("Q")

    def write(self, launched: int, completed: int, done: int, closed: bool, released: bool) -> None:
        """Say how far the process is."""
        words = self._words
        words[0] = launched
        words[1] = completed
        words[_DONE] = done
        words[2] = _CLOSED * closed | _RELEASED * released

    def write_call(self, number: int, signature: int, text: bytes, sends: Sequence[int]) -> None:
        """Say what the process is about to call. text has at most TEXT_BYTES bytes."""
        words, at = self._words, _CALLS + number % _CALL_COUNT * _CALL_WORDS
        for i, count in enumerate(sends):
            words[at + _SIZES + i] = count
        words[at + _TEXT - 1] = len(text)
        begin = 8 * (at + _TEXT)
        self._bytes[begin:begin + len(text)] = text
        words[at] = number
        words[_MARKS + number % _MARK_COUNT] = mark(number, signature)

    def write_message(self, message: Message) -> None:
        """Say that the process is about to send or receive a message."""
        at = self._message(message)
        self._words[at + 1] = message.kind << 48 | message.elements
        self._words[at + 2] = message.order
        self._words[at] = message.number
        self._words[self._count(message.is_send, message.member)] = message.number

    def write_received(self, message: Message) -> None:
        """Say that the process has received a message."""
        self._words[_COUNTS + 2 * _MOST_MEMBERS + message.member] = message.number

    def write_wait(self, text: str) -> None:
        """Say what a thread waits for, or with an empty text that no thread waits."""
        encoded = text.encode()[:_WAIT_BYTES]
        self._bytes[8 * _WAIT:8 * _WAIT + len(encoded)] = encoded
        self._words[_WAIT - 1] = len(encoded)

    def write_cause(self, cause: str) -> None:
        """Say why the communicator has failed."""
        text = cause.encode()[:_CAUSE_BYTES]
        self._bytes[8 * _CAUSE:8 * _CAUSE + len(text)] = text
        self._words[_CAUSE - 1] = len(text)

    # Reading, in another process.

    def progress(self) -> Progress:
        """Return how far the process is."""
        flags = self._words[2]
        return Progress(self._words[0], self._words[1], bool(flags & _CLOSED), bool(flags & _RELEASED))

    def cause(self) -> str:
        """Return why the communicator has failed, or an empty string."""
        length = self._words[_CAUSE - 1]
        return bytes(self._bytes[8 * _CAUSE:8 * _CAUSE + length]).decode(errors="replace") if length else ""

    def messages(self, is_send: bool, member: int) -> int:
        """Return how many messages the process has sent to a member, or begun to receive from it."""
        return self._words[self._count(is_send, member)]

    def received(self, member: int) -> int:
        """Return how many messages the process has received from a member."""
        return self._words[_COUNTS + 2 * _MOST_MEMBERS + member]

    def message(self, is_send: bool, member: int, number: int) -> Optional[Message]:
        """Return a message of the process, or None if it has not called it, or too long ago."""
        wanted = Message(is_send, member, number, 0, 0, 0)
        at = self._message(wanted)
        content, order = self._words[at + 1], self._words[at + 2]
        if self._words[at] != number or self.messages(is_send, member) < number:
            return None
        return wanted._replace(kind=content >> 48, elements=content & (1 << 48) - 1, order=order)

    def first_unfinished(self, members: int) -> Optional[Message]:
        """Return a message of the first operation that is not complete, or None if that is no message."""
        first = self._words[_DONE] + 1
        for member in range(members):
            for is_send in (True, False):
                last = self.messages(is_send, member)
                for number in range(last, max(0, last - _MESSAGE_COUNT), -1):
                    found = self.message(is_send, member, number)
                    if found and found.order == first:
                        return found
        return None

    def wait(self) -> str:
        """Return what a thread waits for, or an empty string. It stays there when the communicator has failed."""
        length = self._words[_WAIT - 1]
        return bytes(self._bytes[8 * _WAIT:8 * _WAIT + length]).decode(errors="replace") if length else ""

    def _count(self, is_send: bool, member: int) -> int:
        return _COUNTS + _MOST_MEMBERS * (not is_send) + member

    def _message(self, message: Message) -> int:
        row = _MOST_MEMBERS * (not message.is_send) + message.member
        return _MESSAGES + _MESSAGE_WORDS * (_MESSAGE_COUNT * row + message.number % _MESSAGE_COUNT)

    def mark(self, number: int) -> int:
        """Return the mark of a call, or that of another one if the process has not made it, or long ago."""
        return self._words[_MARKS + number % _MARK_COUNT]

    def text(self, number: int) -> str:
        """Return the text of a call, or an empty string if it is not there any more."""
        at = _CALLS + number % _CALL_COUNT * _CALL_WORDS
        begin = 8 * (at + _TEXT)
        text = bytes(self._bytes[begin:begin + self._words[at + _TEXT - 1]])
        return text.decode(errors="replace") if self._words[at] == number else ""

    def sent(self, number: int, rank: int) -> Optional[int]:
        """Return how many elements a call sends to a rank, or None if that is not known."""
        at = _CALLS + number % _CALL_COUNT * _CALL_WORDS
        count = self._words[at + _SIZES + rank] if rank < _MOST_SIZES else None
        return count if self._words[at] == number else None


TEXT_BYTES, MOST_SIZES = _TEXT_BYTES, _MOST_SIZES


class Board:
    """The slots of this process."""

    def __init__(self) -> None:
        size = 8 * (_SLOTS * _SLOT_WORDS + 1)  # only what is written takes memory
        self.descriptor = os.memfd_create("ddlemu-torch-board", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self._words = memoryview(mmap.mmap(self.descriptor, size)).cast("Q")
        self._lock = threading.Lock()
        self._free: List[int] = list(range(_SLOTS - 1, -1, -1))

    def take(self) -> Slot:
        """Return a slot that is not in use."""
        with self._lock:
            if not self._free:
                raise RuntimeError(f"ddlemu: this process has {_SLOTS} communicators, which is the most that it can "
                                   "have: destroy process groups that you no longer use")
            number = self._free.pop()
            self._words[-1] = max(self._words[-1], number + 1)
        slot = Slot(self._words, number)
        slot.clear()
        return slot

    def give_back(self, slot: Slot) -> None:
        """Let another communicator use the slot. Until then it says that its communicator is closed."""
        with self._lock:
            self._free.insert(0, slot.number)


class PeerBoard:
    """The slots of another process. They stay readable when it dies."""

    def __init__(self, descriptor: int) -> None:
        try:
            memory = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._words = memoryview(memory).cast("Q")

    def slot(self, number: int) -> Slot:
        """Return a slot, to read it."""
        return Slot(self._words, number)

    def waits(self) -> List[str]:
        """Return what the threads of the process wait for, or waited for when a communicator failed."""
        return self._texts(Slot.wait)

    def causes(self) -> List[str]:
        """Return why communicators of the process have failed."""
        return self._texts(Slot.cause)

    def _texts(self, read: Callable[[Slot], str]) -> List[str]:
        texts = [read(self.slot(number)) for number in range(self._words[-1])]
        return [text for text in texts if text]


def open_board(pid: int, descriptor: int) -> Optional[PeerBoard]:
    """Open the board of another process of the same user, or return None."""
    try:
        return PeerBoard(os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, ValueError):
        return None
