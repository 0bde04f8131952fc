# SPDX-License-Identifier: Apache-2.0
"""Lets torchrun and scripts start on a torch that was built without libuv, as Debian's is.

torch 2.4 and later ask for a store of libuv unless they are told otherwise. torchrun itself cannot be told: its own store
does not read USE_LIBUV.
"""

import functools
from typing import Any

_MESSAGE = "without libuv"  # is in the message of each version


def use_without_libuv() -> None:
    """Make TCPStore take its other server and client where torch says that it has no libuv."""
    from torch.distributed import TCPStore

    original = TCPStore.__init__

    @functools.wraps(original)
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        try:
            original(self, *arguments, **options)
        except RuntimeError as error:
            if _MESSAGE not in str(error):
                raise
            original(self, *arguments, **{**options, "use_libuv": False})

    TCPStore.__init__ = init
