# SPDX-License-Identifier: Apache-2.0
"""What all groups of a process share, and what happens to it at fork and at exit."""

import atexit
import functools
import multiprocessing.util
import os
import sys
import threading
from typing import Callable, List, Optional

import torch

from . import _completer
from ._errors import DdlemuError
from ._library import Library, library
from ._peers import Process
from ._watchdog import Watchdog

_GPUS_VARIABLE = "DDLEMU_SOFT_GPUS"
_VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
_DEFAULT_GPUS = 8
_MOST_GPUS = 32
_EXIT_LIMIT = 5.0  # seconds that the end of the process waits until peers have what was sent to them


class Runtime:
    """NCCL, this process and its watchdog."""

    def __init__(self) -> None:
        self.library: Library = library()
        self.process = Process()
        self.watchdog = Watchdog(self.process)


_lock = threading.Lock()
_runtime: Optional[Runtime] = None
_forked = False
_at_exit: List[Callable[[float], None]] = []


def runtime() -> Runtime:
    """Return the runtime, which the first call makes."""
    global _runtime
    if _forked:
        raise DdlemuError("ddlemu: this process was forked after torch.distributed was initialised, and cannot use it: "
                          "start the process by spawn or exec")
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
            atexit.register(_end)
            # A process that multiprocessing has forked ends without the handlers of atexit, but with this.
            multiprocessing.util.Finalize(None, _end, exitpriority=0)
        return _runtime


def call_at_exit(function: Callable[[float], None]) -> Callable[[float], None]:
    """Call a function when the process ends, if it has a runtime, with the seconds for which the function may wait."""
    _at_exit.append(function)
    return function


def was_forked() -> bool:
    """Return whether this process is a forked child of one that had a runtime."""
    return _forked


def announce(rank: int, size: int) -> None:
    """Set what the plugin and the software CUDA read when the first communicator is made, unless it is set."""
    if size > _MOST_GPUS:
        raise DdlemuError(f"ddlemu: {size} ranks are too many: each needs a software GPU, of which there are at most "
                          f"{_MOST_GPUS}: start fewer ranks")
    if rank == 0:
        _mention_gpu()
    os.environ.setdefault("RANK", str(rank))
    os.environ.setdefault("WORLD_SIZE", str(size))
    if size > _DEFAULT_GPUS:
        os.environ.setdefault(_GPUS_VARIABLE, str(size))


@functools.lru_cache(maxsize=None)
def _mention_gpu() -> None:
    """Say once that this machine's GPU is left alone."""
    if torch.cuda.is_available():
        print("ddlemu: the backend ddlemu does not need the GPU of this machine and does not use it: it takes CPU tensors. "
              "For tensors on the GPU use the backend nccl", file=sys.stderr, flush=True)


def check_gpu(rank: int) -> None:
    """Raise if there is no software GPU for a global rank."""
    # Launchers such as DeepSpeed's name the GPUs of a node by it. A rank takes the software GPU of its global number.
    visible = os.environ.pop(_VISIBLE_VARIABLE, None)
    try:
        count = runtime().library.device_count()  # the first call reads the environment
    finally:
        if visible is not None:
            os.environ[_VISIBLE_VARIABLE] = visible
    if rank >= count:
        raise DdlemuError(f"ddlemu: rank {rank} needs the software GPU {rank}, but there are {count}: set "
                          f"{_GPUS_VARIABLE} to the number of ranks, at most {_MOST_GPUS}")


def _end() -> None:
    if _runtime is not None:
        for function in _at_exit:
            function(_EXIT_LIMIT)
        _completer.await_idle(_EXIT_LIMIT)


def _after_fork() -> None:
    global _runtime, _forked, _lock
    _lock = threading.Lock()
    if _runtime is not None:
        atexit.unregister(_end)
        _forked = True
    _completer.forget()


os.register_at_fork(after_in_child=_after_fork)
