# SPDX-License-Identifier: Apache-2.0
"""The backend "ddlemu" of torch.distributed: CPU tensors over real NCCL, on ddlemu's software CUDA.

`ddlemu run` puts this package where torch finds it, so that a program needs no import of it:

    dist.init_process_group("ddlemu")

torch below 2.5 does not look for backends: there the program has to `import ddlemu_torch` first.

A program of another backend, such as "ccl", runs with this one if a stub of that backend's module calls

    ddlemu_torch.register("ccl")
"""

from ._register import create_group, register
from ._step_timer import Step, StepTimer

__all__ = ["Step", "StepTimer", "create_group", "register"]

register()
