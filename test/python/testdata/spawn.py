# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing.spawn: the ranks are children that set their own RANK, of a
parent that was rank 0 itself and has the plugin loaded."""

import ctypes
import multiprocessing
import os

import goemu


class Pipe:
    """A connection of multiprocessing with the two methods that link uses."""

    def __init__(self, connection):
        self.write, self.readline, self.flush = connection.send, connection.recv, lambda: None


def environment(name):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return getenv(name)


def rank(number, connection):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(number), "2"
    plugin = goemu.Plugin().init()
    if (host := environment(b"NCCL_HOSTID")) != b"ddlemu-node%d" % number:
        raise AssertionError(f"rank {number}: NCCL_HOSTID={host}")
    if not any(f"rank {number} is on node{number}" in line for line in plugin.log):
        raise AssertionError(plugin.log)
    link = plugin.link(Pipe(connection), Pipe(connection))
    if number == 0:
        link.exchange()
        link.put(b"")
    else:
        link.serve()
    link.close()


if __name__ == "__main__":
    goemu.Plugin()
    if (host := environment(b"NCCL_HOSTID")) != b"ddlemu-node0":
        raise AssertionError(f"parent: NCCL_HOSTID={host}")
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=rank, args=(i, end)) for i, end in enumerate(spawn.Pipe())]
    for r in ranks:
        r.start()
    for r in ranks:
        r.join(goemu.PATIENCE)
    if any(r.exitcode != 0 for r in ranks):
        raise AssertionError([r.exitcode for r in ranks])
    print("ok")
