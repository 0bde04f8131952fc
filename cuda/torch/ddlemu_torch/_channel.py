# SPDX-License-Identifier: Apache-2.0
"""Sends from one rank to another.

NCCL executes the operations of a communicator one after the other. If both ranks of a pair send, and then receive, each
send would wait for a receive that is behind the other send. So each direction of a pair has a communicator. It is made
in a thread, because a program may start several sends before the receiver comes to its first receive.
"""

import threading
from collections import deque
from typing import Any, Callable, Deque, Tuple

from ._communicator import Communicator
from ._errors import DdlemuError
from ._work import Work


class Channel:
    """One direction of a pair of ranks. Operations take place in the order of the calls of start."""

    def __init__(self, communicator: Communicator, connect: Callable[[], None]) -> None:
        self.communicator = communicator
        self._connect = connect
        self._lock = threading.Lock()
        self._waiting: Deque[Tuple[Work, Callable[[Any, Any], None]]] = deque()
        self._ready = False
        threading.Thread(target=self._run, name="ddlemu-connect", daemon=True).start()

    def start(self, work: Work, call: Callable[[Any, Any], None]) -> None:
        """Launch a work, now or when the communicator is made."""
        with self._lock:
            if not self._ready:
                self._waiting.append((work, call))
                return
        self.communicator.launch(work, call)

    def _run(self) -> None:
        try:
            self._connect()
            while True:
                with self._lock:
                    if not self._waiting:
                        self._ready = True
                        return
                    work, call = self._waiting.popleft()
                self.communicator.launch(work, call)
        except DdlemuError:  # the communicator has failed, and each work says so
            with self._lock:
                self._ready = True
                self._waiting.clear()
