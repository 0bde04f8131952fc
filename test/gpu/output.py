#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with its standard output in a file, in place of this process:
`output.py FILE COMMAND ARG...`. What the command says on standard error stays apart."""

import os
import sys

fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.dup2(fd, 1)
os.execvp(sys.argv[2], sys.argv[2:])
