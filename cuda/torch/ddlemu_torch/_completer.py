# SPDX-License-Identifier: Apache-2.0
"""Threads that complete futures.

A callback of a future may wait for another future. So each future that is not complete has a thread of its own. A thread
that is done takes the next future.
"""

import queue
import threading
from typing import Callable

_queue: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
_lock = threading.Lock()
_idle = 0


def submit(function: Callable[[], None]) -> None:
    """Call a function in a thread that does nothing else meanwhile."""
    global _idle
    with _lock:
        if _idle:
            _idle -= 1
        else:
            threading.Thread(target=_run, name="ddlemu-future", daemon=True).start()
    _queue.put(function)


def _run() -> None:
    global _idle
    while True:
        function = _queue.get()
        function()
        del function  # and the tensors that it refers to
        with _lock:
            _idle += 1


def forget() -> None:
    """Forget the threads: a forked child has none of them."""
    global _queue, _lock, _idle
    _queue, _lock, _idle = queue.SimpleQueue(), threading.Lock(), 0
