#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command for a limited time and leaves none of its processes behind.

torchrun starts its ranks in sessions of their own, so neither a signal to a process
group nor timeout(1) reaches them. This program makes itself the parent of orphaned
descendants (a subreaper), so that it finds every one of them, and ends only those.

Exit status: the command's, 128 + N if signal N ended it, 124 if time ran out, 130 if
this program was told to stop, 127 if the command cannot be started.
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
REAP = 10.0  # seconds to wait for killed processes; one stuck in the driver stays longer


class Stop(Exception):
    """A signal told this program to stop."""


def prctl(option, value):
    # Only ever makes the clean-up better: where it is refused, what the command
    # itself ends is ended all the same.
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def parents():
    """Returns the parent of every process that can be seen."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as f:
                # The name in parentheses may hold anything.
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if fields and fields[0] != "Z":
            found[int(entry)] = int(fields[1])
    return found


def descendants():
    """Returns the processes below this one, those that have ended left out."""
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
    """Kills every descendant; returns those that could not be."""
    until = time.monotonic() + REAP
    while True:
        reap()
        left = descendants()
        if not left or time.monotonic() > until:
            return left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


def stop(number, frame):
    raise Stop


def wait(process, seconds):
    """Waits for the command; returns its status, or None if time ran out."""
    try:
        status = process.wait(timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        return None
    return 128 - status if status < 0 else status


def say(text):
    print("guard: " + text, file=sys.stderr, flush=True)


def run(command, seconds):
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # If whoever started this program is killed, so is what it started.
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    process = None
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        status = wait(process, seconds)
        if status is None:
            status = 124
            say("time ran out after %.0f s" % seconds)
            process.terminate()  # torchrun ends its ranks
            wait(process, GRACE)
    except OSError as e:
        say(str(e))
        return 127
    except Stop:
        status = 130
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        outlived = ["%d (%s)" % (pid, name(pid)) for pid in descendants()]
        stuck = end_all()
    if outlived and status not in (124, 130):
        say("ended what outlived the command: " + ", ".join(outlived))
    if stuck:
        say("could not end " + ", ".join("%d (%s)" % (pid, name(pid)) for pid in stuck))
    return status


def main():
    parser = argparse.ArgumentParser(description="Run a command for a limited time and end all it started.")
    parser.add_argument("--timeout", type=float, required=True, metavar="SECONDS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command is given")
    return run(command, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
