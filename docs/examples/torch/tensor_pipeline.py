# SPDX-License-Identifier: Apache-2.0
"""Tensor and pipeline parallel: the ranks are a mesh of 2 pipeline stages x tensor parts (4 ranks: 2 x 2).

The model reads the digits of cnn_ddp.py. Each stage has half of the blocks, and the ranks of a stage have parts of each
block's two matrices. With 2 nodes a stage is a node: sums of parts stay in the node, activations and their gradients
cross the link. Where torch has no torch.distributed.pipelining, and with --by-hand, by_hand.py takes its place.
"""

import by_hand
import torch
import torch.distributed as dist
from cnn_ddp import digits
from common import arguments, gathered, run, say, version
from torch import nn
from torch.nn.functional import cross_entropy

STAGES, BATCH, MICROBATCHES = 2, 64, 4
WIDTH, HIDDEN, BLOCKS = 64, 256, 4


class Block(nn.Module):
    """Two matrices, whose result is added to the input."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def stages():
    """Return the model, as a module per stage."""
    blocks = [Block() for _ in range(BLOCKS)]
    return [nn.Sequential(nn.Flatten(), nn.Linear(144, WIDTH), *blocks[:BLOCKS // 2]),
            nn.Sequential(*blocks[BLOCKS // 2:], nn.Linear(WIDTH, 10))]


def with_torch(args):
    """Return this rank's module and the function that makes a step, both by torch's own packages."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (STAGES, dist.get_world_size() // STAGES), mesh_dim_names=("pipeline", "tensor"))
    index = mesh["pipeline"].get_local_rank()
    module = stages()[index]
    for block in module:
        if isinstance(block, Block):
            parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    stage = PipelineStage(module, index, STAGES, torch.device("cpu"), group=mesh["pipeline"].get_group())
    schedule = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[args.schedule](stage, MICROBATCHES, cross_entropy)

    def step(images, labels):
        losses = []
        if index == 0:
            schedule.step(images)
        else:
            schedule.step(target=labels, losses=losses)
        return sum(losses) / MICROBATCHES

    return module, step


def train(args):
    """Train. Return this rank's part of the weights."""
    size = dist.get_world_size()
    if size % STAGES:
        raise SystemExit(f"{size} ranks are not divisible by {STAGES} stages: start 2 or 4 ranks")
    hand = args.by_hand or version() < (2, 6)
    say(f"{STAGES} stages x {size // STAGES} parts,", "by hand" if hand else f"schedule {args.schedule}")
    module, step = by_hand.prepare(stages(), MICROBATCHES, cross_entropy) if hand else with_torch(args)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.002)
    for number in range(args.steps):
        images, labels = digits(BATCH, args.seed * 1_000_003 + number)
        optimiser.zero_grad()
        loss = step(images, labels)
        optimiser.step()
        if number % 5 == 0 or number == args.steps - 1:
            say(f"step {number:3}  loss {gathered(loss)[-1]:.6f}")  # the last stage has it
    return [p.to_local() if hasattr(p, "to_local") else p for p in module.parameters()]


if __name__ == "__main__":
    parser = arguments(__doc__, steps=30)
    parser.add_argument("--schedule", choices=["gpipe", "1f1b"], default="gpipe", help="of the pipeline")
    parser.add_argument("--by-hand", action="store_true", help="without torch's own packages; the schedule is GPipe's")
    run(train, parser)
