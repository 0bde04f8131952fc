# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of backends. BACKEND and WORLD_SIZE say with which backend and on how many ranks."""

from torch.testing._internal.distributed import distributed_test


class TestDistBackend(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """All of them, each in new processes."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()
