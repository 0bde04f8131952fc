#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures an all_reduce into a CUDA graph and replays it 10 times with new values."""

import os

# PyTorch's notes on CUDA graphs require this: the watchdog must not query events during a
# capture. The first name is for PyTorch 2.1, the second for 2.2 and later.
os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "0"
os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"

import torch
import torch.distributed as dist

import ranks

COUNT = 1 << 16
REPLAYS = 10


def value(rank, replay):
    """Returns a rank's input of a replay: an integer, so that the sum is exact."""
    return float(10 * (replay + 1) + rank)


def main():
    r = ranks.Rank(ranks.parser(__doc__).parse_args())
    r.join()
    x = torch.zeros(COUNT, device=r.device)
    out = torch.zeros(COUNT, device=r.device)

    # The first calls create connections, which is not possible during a capture.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(out)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    graph = torch.cuda.CUDAGraph()
    # thread_local: threads of NCCL and PyTorch may call CUDA during the capture.
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
    # Before NCCL destroys a communicator, it waits for the graphs that use it.
    graph.reset()
    del graph
    r.leave()


if __name__ == "__main__":
    main()
