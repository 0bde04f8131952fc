# SPDX-License-Identifier: Apache-2.0
"""What must be the same in the calls of all ranks, as a number that they can compare.

NCCL does not notice that ranks call different operations, or with different types or sizes. They wait for ever, or get
wrong data: two ranks that add up 3 and 4 elements both succeed. So each rank writes the signature of its call to its board
before it calls NCCL. When the operation is complete, and while it takes long, it looks at the boards of the others.
"""

import zlib
from typing import Any, Dict, NamedTuple, Tuple

import torch

from ._board import TEXT_BYTES

_MOST_KNOWN = 4096


class Signature(NamedTuple):
    """A signature."""

    number: int  # 32 bits
    text: bytes  # for messages, at most TEXT_BYTES


_known: Dict[Tuple[Any, ...], Signature] = {}


def signature_of(parts: Tuple[Any, ...]) -> Signature:
    """Return the signature of a call, of which parts says all that must be the same. parts must be hashable."""
    found = _known.get(parts)
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        text = describe(parts, shapes=False).encode()
        found = _known[parts] = Signature(zlib.crc32(text), text[:TEXT_BYTES])
    return found


def describe(parts: Any, shapes: bool = True) -> str:
    """Write what a signature is made of on one line. Instead of a shape NCCL needs only the number of elements."""
    if isinstance(parts, torch.Size):
        return str(parts) if shapes else str(parts.numel())
    if isinstance(parts, (tuple, list)):
        return "(" + ", ".join(describe(part, shapes) for part in parts) + ")"
    return str(parts)
