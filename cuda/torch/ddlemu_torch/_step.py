# SPDX-License-Identifier: Apache-2.0
"""Marks the end of a training step, where `ddlemu record --step auto` and timelines look for it."""

import ctypes
import functools
import os
from typing import Callable

_PLUGIN_VARIABLE = "NVTX_INJECTION64_PATH"  # the path of libgoemu.so, with `ddlemu run --trace` and `ddlemu record`
_NAME = b"ddlemu_torch.step"  # StepRange of `ddlemu record`


def step() -> None:
    """Mark the end of a training step of this rank. Does nothing in a job that is not traced."""
    _mark()(_NAME)


@functools.lru_cache(maxsize=None)
def _mark() -> Callable[[bytes], None]:
    """Return the plugin's function that makes a mark, or one that does nothing."""
    try:
        mark = ctypes.CDLL(os.environ.get(_PLUGIN_VARIABLE, "none")).ddlemu_mark
    except (AttributeError, OSError):  # another library of NVTX, or none
        return _nothing
    mark.argtypes, mark.restype = [ctypes.c_char_p], None
    return mark  # type: ignore[no-any-return]


def _nothing(_: bytes) -> None:
    pass
