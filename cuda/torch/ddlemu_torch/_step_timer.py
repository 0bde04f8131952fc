# SPDX-License-Identifier: Apache-2.0
"""How long a training step takes on the emulated fabric, and what it consists of."""

import os
import time
from typing import NamedTuple, Optional

from ._errors import DdlemuError
from ._group import groups
from ._runtime import runtime

_COMPUTE_VARIABLE = "DDLEMU_COMPUTE"  # of `ddlemu run --compute`


class Step(NamedTuple):
    """A step of one rank. Times are of the fabric's clock, as in a ledger (`ddlemu messages`)."""

    number: int
    begin_ns: int
    end_ns: int
    compute_ns: Optional[int]  # of the thread that has the timer; None on the real clock, where it cannot be told

    @property
    def total_ns(self) -> int:
        """How long the step took."""
        return self.end_ns - self.begin_ns

    @property
    def waiting_ns(self) -> Optional[int]:
        """The time that was not computation: for messages, and for ranks that come later."""
        return None if self.compute_ns is None else self.total_ns - self.compute_ns

    def __str__(self) -> str:
        text = f"step {self.number}: {_ms(self.total_ns)}"
        if self.compute_ns is None or self.waiting_ns is None:
            return text
        return f"{text} = {_ms(self.compute_ns)} compute + {_ms(self.waiting_ns)} waiting"


class StepTimer:
    """Measures steps, as the thread that makes it. Make it after the first collective operation of the program.

    str() says what the parts of a step are.
    """

    def __init__(self) -> None:
        shared = runtime()
        if not any(group.has_communicator() for group in groups()):
            raise DdlemuError("ddlemu: StepTimer: the fabric's clock is known only after the first operation of a group: "
                              "make the timer after DistributedDataParallel(model) or barrier()")
        self._library = shared.library
        self._virtual = shared.library.ddlemu_now() >= 0
        self._steps = 0
        self._began = self._now()
        self._computed = self._compute()

    def step(self) -> Step:
        """Return the step that ends now. The next one begins."""
        now, computed = self._now(), self._compute()
        step = Step(self._steps, self._began, now, computed - self._computed if self._virtual else None)
        self._steps += 1
        self._began, self._computed = now, computed
        return step

    def _now(self) -> int:
        return self._library.ddlemu_now() if self._virtual else time.monotonic_ns()

    def _compute(self) -> int:
        return self._library.ddlemu_computed()

    def __str__(self) -> str:
        if not self._virtual:
            return ("time: of this host, whose processors also do what GPUs would do. It is not the time of a GPU job. "
                    "`ddlemu run --clock virtual` tells the network's part exactly")
        kind, _, factor = os.environ.get(_COMPUTE_VARIABLE, "none").partition(":")
        compute = f"CPU time of this thread times {factor}" if kind == "cpu" else "takes no time (see ddlemu run --compute)"
        return f"compute: {compute}; waiting: for messages and for other ranks, exact on the virtual clock"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3f} ms"
