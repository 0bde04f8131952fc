#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the process group, uses it and destroys it, three times in one process."""

import torch
import torch.distributed as dist

import ranks

ROUNDS = 3
COUNT = 1 << 16


def main():
    r = ranks.Rank(ranks.parser(__doc__).parse_args())
    for turn in range(ROUNDS):
        # With a prefix per round: torchrun's store still has the first round's keys in
        # the second, and NCCL's id is one of them.
        r.join(store=dist.PrefixStore("round%d" % turn, r.store), rank=r.rank, world_size=r.world)
        x = ranks.pattern(r.rank, COUNT, torch.float32, r.device) + turn
        dist.all_reduce(x)
        want = sum(ranks.pattern(k, COUNT, torch.float32) + turn for k in range(r.world))
        r.check("all_reduce in round %d" % turn, x, want)
        r.destroy()
    r.say("%d checks right" % r.checks)
    r.part()


if __name__ == "__main__":
    main()
