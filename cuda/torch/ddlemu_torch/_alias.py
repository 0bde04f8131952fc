# SPDX-License-Identifier: Apache-2.0
"""Lets scripts that name the backends nccl or gloo run unchanged, on CPU tensors.

DDLEMU_TORCH_ALIAS=nccl,gloo names the backends whose place "ddlemu" takes.
"""

from typing import Any, List

VARIABLE = "DDLEMU_TORCH_ALIAS"
_NAMES = ("nccl", "gloo")


def apply(value: str) -> None:
    """Give the names in value, which are separated by commas, to this backend."""
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in _NAMES:
            raise RuntimeError(f"ddlemu: {VARIABLE}={value}: {name} is not {' or '.join(_NAMES)}")
    if names:
        _apply(names)


def _apply(names: List[str]) -> None:
    from . import _register

    if _register.version() >= (2, 14):
        for name in names:
            _register.register_name(name)
    else:
        _replace(names)


def _replace(names: List[str]) -> None:
    """Older versions have no place for another nccl or gloo: there the name itself is replaced."""
    from torch.distributed import Backend

    original = Backend.__new__

    def new(cls: Any, name: str) -> Any:
        if isinstance(name, str) and name.lower() in names:
            name = "ddlemu"
        return original(cls, name)

    Backend.__new__ = staticmethod(new)
