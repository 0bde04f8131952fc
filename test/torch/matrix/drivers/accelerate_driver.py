# SPDX-License-Identifier: Apache-2.0
"""Runs a test script of accelerate, which the argument names, on the CPU.

Without PartialState(cpu=True) test_ops would run on one rank alone.
"""

import runpy
import sys

from accelerate import PartialState
from accelerate.test_utils import scripts

PartialState(cpu=True)
name = sys.argv.pop()
runpy.run_path(f"{list(scripts.__path__)[0]}/{name}.py", run_name="__main__")
