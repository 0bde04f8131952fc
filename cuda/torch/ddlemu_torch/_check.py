# SPDX-License-Identifier: Apache-2.0
"""A debug mode: before each collective the ranks compare their calls through the store.

Without it they compare them too (_signature.py), but when the operation has been started, and without waiting.
DDLEMU_TORCH_CHECK=1 or TORCH_DISTRIBUTED_DEBUG=DETAIL switches the debug mode on. Each collective then takes some
milliseconds longer.
"""

import os
import time
from typing import List, Optional

from ._calls import Operation
from ._communicator import Communicator
from ._errors import DdlemuError, StoreError
from ._exchange import Exchange
from ._signature import describe

_VARIABLE = "DDLEMU_TORCH_CHECK"


def make(exchange: Exchange, size: int) -> "Optional[Checker]":
    """Return a checker for a group of size ranks if the debug mode is on."""
    wanted = os.environ.get(_VARIABLE, "") not in ("", "0") or os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL"
    return Checker(exchange) if wanted and size > 1 else None


class Checker:
    """Compares the calls of the ranks of a group."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._number = 0

    def compare(self, operation: Operation, communicator: Communicator, limit: float) -> None:
        """Raise DdlemuError if this operation is not the same on all ranks, or if a rank does not call it within limit
        seconds. The communicator is that of all ranks of the group.
        """
        if not operation.signature:
            return
        self._number += 1
        own, members = describe(operation.signature), communicator.members
        deadline = time.monotonic() + limit

        def poll(missing: List[int]) -> None:
            if time.monotonic() > deadline or communicator.failing or communicator.lost:
                absent = ", ".join(f"rank {members[m].global_rank}" for m in missing)
                self._raise(communicator, operation, f"{absent} did not call it: {communicator.lost or 'timeout'}")

        others = [m.group_rank for i, m in enumerate(members) if i != communicator.rank]
        try:
            self._exchange.post(f"check/{self._number}", own)
            calls = self._exchange.collect(f"check/{self._number}", others, poll)
            if self._number > 1:  # all ranks have read those of the number before
                self._exchange.remove(f"check/{self._number - 1}")
        except StoreError as error:
            self._raise(communicator, operation, communicator.lost or str(error))
        different = [f"rank {members[m].global_rank} called {text}" for m, text in sorted(calls.items())
                     if text != own]
        if different:
            self._raise(communicator, operation, f"this rank called {own}, but {', '.join(different)}")

    def _raise(self, communicator: Communicator, operation: Operation, reason: str) -> None:
        communicator.fail(reason, look_for_death=False)
        raise DdlemuError(f"ddlemu: {operation.name} number {self._number} of {communicator.title}, on rank "
                          f"{communicator.own_rank}: {reason}")
