# SPDX-License-Identifier: Apache-2.0
"""What the ranks of all cases share: joining the job, the device, checks.

A rank prints "rank R: ..." lines and ends with status 0 only if all that it checked
was right. With --backend gloo the same checks run on processors without NCCL, to try
the scripts themselves where there is no GPU.
"""

import argparse
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

# Well under a case's limit, so that a rank that waits in vain says so itself.
TIMEOUT = datetime.timedelta(seconds=60)


class Rank:
    """This process's part in the job, from the launcher's variables."""

    def __init__(self, options):
        self.backend = options.backend
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.checks = 0
        self.meetings = 0
        # Apart from the process group's own: it must outlive that, and not be NCCL's.
        self.store = dist.TCPStore("127.0.0.1", options.port, self.world, self.rank == 0, TIMEOUT)
        if self.backend == "nccl":
            # Round robin: ranks share GPUs when there are fewer.
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")

    def say(self, text):
        # One write, so that the ranks' lines do not mix.
        sys.stdout.write("rank %d: %s\n" % (self.rank, text))
        sys.stdout.flush()

    def join(self, **how):
        dist.init_process_group(self.backend, timeout=TIMEOUT, **how)

    def meet(self):
        """Waits for all ranks, without NCCL."""
        self.meetings += 1
        key = "meeting%d" % self.meetings
        self.store.add(key, 1)
        until = time.monotonic() + TIMEOUT.total_seconds()
        while self.store.add(key, 0) < self.world:
            if time.monotonic() > until:
                sys.exit("rank %d: waited in vain for the other ranks" % self.rank)
            time.sleep(0.001)

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def check(self, what, got, want):
        """Ends the process if a tensor differs from what it should be, at any bit."""
        got, want = got.detach().cpu(), want.detach().cpu()
        self.checks += 1
        if got.shape == want.shape and torch.equal(got, want):
            return
        if got.shape != want.shape:
            sys.exit("rank %d: %s: WRONG: shape %s, not %s" % (self.rank, what, list(got.shape), list(want.shape)))
        wrong = (got != want).flatten().nonzero().flatten()
        at = int(wrong[0])
        sys.exit("rank %d: %s: WRONG: %d of %d elements, the first at %d: %s, not %s" % (
            self.rank, what, len(wrong), got.numel(), at, got.flatten()[at].item(), want.flatten()[at].item()))

    def destroy(self):
        """Ends the process group once nobody needs anything of it any more.

        PyTorch may abort NCCL's communicators here, and what a peer still waits for
        would be lost with them.
        """
        self.synchronize()
        self.meet()
        dist.destroy_process_group()

    def leave(self):
        """Ends the process group and the job."""
        self.destroy()
        self.say("%d checks right" % self.checks)
        self.part()

    def part(self):
        """Ends the job. Rank 0 holds the store and goes last; the others ask it nothing any more."""
        self.store.add("gone", 1)
        until = time.monotonic() + TIMEOUT.total_seconds()
        while self.rank == 0 and self.store.add("gone", 0) < self.world and time.monotonic() < until:
            time.sleep(0.01)


def parser(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    p.add_argument("--port", type=int, required=True, help="free TCP port, for the ranks to meet at")
    return p


def pattern(rank, count, dtype, device="cpu"):
    """What a rank sends: whole numbers up to 36 for 4 ranks, so that sums are exact in any type and order."""
    return (torch.arange(count, device=device) % 13 + 8 * rank).to(dtype)
