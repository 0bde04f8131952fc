#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures an all_reduce into a CUDA graph and replays it 10 times with new values."""

import os

# As PyTorch's notes on CUDA graphs ask for: the watchdog's queries of events must not
# fall into a capture. The first name is PyTorch 2.1's, the second that of 2.2 and later.
os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "0"
os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"

import torch
import torch.distributed as dist

import ranks

COUNT = 1 << 16
REPLAYS = 10


def value(rank, replay):
    """What a rank puts in before a replay; whole numbers, so that the sum is exact."""
    return float(10 * (replay + 1) + rank)


def main():
    r = ranks.Rank(ranks.parser(__doc__).parse_args())
    r.join()
    x = torch.zeros(COUNT, device=r.device)
    out = torch.zeros(COUNT, device=r.device)

    # Connections are made by the first calls, which cannot be captured.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(out)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    graph = torch.cuda.CUDAGraph()
    # thread_local: NCCL's and PyTorch's own threads may call CUDA meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out.copy_(x)
        out.mul_(2)
        dist.all_reduce(out)
    for replay in range(REPLAYS):
        x.fill_(value(r.rank, replay))
        out.fill_(-1)
        graph.replay()
        torch.cuda.synchronize()
        want = 2 * sum(value(k, replay) for k in range(r.world))
        r.check("replay %d" % replay, out, torch.full((COUNT,), want))
    # NCCL waits for the graphs that hold a communicator before it ends that.
    graph.reset()
    del graph
    r.leave()


if __name__ == "__main__":
    main()
