#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replaces this process by a command whose standard output is a file: `output.py FILE COMMAND
ARG...`. Standard error is not redirected."""

import os
import sys

fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.dup2(fd, 1)
os.execvp(sys.argv[2], sys.argv[2:])
