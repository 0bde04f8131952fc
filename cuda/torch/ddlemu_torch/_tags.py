# SPDX-License-Identifier: Apache-2.0
"""Says that the tags of sends and receives are ignored. NCCL has none, and c10d's backend for NCCL ignores them too."""

import sys
from typing import TYPE_CHECKING

import torch.distributed as dist

from ._errors import StoreError
from ._monitored_barrier import backend_of

if TYPE_CHECKING:
    from ._group import Group

_is_mentioned = False


def mention(group: "Group", operation: str, tag: int) -> None:
    """Say it once, on one rank of the job."""
    global _is_mentioned
    if _is_mentioned:
        return
    _is_mentioned = True
    world = backend_of(dist.group.WORLD) if dist.is_initialized() else None
    try:
        is_first = (world.group if world else group).exchange.is_first("tags")
    except StoreError:  # the operation will say so, if it needs the store
        is_first = True
    if is_first:
        print(f"ddlemu: {operation} with tag {tag}: NCCL has no tags, so they are ignored, as PyTorch's backend nccl "
              "ignores them: a receive takes the next message of its sender, whatever the tag", file=sys.stderr, flush=True)
