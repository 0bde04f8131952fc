# SPDX-License-Identifier: Apache-2.0
"""Tells `ddlemu run` that the job uses gloo, whose messages cross no emulated link."""

import functools
import os
import socket
import sys
from typing import Any

import torch.distributed as dist

# The name of an abstract Unix socket, at which `ddlemu run` looks when the job has ended.
VARIABLE = "DDLEMU_TORCH_GLOO"


def install(is_alias: bool) -> None:
    """Let a program tell that it uses gloo: by init_process_group, unless gloo is an alias, or by gloo's own class."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    _watch_class(name)
    if not is_alias:
        _watch_default_group(name)


def _watch_class(name: str) -> None:
    """Let gloo's class tell that a program makes an object of it: an alias does not reach that."""
    gloo = getattr(dist, "ProcessGroupGloo", None)
    if gloo is None:
        return
    original = gloo.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("torch.distributed."):
            _tell(name, b"direct")

    gloo.__init__ = init


def _watch_default_group(name: str) -> None:
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        try:
            is_gloo = "gloo" in _backends()
        except Exception:  # a torch that has no such question: the job goes on, without the message
            return
        if is_gloo:
            _tell(name, b"gloo")

    for module in list(sys.modules.values()):  # such as device_mesh, which has the function by its own name
        if getattr(module, "__name__", "").startswith("torch.distributed") and \
                vars(module).get("init_process_group") is original:
            vars(module)["init_process_group"] = init_process_group


def _backends() -> str:
    """Return the backends of the default group, such as "gloo" or "cpu:gloo,cuda:nccl"."""
    get = getattr(dist, "get_backend_config", dist.get_backend)  # of torch 2.1 and later, or the one of each version
    return str(get())


def _tell(name: str, what: bytes) -> None:
    """Send a datagram, which is lost if others have told it already."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(what, "\0" + name)
    except OSError:
        pass
