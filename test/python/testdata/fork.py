# SPDX-License-Identifier: Apache-2.0
"""Forks of a process with the plugin, as data loaders do."""

import multiprocessing
import os
import signal
import sys
import time

import goemu

# Longer than the peer needs to notice that this rank has left.
NOTICE = 0.6


def status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def expect(got, want):
    if got != want:
        raise AssertionError(f"got {got}, want {want}")


def still_works(link):
    link.exchange()
    time.sleep(NOTICE)
    link.exchange()


def os_exit(plugin, link):
    if (pid := os.fork()) == 0:
        os._exit(7)
    expect(status(pid), 7)


def sys_exit(plugin, link):
    # With all functions that the interpreter and the C library run at the end.
    if (pid := os.fork()) == 0:
        sys.exit(8)
    expect(status(pid), 8)


def killed(plugin, link):
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(1)
    still_works(link)
    os.kill(pid, signal.SIGKILL)
    expect(status(pid), -signal.SIGKILL)


def crashed(plugin, link):
    if (pid := os.fork()) == 0:
        os.abort()
    expect(status(pid), -signal.SIGABRT)


def square(n):
    return n * n


def workers(plugin, link):
    with multiprocessing.get_context("fork").Pool(3) as pool:
        squares = pool.map_async(square, range(3000), 10)
        still_works(link)
        expect(squares.get(goemu.PATIENCE), [n * n for n in range(3000)])


def executed(plugin, link):
    """Another program gets none of the plugin's descriptors."""
    if (pid := os.fork()) == 0:
        os.execv("/bin/sh", ["sh", "-c", "! ls -l /proc/$$/fd | grep -E 'ddlemu|socket|eventpoll|eventfd'"])
    expect(status(pid), 0)


def calls(plugin, link):
    """In a child that uses NCCL, every call that can fail does."""
    if (pid := os.fork()) == 0:
        results, out = [], goemu.c_void_p()
        for call in (
            plugin.init,
            plugin.properties,
            lambda: plugin.link(sys.stdin, sys.stderr),
            lambda: goemu.check("connect", plugin.net.connect(0, bytes(goemu.HANDLE_SIZE), goemu.byref(out), goemu.byref(out))),
            lambda: link.isend(b"x"),
            link.irecv,
        ):
            try:
                call()
                results.append(0)
            except goemu.NetError as e:
                results.append(e.result)
        link.close()  # as destructors do; it does nothing
        sys.exit(0 if results == [2] * len(results) else f"results {results}")
    expect(status(pid), 0)


def load():
    """A child forked between load and init: Go's threads exist already."""
    plugin = goemu.Plugin()
    if (pid := os.fork()) == 0:
        try:
            plugin.init()
        except goemu.NetError as e:
            os._exit(10 + e.result)
        os._exit(1)
    expect(status(pid), 12)
    return plugin.init()


cases = sys.argv[1:]
with goemu.job(load) if "before_init" in cases else goemu.job() as (plugin, link):
    for case in cases:
        if case != "before_init":
            globals()[case](plugin, link)
        still_works(link)
print("ok")
