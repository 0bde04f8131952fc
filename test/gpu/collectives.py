#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every element of four collectives on every rank, for three sizes."""

import torch
import torch.distributed as dist

import ranks

# Elements per rank: for one message and for many. More would take too long if ranks share a GPU.
COUNTS = (1, 1000, 1 << 18)


def all_reduce(r, count, dtype):
    x = ranks.pattern(r.rank, count, dtype, r.device)
    dist.all_reduce(x)
    return x, sum(ranks.pattern(k, count, dtype) for k in range(r.world))


def all_gather(r, count, dtype):
    x = ranks.pattern(r.rank, count, dtype, r.device)
    out = torch.empty(r.world * count, dtype=dtype, device=r.device)
    if r.backend == "gloo":  # has no tensor form in PyTorch 2.1
        dist.all_gather(list(out.chunk(r.world)), x)
    else:
        dist.all_gather_into_tensor(out, x)
    return out, torch.cat([ranks.pattern(k, count, dtype) for k in range(r.world)])


def reduce_scatter(r, count, dtype):
    x = ranks.pattern(r.rank, count * r.world, dtype, r.device)
    out = torch.empty(count, dtype=dtype, device=r.device)
    dist.reduce_scatter_tensor(out, x)
    whole = sum(ranks.pattern(k, count * r.world, dtype) for k in range(r.world))
    return out, whole.chunk(r.world)[r.rank]


def all_to_all(r, count, dtype):
    x = ranks.pattern(r.rank, count * r.world, dtype, r.device)
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x)
    parts = [ranks.pattern(k, count * r.world, dtype).chunk(r.world)[r.rank] for k in range(r.world)]
    return out, torch.cat(parts)


def main():
    options = ranks.parser(__doc__).parse_args()
    r = ranks.Rank(options)
    r.join()
    todo = [all_reduce, all_gather, reduce_scatter, all_to_all]
    dtypes = [torch.float32, torch.bfloat16, torch.int64]
    if options.backend == "gloo":  # has neither in PyTorch 2.1
        todo.remove(reduce_scatter)
        dtypes.remove(torch.bfloat16)
    for collective in todo:
        for dtype in dtypes:
            for count in COUNTS:
                got, want = collective(r, count, dtype)
                r.check("%s of %d %s" % (collective.__name__, count, dtype), got, want)
    r.leave()


if __name__ == "__main__":
    main()
