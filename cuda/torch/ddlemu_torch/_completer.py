# SPDX-License-Identifier: Apache-2.0
"""Threads that complete futures.

A callback of a future may wait for another future. So each future that is not complete has a thread of its own. A thread
that is done takes the next future.
"""

import queue
import threading
from typing import Callable

_queue: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
_changed = threading.Condition()  # holds the lock of the numbers
_idle = 0  # threads
_busy = 0


def submit(function: Callable[[], None]) -> None:
    """Call a function in a thread that does nothing else meanwhile."""
    global _busy, _idle
    with _changed:
        _busy += 1
        if _idle:
            _idle -= 1
        else:
            threading.Thread(target=_run, name="ddlemu-future", daemon=True).start()
    _queue.put(function)


def _run() -> None:
    global _busy, _idle
    while True:
        function = _queue.get()
        function()
        del function  # and the tensors that it refers to
        with _changed:
            _busy -= 1
            _idle += 1
            _changed.notify_all()


def await_idle(limit: float) -> None:
    """Wait at most limit seconds until no thread completes a future.

    While Python ends, a thread that comes back from C++ ends the process by std::terminate.
    """
    with _changed:
        _changed.wait_for(lambda: _busy == 0, limit)


def forget() -> None:
    """Forget the threads: a forked child has none of them."""
    global _queue, _changed, _idle, _busy
    _queue, _changed, _idle, _busy = queue.SimpleQueue(), threading.Condition(), 0, 0
