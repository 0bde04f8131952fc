# SPDX-License-Identifier: Apache-2.0
"""Starts the command: `python -m ddlemu`."""

import os
import sys

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ddlemu")


def main() -> None:
    """Replace this process by ddlemu."""
    os.execv(_PROGRAM, ["ddlemu", *sys.argv[1:]])


def ssh() -> None:
    """Replace this process by `ddlemu ssh`, which ddlemu knows by its name."""
    os.execv(_PROGRAM, ["ddlemu-ssh", *sys.argv[1:]])


if __name__ == "__main__":
    main()
