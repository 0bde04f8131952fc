#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Creates the process group, uses it and destroys it, three times in one process."""

import torch
import torch.distributed as dist

import ranks

ROUNDS = 3
COUNT = 1 << 16


def main():
    r = ranks.Rank(ranks.parser(__doc__).parse_args())
    for turn in range(ROUNDS):
        # A prefix per round: in the second round torchrun's store still has the keys of the
        # first, such as NCCL's unique id.
        r.join(store=dist.PrefixStore("round%d" % turn, r.store), rank=r.rank, world_size=r.world)
        x = ranks.pattern(r.rank, COUNT, torch.float32, r.device) + turn
        dist.all_reduce(x)
        want = sum(ranks.pattern(k, COUNT, torch.float32) + turn for k in range(r.world))
        r.check("all_reduce in round %d" % turn, x, want)
        r.destroy()
    r.say("%d checks right" % r.checks)
    r.end()


if __name__ == "__main__":
    main()
