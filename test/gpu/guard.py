#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with a time limit and ends all of its processes.

torchrun starts its ranks in separate sessions, so neither a signal to a process group nor
timeout(1) reaches them. This program is a subreaper: orphaned descendants become its
children, so it finds all of them. It ends no other processes.

Exit status: that of the command, 128 + N if signal N ended it, 124 if the time limit was
reached, 130 if this program was stopped by a signal, 127 if the command cannot be started.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
REAP = 10.0  # seconds to wait for killed processes; a process that is blocked in the driver can need longer


class Stop(Exception):
    """A signal stops this program."""


def prctl(option, value):
    # An error is ignored: the command itself is still ended, orphaned processes may not be.
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def parents():
    """Returns the parent of every visible process."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as f:
                # The name in parentheses can contain any character.
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if fields and fields[0] != "Z":
            found[int(entry)] = int(fields[1])
    return found


def descendants():
    """Returns the descendants of this process that have not ended."""
    of = parents()
    below, found = {os.getpid()}, []
    while True:
        new = [pid for pid, parent in of.items() if parent in below and pid not in below]
        if not new:
            return found
        below.update(new)
        found.extend(new)


def name(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return "?"


def reap():
    """Collects children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def end_all():
    """Kills all descendants. Returns those that have not ended after REAP seconds."""
    until = time.monotonic() + REAP
    while True:
        reap()
        remaining = descendants()
        if not remaining or time.monotonic() > until:
            return remaining
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def stop(number, frame):
    raise Stop


def wait(process, seconds):
    """Waits for the command. Returns its status, or None after the time limit."""
    try:
        status = process.wait(timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        return None
    return 128 - status if status < 0 else status


def report(text):
    print("guard: " + text, file=sys.stderr, flush=True)


def run(command, seconds):
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # If the parent of this program is killed, end the command too.
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    process = None
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        status = wait(process, seconds)
        if status is None:
            status = 124
            report("time limit of %.0f s reached" % seconds)
            process.terminate()  # torchrun ends its ranks
            wait(process, GRACE)
    except OSError as e:
        report(str(e))
        return 127
    except Stop:
        status = 130
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        outlived = ["%d (%s)" % (pid, name(pid)) for pid in descendants()]
        stuck = end_all()
    if outlived and status not in (124, 130):
        report("ended processes that the command left running: " + ", ".join(outlived))
    if stuck:
        report("could not end " + ", ".join("%d (%s)" % (pid, name(pid)) for pid in stuck))
    return status


def main():
    parser = argparse.ArgumentParser(description="Run a command with a time limit and end all of its processes.")
    parser.add_argument("--timeout", type=float, required=True, metavar="SECONDS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command is given")
    return run(command, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
