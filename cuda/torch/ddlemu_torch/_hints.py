# SPDX-License-Identifier: Apache-2.0
"""Adds a line to the errors of PyTorch that end a program of `ddlemu run`: what to change so that it runs there.

Nothing else changes: the exception and its traceback stay as they are. The line is the last one.
"""

import sys
import traceback as tracebacks
from types import TracebackType
from typing import List, Optional, Tuple, Type

_NO_GPU = ("there is no GPU in this job, and it needs none: keep tensors and modules on the CPU, where this backend takes "
           "them. Remove .cuda(), torch.cuda.set_device(), device_id= and device_ids=, and write 'cpu' for 'cuda'")
_CPU_ONLY = "the backend ddlemu is for CPU tensors: call init_process_group('ddlemu') or init_process_group('cpu:ddlemu')"
_NO_NCCL = ("this torch has no backend nccl: use the backend ddlemu, or start the job with "
            "`ddlemu run --torch-alias nccl -- COMMAND`, and keep tensors on the CPU")
_NO_LAUNCHER = ("no launcher has set the ranks: start the program with `torchrun --nproc-per-node N PROGRAM` or `python -m "
                "ddlemu_torch.launch --nproc-per-node N PROGRAM`. After mpirun, call init_process_group with rank=, "
                "world_size= and init_method='tcp://127.0.0.1:PORT'")
_NO_PLACE = ("the plugin did not start. A line above with 'will NOT be emulated' says why; if there is none, run again with "
             "NCCL_DEBUG=WARN. If the fabric has no place for this rank: start another number of ranks, or change --nodes or "
             "--set gpus_per_node=N of `ddlemu run`")

# What the text of an error or the line of the program contains, in any version of torch, and what to say then. The first
# that fits counts.
_HINTS: List[Tuple[str, str]] = [
    ("rendezvous: environment variable", _NO_LAUNCHER),
    ("network goemu not found", _NO_PLACE),
    ("Failed to initialize any NET plugin", _NO_PLACE),  # NCCL 2.29
    ("doesn't have NCCL built in", _NO_NCCL),
    ("requires at least one CUDA device", _NO_NCCL),
    ("ProcessGroupNCCL is only supported with GPUs", _NO_NCCL),
    ("Torch not compiled with CUDA enabled", _NO_GPU),
    ("Found no NVIDIA driver", _NO_GPU),
    ("No CUDA GPUs are available", _NO_GPU),
    ("has no attribute '_cuda", _NO_GPU),
    ("deserialize object on a CUDA device", _NO_GPU),
    ("accelerators available: 0", _NO_GPU),
    ("the current compilation's accelerator support: None", _NO_GPU),
    ("torch.cuda.Stream requires CUDA support", _NO_GPU),
    ("CUDA driver version is insufficient", _NO_GPU),
    ("device_ids and output_device arguments only work with", _NO_GPU),
    ("No backend type associated with device type cuda", _NO_GPU),
    ("device_id parameter must be a", _NO_GPU),
    ("torch.accelerator.current_accelerator().", _NO_GPU),  # it is None
    ("No backend type associated with device type", _CPU_ONLY),
]


def find(text: str) -> Optional[str]:
    """Return the hint for the text of an error, or None."""
    return next((hint for part, hint in _HINTS if part in text), None)


def install() -> None:
    """Print the hints for errors that end the main thread."""
    previous = sys.excepthook

    def hook(kind: Type[BaseException], value: BaseException, traceback: Optional[TracebackType]) -> None:
        previous(kind, value, traceback)
        frames = tracebacks.extract_tb(traceback)
        hint = find(f"{value}\n{frames[-1].line if frames else ''}")
        if hint:
            print(f"ddlemu: {hint}", file=sys.stderr, flush=True)

    sys.excepthook = hook
