# SPDX-License-Identifier: Apache-2.0
"""A debug mode: before each collective the ranks compare their calls through the store.

Without it they compare them too (_signature.py), but when the operation has been started, and without waiting.
DDLEMU_TORCH_CHECK=1 or TORCH_DISTRIBUTED_DEBUG=DETAIL switches the debug mode on. Each collective then takes some
milliseconds longer.
"""

import os
import time
from typing import TYPE_CHECKING, List, Optional

from ._communicator import Communicator
from ._errors import DdlemuError, StoreError
from ._signature import describe

if TYPE_CHECKING:
    from ._group import Group, Operation

_VARIABLE = "DDLEMU_TORCH_CHECK"


def make(group: "Group") -> "Optional[Checker]":
    """Return a checker for a group if the debug mode is on."""
    wanted = os.environ.get(_VARIABLE, "") not in ("", "0") or os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL"
    return Checker(group) if wanted and group.size > 1 else None


class Checker:
    """Compares the calls of the ranks of a group."""

    def __init__(self, group: "Group") -> None:
        self._group = group
        self._number = 0

    def compare(self, operation: "Operation", communicator: Communicator) -> None:
        """Raise DdlemuError if this operation is not the same on all ranks."""
        if not operation.signature:
            return
        self._number += 1
        group, own = self._group, describe(operation.signature)
        deadline = time.monotonic() + group.seconds(operation.timeout)

        def poll(missing: List[int]) -> None:
            if time.monotonic() > deadline or communicator.failing or communicator.lost:
                absent = ", ".join(f"rank {group.members[m].global_rank}" for m in missing)
                self._raise(communicator, operation, f"{absent} did not call it: {communicator.lost or 'timeout'}")

        others = [m.group_rank for m in group.members if m.group_rank != group.rank]
        try:
            group.exchange.post(f"check/{self._number}", own)
            calls = group.exchange.collect(f"check/{self._number}", others, poll)
            if self._number > 1:  # all ranks have read those of the number before
                group.exchange.remove(f"check/{self._number - 1}")
        except StoreError as error:
            self._raise(communicator, operation, communicator.lost or str(error))
        different = [f"rank {group.members[m].global_rank} called {text}" for m, text in sorted(calls.items())
                     if text != own]
        if different:
            self._raise(communicator, operation, f"this rank called {own}, but {', '.join(different)}")

    def _raise(self, communicator: Communicator, operation: "Operation", reason: str) -> None:
        communicator.fail(reason, look_for_death=False)
        raise DdlemuError(f"ddlemu: {operation.name} number {self._number} of {communicator.title}, on rank "
                          f"{communicator.own_rank}: {reason}")
