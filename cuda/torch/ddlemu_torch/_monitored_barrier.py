# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier: a barrier through the store, in which rank 0 names the ranks that do not come."""

import time
from collections import Counter
from typing import TYPE_CHECKING, List

from ._errors import DdlemuError

if TYPE_CHECKING:
    from ._group import Group

_calls: "Counter[int]" = Counter()  # by the group's id


def run(group: "Group", limit: float, wait_all_ranks: bool) -> None:
    """Wait until all ranks have called this. Raise DdlemuError after limit seconds."""
    _calls[id(group)] += 1
    name = f"barrier/{_calls[id(group)]}"
    deadline = time.monotonic() + limit

    def fail(text: str) -> None:
        raise DdlemuError(f"ddlemu: monitored_barrier of group {group.name}, on rank "
                          f"{group.members[group.rank].global_rank}: {text} within {limit:.3g} s")

    def poll(missing: List[int]) -> None:
        if time.monotonic() > deadline:
            absent = missing if wait_all_ranks else missing[:1]
            fail(", ".join(f"rank {group.members[m].global_rank}" for m in absent) + " did not come")

    def poll_rank_0(missing: List[int]) -> None:
        if time.monotonic() > deadline:
            fail(f"rank {group.members[0].global_rank} did not report that all ranks have come")

    if group.rank == 0:
        group.exchange.collect(name, list(range(1, group.size)), poll)
        group.exchange.post(name, "")
    else:
        group.exchange.post(name, "")
        group.exchange.collect(name, [0], poll_rank_0)
