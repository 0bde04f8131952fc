# SPDX-License-Identifier: Apache-2.0
"""A page of memory in which a process tells its peers how far it is.

Each communicator of the process has a slot. It is written at each launch and at each completion, without a system
call. Peers read it when they look for the cause of a failure, and when they close the communicator.
"""

import mmap
import os
import struct
import threading
from typing import List, NamedTuple, Optional

_FORMAT = struct.Struct("<QQQ")
_SLOTS = 8192


class Progress(NamedTuple):
    """The contents of a slot."""

    launched: int  # sequence number of the last operation that was launched
    completed: int  # sequence number of the last operation that is known to be complete
    closed: bool  # the process no longer uses the communicator


class Board:
    """The slots of this process."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("ddlemu-torch-board", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, _SLOTS * _FORMAT.size)
        self._memory = mmap.mmap(self.descriptor, _SLOTS * _FORMAT.size)
        self._lock = threading.Lock()
        self._free: List[int] = list(range(_SLOTS - 1, -1, -1))

    def take(self) -> int:
        """Return the number of a slot that is not in use."""
        with self._lock:
            if not self._free:
                raise RuntimeError(f"ddlemu: this process has {_SLOTS} communicators, which is the most that it can "
                                   "have: destroy process groups that you no longer use")
            slot = self._free.pop()
        self.write(slot, 0, 0, False)
        return slot

    def give_back(self, slot: int) -> None:
        """Let another communicator use the slot. Until then it says that its communicator is closed."""
        with self._lock:
            self._free.insert(0, slot)

    def write(self, slot: int, launched: int, completed: int, closed: bool) -> None:
        """Replace the contents of a slot."""
        _FORMAT.pack_into(self._memory, slot * _FORMAT.size, launched, completed, closed)


def open_board(pid: int, descriptor: int) -> Optional[int]:
    """Open the board of another process of the same user, or return None. The result stays readable when it dies."""
    try:
        return os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def read(board: int, slot: int) -> Progress:
    """Read a slot of another process."""
    launched, completed, closed = _FORMAT.unpack(os.pread(board, _FORMAT.size, slot * _FORMAT.size))
    return Progress(launched, completed, bool(closed))
