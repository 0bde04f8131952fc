# SPDX-License-Identifier: Apache-2.0
"""Lets scripts that name the backends nccl or gloo run unchanged, on CPU tensors.

DDLEMU_TORCH_ALIAS=nccl,gloo names the backends whose place "ddlemu" takes.
"""

from typing import Any, List

VARIABLE = "DDLEMU_TORCH_ALIAS"
_NAMES = ("nccl", "gloo")


def parse(value: str) -> List[str]:
    """Return the names in value, which are separated by commas."""
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in _NAMES:
            raise RuntimeError(f"ddlemu: {VARIABLE}={value}: {name} is not {' or '.join(_NAMES)}")
    return names


def replace(names: List[str]) -> None:
    """Let torch read these names as "ddlemu". Versions below 2.14 cannot register another nccl or gloo."""
    from torch.distributed import Backend

    original = Backend.__new__

    def new(cls: Any, name: str) -> Any:
        if isinstance(name, str) and name.lower() in names:
            name = "ddlemu"
        return original(cls, name)

    Backend.__new__ = staticmethod(new)
