# SPDX-License-Identifier: Apache-2.0
"""Stands for a training script: each worker of torchrun becomes PROGRAM, which uses
NCCL. Debian's PyTorch is built without it."""

import os

os.execv(os.environ["PROGRAM"], [os.environ["PROGRAM"]])
