# SPDX-License-Identifier: Apache-2.0
"""The exceptions of this package."""

from typing import Any, Type

import torch.distributed as dist

# torch 2.2 and later have an exception for the errors of backends.
_Base: Type[RuntimeError] = getattr(dist, "DistBackendError", RuntimeError)


class DdlemuError(_Base):  # type: ignore[misc, valid-type]
    """An operation failed. The message names the operation, the group, the sequence number and the cause."""


class Late(DdlemuError):
    """A time limit is over."""


class StoreError(DdlemuError):
    """The store through which the ranks find each other does not answer."""


class Refused(ValueError, RuntimeError):
    """An argument that this backend or NCCL does not support. The message says what to change.

    c10d's own backends raise ValueError for some arguments and RuntimeError for others.
    """


def refuse(operation: str, reason: Any) -> "Refused":
    """Return the exception that refuses an operation, in one line."""
    return Refused(f"ddlemu: {operation}: {reason}")
