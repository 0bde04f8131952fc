#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs collectives in groups of ranks, within a node or across nodes, and never in a group of all
ranks, so that NCCL's log has only the connections of these groups."""

import torch
import torch.distributed as dist

import ranks

COUNTS = (1, 1 << 18)


def members(kind, world, per_node):
    """Returns the groups: the ranks of each node, or the ranks with the same index on every node."""
    if kind == "within":
        return [list(range(first, first + per_node)) for first in range(0, world, per_node)]
    return [list(range(place, world, per_node)) for place in range(per_node)]


def main():
    p = ranks.parser(__doc__)
    p.add_argument("--kind", choices=("within", "across"), required=True)
    p.add_argument("--ranks-per-node", type=int, default=2)
    options = p.parse_args()
    r = ranks.Rank(options)
    r.join()
    lists = members(options.kind, r.world, options.ranks_per_node)
    groups = [dist.new_group(m, timeout=ranks.TIMEOUT) for m in lists]  # every rank must create all of them
    for group, m in zip(groups, lists):
        if r.rank not in m:
            continue
        for count in COUNTS:
            x = ranks.pattern(r.rank, count, torch.float32, r.device)
            dist.all_reduce(x, group=group)
            r.check("all_reduce of %d in %s" % (count, m), x, sum(ranks.pattern(k, count, torch.float32) for k in m))
            x = torch.full((count,), -1.0, device=r.device)
            if r.rank == m[-1]:
                x = ranks.pattern(r.rank, count, torch.float32, r.device)
            dist.broadcast(x, src=m[-1], group=group)
            r.check("broadcast of %d in %s" % (count, m), x, ranks.pattern(m[-1], count, torch.float32))
    r.leave()


if __name__ == "__main__":
    main()
