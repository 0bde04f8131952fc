# SPDX-License-Identifier: Apache-2.0
"""Other things that a process with the plugin may do."""

import _ctypes
import ctypes
import os
import resource
import sys
import threading

import goemu


def unload():
    """Go cannot be unloaded: dlclose does nothing to its threads and connections."""
    with goemu.job() as (plugin, link):
        _ctypes.dlclose(plugin.lib._handle)
        link.exchange()
        again = goemu.Plugin().init()
        if again.properties().name != plugin.properties().name:
            raise AssertionError("another plugin")


def threads():
    """A thread per link; the thread that called init ends."""
    os.environ["LINKS"] = "4"
    loaded = []

    def load():
        thread = threading.Thread(target=lambda: loaded.append(goemu.Plugin().init()))
        thread.start()
        thread.join()
        return loaded[0]

    failed = []

    def use(link):
        try:
            link.exchange(1, 70000, 1 << 20)
            link.put(b"")
            link.close()
        except Exception as e:
            failed.append(e)

    with goemu.start_peer() as peer:
        plugin = load()
        links = [plugin.link(peer.stdout, peer.stdin) for _ in range(4)]
        users = [threading.Thread(target=use, args=(link,)) for link in links]
        for user in users:
            user.start()
        for user in users:
            user.join()
    if failed:
        raise failed[0]


def preloaded():
    """All memory comes from another allocator."""
    allocated = ctypes.CDLL(None).allocated
    allocated.restype = ctypes.c_size_t
    with goemu.job() as (plugin, link):
        before = allocated()
        plugin.properties()
        link.exchange()
    if not 0 < before < allocated():
        raise AssertionError(f"the allocator was not used: {before}, {allocated()}")


def second(first):
    """Two Go libraries, each with its runtime, in either order."""

    def other():
        lib = ctypes.CDLL(os.environ["SECOND"])
        if (got := lib.work(1000)) != 499500:
            raise AssertionError(f"the other library's goroutines came to {got}")
        return lib

    lib = other() if first else None
    with goemu.job() as (plugin, link):
        lib = lib or other()
        for _ in range(3):
            lib.work(1000)
            link.exchange()
        if lib.recovered() != 1:
            raise AssertionError("the other library does not see its own fault")


def second_first():
    second(True)


def second_last():
    second(False)


def leave_address_space(mebibytes):
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    limit = now + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def address_space():
    with goemu.start_peer() as peer:
        leave_address_space(2048)
        plugin = goemu.Plugin().init()
        link = plugin.link(peer.stdout, peer.stdin)
        link.exchange()
        link.put(b"")
        link.close()


def no_room():
    leave_address_space(512)
    goemu.Plugin().init()


def no_locked_memory():
    """Nothing is locked in memory."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    with goemu.job():
        with open("/proc/self/status") as f:
            locked = [line.split()[1] for line in f if line.startswith(("VmLck", "VmPin"))]
    if locked != ["0", "0"]:
        raise AssertionError(f"locked: {locked} kB")


globals()[sys.argv[1]](*sys.argv[2:])
print("ok")
