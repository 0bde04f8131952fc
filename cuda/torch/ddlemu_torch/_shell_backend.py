# SPDX-License-Identifier: Apache-2.0
"""The backend for torch 2.14 and later."""

from datetime import timedelta
from typing import Any, List, Optional, Set

from torch._C._distributed_c10d import Backend

from . import _holder
from ._group import Group
from ._shell import Shell

_holder.mend()


# The wrapper that TORCH_DISTRIBUTED_DEBUG=DETAIL puts around a backend keeps only its C++ half. So the Python half is kept
# here until torch shuts the backend down.
_in_use: "Set[DdlemuBackend]" = set()


class DdlemuBackend(Shell, Backend):
    """A backend over NCCL on the software CUDA. c10d's process group in C++ calls its methods by their names."""

    def __init__(self, group: Group) -> None:
        Backend.__init__(self, group.rank, group.size)
        self.group = group
        self._options = Backend.Options("ddlemu", timedelta(seconds=group.timeout))
        _in_use.add(self)

    def abort(self) -> None:
        """Abort all operations that are in flight."""
        super().abort()
        _in_use.discard(self)

    def shutdown(self) -> None:
        """Destroy the communicators."""
        super().shutdown()
        _in_use.discard(self)

    @property
    def options(self) -> Any:
        """The options with which the group was made."""
        return self._options

    @property
    def supports_coalescing(self) -> bool:
        """Say that operations can be started as one group of NCCL."""
        return True

    @property
    def supports_splitting(self) -> bool:
        """Say that split_group works."""
        return True

    def split(self, store: Any, ranks: List[int], opts: Any) -> Optional["DdlemuBackend"]:
        """Return the backend of a new group of some ranks of this one, or None if this rank is not in it."""
        if self.group.rank not in ranks:
            return None
        members = [self.group.members[r].global_rank for r in ranks]
        name = getattr(opts, "group_name", "") or f"{self.group.name}/{'-'.join(map(str, members))}"
        timeout = getattr(opts, "_timeout", timedelta(seconds=self.group.timeout))
        return DdlemuBackend(Group(store, ranks.index(self.group.rank), len(ranks), timeout, name, members,
                                   self.group.members[self.group.rank].global_rank))

    def perform_nocolor_split(self, device: Any) -> None:
        """Do nothing: a new group needs only its own ranks."""

    def eager_connect_single_device(self, device: Any) -> None:
        """Make the communicator now."""
        self.group.connect_eagerly()
