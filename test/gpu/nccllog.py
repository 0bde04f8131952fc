#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the connections in NCCL's logs by transport, and checks the transports.

There is one log file per process, written with NCCL_DEBUG=INFO and at least the subsystems
INIT and NET. NCCL logs a connection over a network at both ends, and a connection over P2P
or shared memory at the sender, as

    Channel 00/0 : 3[3] -> 0[0] [receive] via NET/Socket/0
    Channel 01 : 0[0] -> 1[1] via SHM/direct/direct

The ranks are those of the communicator; in a communicator of all ranks they are the ranks of
the job. NCCL connects at the first collective that needs the connection. The cases use a
communicator before they create the next one, so a line belongs to the latest communicator.
"""

import argparse
import collections
import os
import re
import sys

# The format of NCCL 2.18 to 2.29.
VIA = re.compile(r"NCCL INFO Channel \d+(?:/\d+)? : (\d+)\[[^\]]*\] -> (\d+)\[[^\]]*\](?: \[(?:send|receive)\])? via (\S+)")
# Before 2.21 the name of the call is missing; in 2.29 the rank comes first.
START = re.compile(r"NCCL INFO (?:\[Rank \d+\] )?(?:\w+ )?comm 0x\w+ rank \d+ nranks (\d+) .*Init START")
SHAPE = re.compile(r"NCCL INFO comm 0x\w+ rank (\d+) nRanks (\d+) nNodes (\d+)")
NETWORK = re.compile(r"NCCL INFO Using network (\S+)")
NVLS = re.compile(r"NCCL INFO NVLS comm 0x")
WARN = re.compile(r"NCCL WARN (.*)")


class Comm:
    """A communicator in the log of one rank. ranks and nodes are 0 if they are not in the log."""

    def __init__(self, ranks=0):
        self.ranks, self.nodes = ranks, 0
        self.connections = []  # (from, to, via)
        self.nvls = False


class Log:
    """The log of one process."""

    def __init__(self):
        self.comms, self.networks, self.warnings = [], [], []

    def comm(self):
        if not self.comms:
            self.comms.append(Comm())
        return self.comms[-1]

    def line(self, text):
        start = START.search(text)
        if start:
            self.comms.append(Comm(int(start.group(1))))
            return
        shape = SHAPE.search(text)
        if shape:
            comm = self.comm()
            comm.ranks, comm.nodes = int(shape.group(2)), int(shape.group(3))
            return
        via = VIA.search(text)
        if via:
            self.comm().connections.append((int(via.group(1)), int(via.group(2)), via.group(3)))
        elif NVLS.search(text):
            self.comm().nvls = True
        elif NETWORK.search(text):
            self.networks.append(NETWORK.search(text).group(1))
        elif WARN.search(text):
            self.warnings.append(WARN.search(text).group(1))


def read(paths):
    logs = []
    for path in paths:
        log = Log()
        with open(path, errors="replace") as f:
            for text in f:
                log.line(text)
        logs.append(log)
    return logs


def transport(via):
    """Removes the device and the flags of a network: NET/goemu/0/Shared is NET/goemu."""
    parts = via.split("/")
    return "/".join(parts[:2]) if parts[0] == "NET" else via


def count(logs):
    """Counts the connections by transport."""
    counts = collections.Counter()
    for log in logs:
        for comm in log.comms:
            counts.update(transport(via) for _, _, via in comm.connections)
            if comm.nvls:
                counts["NVLS"] += 1
    return counts


def foreign(logs, net):
    """Returns which network other than net was used, or ""."""
    for log in logs:
        for name in log.networks:
            if name != net:
                return "NCCL uses network %s, not %s" % (name, net)
    other = {w: n for w, n in count(logs).items() if w.startswith("NET/") and w != "NET/" + net}
    return ", ".join("%d connections via %s" % (other[w], w) for w in sorted(other))


def crossing(logs, world, per_node, net, direct):
    """Returns what is wrong with a connection of a communicator of all ranks, or ""."""
    for log in logs:
        for comm in log.comms:
            if comm.ranks != world:
                continue
            nodes = (world + per_node - 1) // per_node
            if comm.nodes and comm.nodes != nodes:
                return "NCCL counted %d nodes, there are %d" % (comm.nodes, nodes)
            for a, b, via in comm.connections:
                across = a // per_node != b // per_node
                if across and transport(via) != "NET/" + net:
                    return "ranks %d and %d are on different nodes, and connected via %s" % (a, b, via)
                if not across and direct and not via.startswith("P2P/"):
                    return "ranks %d and %d are on one node, and connected via %s" % (a, b, via)
    return ""


def unused(logs, comms, net):
    """Returns which communicator did not use the net, or ""."""
    for log in logs:
        used = [any(transport(via) == "NET/" + net for _, _, via in c.connections) for c in log.comms]
        if len(used) != comms:
            return "a rank made %d communicators, not %d" % (len(used), comms)
        if not all(used):
            return "communicator %d of a rank has no connection via NET/%s" % (used.index(False), net)
    return ""


def find_error(logs, o):
    """Returns what is wrong, or ""."""
    counts = count(logs)
    if len(logs) != o.world:
        return "there are %d logs of NCCL for %d ranks" % (len(logs), o.world)
    text = foreign(logs, o.net)
    if text:
        return text
    if o.no_net:
        if counts["NET/" + o.net]:
            return "a connection crosses the network, and none should"
        return "" if counts else "no connection was logged"
    if not counts["NET/" + o.net]:
        return "no connection via NET/" + o.net
    inside = sorted(w for w in counts if not w.startswith("NET/"))
    if o.only_net and inside:
        return "%d connections via %s" % (counts[inside[0]], inside[0])
    if o.direct and not (counts["NVLS"] or any(w.startswith("P2P/") for w in counts)):
        return "neither P2P nor NVLS within a node"
    text = crossing(logs, o.world, o.ranks_per_node, o.net, o.direct)
    return text or (unused(logs, o.comms, o.net) if o.comms else "")


def main():
    p = argparse.ArgumentParser(description="Count and check the transports of NCCL's connections.")
    p.add_argument("--net", default="goemu", help="the only network that may be used")
    p.add_argument("--world", type=int, required=True, help="ranks of the job")
    p.add_argument("--ranks-per-node", type=int, default=1)
    p.add_argument("--comms", type=int, default=0, help="number of communicators of each process; all must use the net")
    p.add_argument("--only-net", action="store_true", help="no P2P, SHM or NVLS at all")
    p.add_argument("--no-net", action="store_true", help="nothing but P2P, SHM or NVLS")
    p.add_argument("--direct", action="store_true", help="P2P or NVLS within a node")
    p.add_argument("folder", help="folder of the logs nccl.*.log")
    o = p.parse_args()
    names = sorted(n for n in os.listdir(o.folder) if n.startswith("nccl.") and n.endswith(".log"))
    logs = read(os.path.join(o.folder, n) for n in names)
    text = find_error(logs, o)
    counts = count(logs)
    counted = ", ".join("%d via %s" % (counts[t], t) for t in sorted(counts)) or "no connections"
    if text:
        warnings = [w for log in logs for w in log.warnings]
        print("%s (%s)%s" % (text, counted, "; NCCL warns: " + warnings[0] if warnings else ""))
        return 1
    print(counted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
