# SPDX-License-Identifier: Apache-2.0
"""The version of torch, by which this package chooses."""

from typing import Tuple

import torch


def version() -> Tuple[int, int]:
    """Return the version of torch, such as (2, 6)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
