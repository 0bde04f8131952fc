# SPDX-License-Identifier: Apache-2.0
"""What both shells have."""

from datetime import timedelta

from ._overloads import Overloads


class Shell(Overloads):
    """The operations, and what torch.distributed asks of a backend besides."""

    def getBackendName(self) -> str:
        """Return "ddlemu"."""
        return "ddlemu"

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time limit of the operations that follow."""
        self.group.timeout = timeout.total_seconds()

    def abort(self) -> None:
        """Abort all operations that are in flight."""
        self.group.abort()

    def shutdown(self) -> None:
        """Destroy the communicators."""
        self.group.close()

    def _get_sequence_number_for_group(self) -> int:
        return self.group.sequence()

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: all ranks begin with 0."""

    # Older names. Before torch 2.14 torch.distributed calls these.
    _allgather_base = Overloads.all_gather_single
    allgather_into_tensor_coalesced = Overloads.all_gather_single_coalesced
    _reduce_scatter_base = Overloads.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Overloads.reduce_scatter_single_coalesced
    alltoall_base = Overloads.all_to_all_single
    _start_coalescing = Overloads.start_coalescing
