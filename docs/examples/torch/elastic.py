# SPDX-License-Identifier: Apache-2.0
"""Elastic restart: a rank is killed, torchrun starts all ranks again, and these go on from the last checkpoint.

The weights at the end are those of a run without interruption, to the bit. Start it with `torchrun --max-restarts 1`.
"""

import os
import signal

import torch
import torch.distributed as dist
from cnn_ddp import BATCH, digits, new_network
from common import arguments, exact, mean, run, say
from torch.nn.parallel import DistributedDataParallel


def save(path, step, network, optimiser):
    """Write a checkpoint. Another one is replaced as a whole, so that a kill never leaves half of one."""
    torch.save({"step": step, "network": network.state_dict(), "optimiser": optimiser.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def train(args):
    """Train from the checkpoint, if there is one. Return the weights."""
    rank, size = dist.get_rank(), dist.get_world_size()
    network = new_network()
    if args.exact:
        for parameter in network.parameters():
            parameter.register_hook(exact)  # called before DDP adds up the gradients of all ranks
    optimiser = torch.optim.Adam(network.parameters(), lr=0.005)
    begin = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        network.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        begin = state["step"]
    say(f"start at step {begin}")
    model = DistributedDataParallel(network)
    for step in range(begin, args.steps):
        if step == args.kill and begin == 0 and rank == size - 1:
            print(f"rank {rank} kills itself at step {step}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        images, labels = digits(BATCH, args.seed * 1_000_003 + step)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[rank::size]), labels[rank::size])
        loss.backward()
        optimiser.step()
        if step % 5 == 4 or step == args.steps - 1:
            say(f"step {step:3}  loss {mean(loss):.6f}")
            if rank == 0:
                save(args.checkpoint, step + 1, network, optimiser)
    if rank == 0:
        os.remove(args.checkpoint)
    return list(network.parameters())


if __name__ == "__main__":
    parser = arguments(__doc__, steps=30)
    parser.add_argument("--checkpoint", default="elastic.pt", metavar="FILE", help="(default: %(default)s)")
    parser.add_argument("--kill", type=int, metavar="STEP", help="the last rank kills itself before this step, once")
    run(train, parser)
