# SPDX-License-Identifier: Apache-2.0
"""What the examples share: arguments, the start and the end of a rank, printing, and the hash of the weights."""

import argparse
import gc
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist

# Gradients are rounded to multiples of this. See exact.
GRID = 2.0 ** -20


def version():
    """Return the version of torch, such as (2, 6)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def arguments(description, steps):
    """Return a parser of the arguments that all examples have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--backend", default="ddlemu", help="of torch.distributed: ddlemu, or gloo for comparison")
    parser.add_argument("--steps", type=int, default=steps, help="training steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and the data (default: %(default)s)")
    parser.add_argument("--exact", action=argparse.BooleanOptionalAction, default=True,
                        help="round gradients, so that their sum is the same in any order of the additions")
    return parser


def need(oldest, what):
    """End the program, with one line, if torch is older than a version such as (2, 6).

    Each rank prints it: when one ends, the launcher may end the others before they come here.
    """
    if version() < oldest:
        sys.exit(f"{what} needs torch {oldest[0]}.{oldest[1]} or later, and this is torch {torch.__version__}")


def run(train, parser):
    """Join the process group, call train with the arguments, and print the hash of the weights that it returns."""
    args = parser.parse_args()
    join(args.backend)
    torch.manual_seed(args.seed)
    print_hashes(train(args))
    leave()


def join(backend):
    """Join the process group of all ranks."""
    dist.init_process_group(backend)


def leave():
    """Leave the process group."""
    dist.barrier()
    last = dist.get_rank() == 0 and version() < (2, 0)
    gc.collect()  # a model of DDP that still exists makes gloo of torch 1.13 hang in destroy_process_group
    dist.destroy_process_group()
    if last:  # rank 0 has the store. When it ends, threads of torch 1.13 in the other ranks spin, so they end first
        time.sleep(1)


def say(*words):
    """Print a line, on rank 0 only."""
    if dist.get_rank() == 0:
        print(*words, flush=True)


def progress(items, title):
    """Return the items. On a terminal show how many are done: with tqdm if it is installed, else in a line."""
    if os.environ.get("RANK", "0") != "0" or not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm
    except ImportError:
        return _counted(items, title)
    return tqdm(items, desc=title, leave=False)


def _counted(items, title):
    for number, item in enumerate(items):
        print(f"\r{title}: {number} of {len(items)} ", end="", file=sys.stderr, flush=True)
        yield item
    print("\r\033[K", end="", file=sys.stderr, flush=True)


def exact(gradient):
    """Round a gradient to multiples of 2^-20. Return it.

    The order in which floats are added changes the last bits of their sum. NCCL and gloo have different orders on more
    than two ranks. Sums of multiples of one number are exact while they are below 2^24 times that number, and so the
    same in any order.
    """
    return torch.round(gradient / GRID) * GRID


def gathered(value):
    """Return the numbers of all ranks, in the order of the ranks."""
    value = torch.as_tensor(value).detach().reshape(1)
    values = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(values, value)
    return torch.cat(values)


def mean(value):
    """Return the mean of a number over all ranks, added up in the order of the ranks."""
    return gathered(value).mean().item()


def print_hashes(weights):
    """Print the SHA-256 of the weights of each rank."""
    data = b"".join(w.detach().contiguous().numpy().tobytes() for w in weights)
    digest = torch.tensor(list(hashlib.sha256(data).digest()), dtype=torch.uint8)
    digests = [torch.zeros_like(digest) for _ in range(dist.get_world_size())]
    dist.all_gather(digests, digest)
    for rank, found in enumerate(digests):
        say(f"weights of rank {rank}: {bytes(found.tolist()).hex()}")
