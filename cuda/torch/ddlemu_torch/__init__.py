# SPDX-License-Identifier: Apache-2.0
"""The backend "ddlemu" of torch.distributed: CPU tensors over real NCCL, on ddlemu's software CUDA.

`ddlemu run` puts this package where torch finds it, so that a program needs no import of it:

    dist.init_process_group("ddlemu")

torch below 2.5 does not look for backends: there `ddlemu run` loads this package when the program has imported torch.

A program of another backend, such as "ccl", runs with this one if a stub of that backend's module calls

    ddlemu_torch.register("ccl")
"""

__all__ = ["Step", "StepTimer", "create_group", "register", "step"]


def register(name: str = "ddlemu") -> None:
    """Register the backend under a name. torch calls it when it is imported (entry point torch.backends)."""
    from ._register import register as implementation

    implementation(name)


# A program that imports this package first makes torch call register during the import of torch.
import torch  # noqa: E402, F401

from ._register import create_group  # noqa: E402
from ._step import step  # noqa: E402
from ._step_timer import Step, StepTimer  # noqa: E402

register()
