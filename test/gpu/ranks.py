# SPDX-License-Identifier: Apache-2.0
"""The common code of the ranks of all cases: joining the job, the device, checks.

A rank prints lines "rank R: ...". Its exit status is 0 only if all of its checks passed. With
--backend gloo the same checks run on CPUs without NCCL, to test the scripts without a GPU.
"""

import argparse
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

# Much shorter than the limit of a case, so that a rank reports a timeout before the case ends.
TIMEOUT = datetime.timedelta(seconds=60)


class Rank:
    """This process's rank, from the launcher's environment variables."""

    def __init__(self, options):
        self.backend = options.backend
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.checks = 0
        self.meetings = 0
        # A separate store, because it is used after the process group is destroyed.
        self.store = dist.TCPStore("127.0.0.1", options.port, self.world, self.rank == 0, TIMEOUT)
        if self.backend == "nccl":
            # Ranks share GPUs if there are fewer GPUs than ranks.
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")

    def say(self, text):
        # One write, so that lines of different ranks do not mix.
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
                sys.exit("rank %d: timeout: not all ranks came to the meeting" % self.rank)
            time.sleep(0.001)

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def check(self, what, got, want):
        """Ends the process with an error if a tensor differs from the correct one in any bit."""
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
        """Destroys the process group when all ranks are done with it.

        PyTorch may abort NCCL's communicators here. A peer that still waits for data would
        not receive it.
        """
        self.synchronize()
        self.meet()
        dist.destroy_process_group()

    def leave(self):
        """Destroys the process group and ends the job."""
        self.destroy()
        self.say("%d checks right" % self.checks)
        self.end()

    def end(self):
        """Ends the job. Rank 0 has the store, so it waits until the other ranks have finished with it."""
        self.store.add("gone", 1)
        until = time.monotonic() + TIMEOUT.total_seconds()
        while self.rank == 0 and self.store.add("gone", 0) < self.world and time.monotonic() < until:
            time.sleep(0.01)


def parser(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    p.add_argument("--port", type=int, required=True, help="free TCP port of the store that the ranks share")
    return p


def pattern(rank, count, dtype, device="cpu"):
    """Returns a rank's input: integers up to 36 for 4 ranks, so that sums are exact in any type and order."""
    return (torch.arange(count, device=device) % 13 + 8 * rank).to(dtype)
