# SPDX-License-Identifier: Apache-2.0
"""Says that the tags of sends and receives are ignored. NCCL has none, and c10d's backend for NCCL ignores them too."""

import sys
from typing import Callable

from ._errors import StoreError
from ._exchange import Exchange

_is_mentioned = False


def mention(find_exchange: Callable[[], Exchange], operation: str, tag: int) -> None:
    """Say it once, on one rank of those that share the exchange. Only the first call looks for the exchange."""
    global _is_mentioned
    if _is_mentioned:
        return
    _is_mentioned = True
    try:
        is_first = find_exchange().is_first("tags")
    except StoreError:  # the operation will say so, if it needs the store
        is_first = True
    if is_first:
        print(f"ddlemu: {operation} with tag {tag}: NCCL has no tags, so they are ignored, as PyTorch's backend nccl "
              "ignores them: a receive takes the next message of its sender, whatever the tag", file=sys.stderr, flush=True)
