# SPDX-License-Identifier: Apache-2.0
"""What the test programs share."""

import datetime
import faulthandler
import os
import signal
import sys

import torch
import torch.distributed as dist


def version():
    """Return the version of torch, such as (2, 6)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


# A program that hangs, or prints nothing for as long, prints where, and ends.
HANG = int(os.environ.get("HANG", 80))  # seconds
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm(HANG)

if version() < (2, 5) and "DDLEMU_TORCH_NCCL" not in os.environ:  # it does not look for backends, nor does ddlemu run
    import ddlemu_torch  # noqa: F401


def start(backend="ddlemu", timeout=60.0):
    """Initialise torch.distributed and return rank and size."""
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout))
    return dist.get_rank(), dist.get_world_size()


def say(*words):
    """Print a line at once, with the rank before it."""
    signal.alarm(HANG)
    sys.stdout.write(" ".join(["rank", os.environ["RANK"], *map(str, words)]) + "\n")
    sys.stdout.flush()


def check(condition, *words):
    """End the program with an error unless the condition holds."""
    if not condition:
        say("WRONG", *words)
        os._exit(1)


def same(got, want, *words):
    """Check every element of a tensor."""
    check(got.shape == want.shape and got.dtype == want.dtype, *words, "got", got.shape, got.dtype, "want", want.shape)
    check(torch.equal(got, want), *words, "got", got.flatten()[:8], "want", want.flatten()[:8])
