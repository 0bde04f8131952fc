# SPDX-License-Identifier: Apache-2.0
"""The backend "ddlemu" of torch.distributed: CPU tensors over real NCCL, on ddlemu's software CUDA.

`ddlemu run` puts this package where torch finds it, so that a program needs no import of it:

    dist.init_process_group("ddlemu")

torch below 2.5 does not look for backends: there the program has to `import ddlemu_torch` first.
"""

from ._register import register
from ._step_timer import Step, StepTimer

__all__ = ["Step", "StepTimer", "register"]

register()
