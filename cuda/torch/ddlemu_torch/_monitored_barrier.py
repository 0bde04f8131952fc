# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier: a barrier through the store, in which rank 0 names the ranks that do not come."""

import time
from typing import List

from ._errors import DdlemuError
from ._group import Group


def run(group: Group, limit: float, wait_all_ranks: bool) -> None:
    """Wait until all ranks have called this. Raise DdlemuError after limit seconds, or when a rank has died."""
    group.monitored_barriers += 1
    name = f"barrier/{group.monitored_barriers}"
    deadline = time.monotonic() + limit

    def fail(text: str) -> None:
        raise DdlemuError(f"ddlemu: monitored_barrier of group {group.name}, on rank "
                          f"{group.members[group.rank].global_rank}: {text}")

    def names(ranks: List[int]) -> str:
        return ", ".join(f"rank {group.members[rank].global_rank}" for rank in ranks)

    def raise_if_dead(missing: List[int], ranks: List[int]) -> None:
        dead = group.dead(ranks)
        if dead and not all(group.exchange.posted(name, rank) for rank in missing):  # they may have come, and ended since
            fail(f"{names(dead)} died")

    def poll(missing: List[int]) -> None:
        raise_if_dead(missing, missing)
        if time.monotonic() > deadline:
            fail(f"{names(missing if wait_all_ranks else missing[:1])} did not come within {limit:.3g} s")

    def poll_rank_0(missing: List[int]) -> None:
        raise_if_dead(missing, [member.group_rank for member in group.members])
        if time.monotonic() > deadline:
            fail(f"{names([0])} did not report within {limit:.3g} s that all ranks have come")

    if group.rank == 0:
        group.exchange.collect(name, list(range(1, group.size)), poll)
        group.exchange.post(name, "")
    else:
        group.exchange.post(name, "")
        group.exchange.collect(name, [0], poll_rank_0)
