# SPDX-License-Identifier: Apache-2.0
"""The backend for torch below 2.14, where a backend in Python has to be a whole process group."""

import functools
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from ._group import Group
from ._kept_work import Kept, KeptWork
from ._shell import Shell
from ._work import Work


class DdlemuProcessGroup(Shell, dist.ProcessGroup):
    """A process group over NCCL on the software CUDA. torch.distributed finds its methods by their names."""

    def __init__(self, group: Group) -> None:
        dist.ProcessGroup.__init__(self, group.rank, group.size)
        self.group = group
        self._name, self._description = group.name, "undefined"
        self._kept = Kept()
        group.work_type = functools.partial(KeptWork, self._kept)

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_name(self) -> str:
        """The name that torch.distributed has given to the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """The description that the program has given to the group."""
        return self._description

    @property
    def _device_types(self) -> List[torch.device]:
        """The devices of the group's tensors. torch asks for it in async_save."""
        return [torch.device("cpu")]

    def __del__(self) -> None:
        group = getattr(self, "group", None)
        if group is not None:
            group.close()
            self._kept.clear()  # its works refer to it

    def _end_coalescing(self, *arguments: Any) -> Optional[Work]:
        """Start the collected operations. torch 1.13 passes the list that gets the work."""
        work = self.end_coalescing()
        for argument in arguments:
            if isinstance(argument, list):
                argument.append(work)
        return work
