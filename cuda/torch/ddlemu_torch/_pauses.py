# SPDX-License-Identifier: Apache-2.0
"""Pauses between looks for what another rank does by other means than NCCL: by the store, or in shared memory."""

import time

from ._library import Library

_FIRST, _LONGEST = 0.0005, 0.01  # seconds


class Pauses:
    """The pauses of one thread that looks again and again. Make it before the first look.

    On a virtual clock the thread is idle in a pause, so that the clock can go on. A thread that sleeps for some
    milliseconds counts as working for most of that time: on a busy host several of these hardly ever sleep at once.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._again = 0
        self._next = _FIRST
        self._seen = library.ddlemuSoftHandovers()

    def wait(self) -> None:
        """Pause after a look that has found nothing. Then look again at once."""
        if self._library.ddlemuSoftAwaitHandover(self._seen, self._again) != 0:  # there is no virtual clock
            time.sleep(self._next)
            self._next = min(2 * self._next, _LONGEST)
        self._again = 1
        self._seen = self._library.ddlemuSoftHandovers()
