# SPDX-License-Identifier: Apache-2.0
"""Lets programs ask whether a work is complete, with torch 2.14 and later.

There a program gets a holder of the work, in C++. It passes wait and get_future on to the work, but not is_completed and
result: a program that asks until the work is complete would never end. So these two ask the future.
"""

from typing import Any

from torch._C._distributed_c10d import Work as C10dWork

_is_completed = C10dWork.is_completed
_result = C10dWork.result


def mend() -> None:
    """Let every work of c10d that does not know it ask its future. This can be called again."""
    C10dWork.is_completed = is_completed
    C10dWork.result = result


def is_completed(work: Any) -> bool:
    """Return whether the work is complete or has failed."""
    if _is_completed(work):
        return True
    try:
        return bool(work.get_future().done())
    except RuntimeError:  # works of some other backends have no future
        return False


def result(work: Any) -> Any:
    """Return the output tensors, when the operation is complete."""
    try:
        return _result(work)
    except RuntimeError as error:
        if "not implemented" not in str(error):
            raise
        return work.get_future().wait()
