# SPDX-License-Identifier: Apache-2.0
"""What both shells have."""

from datetime import timedelta

from ._operations import Operations


class Shell(Operations):
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
