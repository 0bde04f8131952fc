# SPDX-License-Identifier: Apache-2.0
"""The host program's signal handlers, set before and after the plugin is loaded."""

import _thread
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time

import goemu

HANDLED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGALRM, signal.SIGURG, signal.SIGPROF, signal.SIGPIPE]


def install():
    seen = []
    for s in HANDLED:
        signal.signal(s, lambda number, frame: seen.append(number))
    return seen


def arrive(plugin, link, seen):
    """Each signal reaches its handler once."""
    for s in HANDLED:
        os.kill(os.getpid(), s)
        link.exchange(4096)
    if seen != HANDLED:
        raise AssertionError(f"handled {seen}")
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    if seen.count(signal.SIGCHLD) != 2:
        raise AssertionError(f"no SIGCHLD of a child: {seen}")


def keyboard(plugin, link):
    """Ctrl-C while NCCL waits for a message."""
    request = link.irecv()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        goemu.until(lambda: link.done(request), "a message that nobody sends")
    except KeyboardInterrupt:
        pass
    link.put(b"abc")
    goemu.until(lambda: link.done(request), "the receive's end")


def waited(plugin, link):
    """A program that blocks a signal everywhere, to wait for it in one thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getpid(), signal.SIGTERM)
    link.exchange()
    if signal.sigwait([signal.SIGTERM]) != signal.SIGTERM:
        raise AssertionError("another signal")


def profiled(plugin, link):
    """A profiler's timer interrupts everything, all the time."""
    ticks = []
    signal.signal(signal.SIGPROF, lambda number, frame: ticks.append(1))
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    end = time.monotonic() + goemu.PATIENCE
    while len(ticks) < 20 and time.monotonic() < end:
        link.exchange(65536)
    signal.setitimer(signal.ITIMER_PROF, 0)
    if len(ticks) < 20:
        raise AssertionError(f"{len(ticks)} ticks of the profiler's timer")


def broken_pipe(plugin, link):
    """Python ignores SIGPIPE and gets an error instead."""
    r, w = os.pipe()
    os.close(r)
    try:
        os.write(w, b"x")
    except BrokenPipeError:
        return
    raise AssertionError("no error")


def handlers_before():
    seen = install()
    with goemu.job() as (plugin, link):
        arrive(plugin, link, seen)


def handlers_after():
    with goemu.job() as (plugin, link):
        arrive(plugin, link, install())


def caught():
    """The signals that have a handler, in Python or not."""
    with open("/proc/self/status") as f:
        mask = int(next(line.split()[1] for line in f if line.startswith("SigCgt")), 16)
    return {s for s in signal.valid_signals() if mask >> (s - 1) & 1}


# Go's handlers for these pass them on; the C library's threads use the first two.
HANDLED_BY_GO = {32, 33, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGPIPE}


def no_handlers():
    blocked, before = {signal.SIGUSR2}, caught()
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    with goemu.job() as (plugin, link):
        if (got := signal.pthread_sigmask(signal.SIG_BLOCK, [])) != blocked:
            raise AssertionError(f"the thread that loaded the plugin blocks {got}")
        if handled := caught() - before - HANDLED_BY_GO:
            raise AssertionError(f"the plugin handles {handled}")
        for case in (broken_pipe, keyboard, profiled, waited):
            case(plugin, link)


def ignored(pid="self"):
    """The signals that a process ignores."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        mask = int(next(line.split()[1] for line in f if line.startswith("SigIgn")), 16)
    return {s for s in signal.valid_signals() if mask >> (s - 1) & 1}


def ignored_before():
    """What the program ignores, it ignores with the plugin too, and so do programs that it starts."""
    for s in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(s, signal.SIG_IGN)
    before = ignored()
    with goemu.job() as (plugin, link):
        if ignored() != before:
            raise AssertionError(f"ignores {ignored()}, and before {before}")
        child = subprocess.Popen(["sleep", "60"], restore_signals=False)
        try:
            if ignored(child.pid) != before:
                raise AssertionError(f"a child ignores {ignored(child.pid)}")
        finally:
            child.kill()
            child.wait()
        broken_pipe(plugin, link)


def die(how):
    goemu.Plugin().init()
    how()


def fault():
    goemu.ctypes.string_at(8)


def fault_default():
    die(fault)


def fault_before():
    faulthandler.enable()
    die(fault)


def fault_after():
    die(lambda: (faulthandler.enable(), fault()))


def fault_in_thread():
    faulthandler.enable()
    die(lambda: (_thread.start_new_thread(fault, ()), time.sleep(goemu.PATIENCE)))


def aborted():
    faulthandler.enable()
    die(os.abort)


def terminated():
    die(lambda: os.kill(os.getpid(), signal.SIGTERM))


def pipe_kills():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    r, w = os.pipe()
    os.close(r)
    die(lambda: os.write(w, b"x"))


globals()[sys.argv[1]]()
print("ok")
