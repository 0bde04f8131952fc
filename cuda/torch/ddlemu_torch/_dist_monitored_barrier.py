# SPDX-License-Identifier: Apache-2.0
"""dist.monitored_barrier for this backend: torch has it for the backend gloo only."""

import functools
from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from ._operations import operations_of


def install() -> None:
    """Let dist.monitored_barrier call this backend for the groups that have it."""
    original = dist.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        operations = operations_of(dist.group.WORLD if group is None else group)
        if operations is not None:
            operations.monitored_barrier(timeout, wait_all_ranks)
        elif group is None:
            original(timeout=timeout, wait_all_ranks=wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier
