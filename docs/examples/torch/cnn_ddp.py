# SPDX-License-Identifier: Apache-2.0
"""Data parallel: a small CNN learns to read digits, with DistributedDataParallel.

The digits are drawn by this program. Each step has one batch, of which each rank has its part, so that any number of
ranks trains on the same images.
"""

import torch
import torch.distributed as dist
from common import arguments, exact, mean, run, say
from torch.nn.parallel import DistributedDataParallel

BATCH = 64  # of all ranks together
# 3 x 5 dots per digit, row by row.
FONT = ["111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
        "111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111"]


def glyphs():
    """Return the ten digits, each dot as 2 x 2 pixels."""
    dots = torch.tensor([[float(dot) for dot in digit] for digit in FONT]).reshape(10, 5, 3)
    return dots.repeat_interleave(2, 1).repeat_interleave(2, 2)


def digits(count, seed):
    """Return images of 12 x 12 pixels, with a digit at a random place and noise, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    images = 0.3 * torch.randn(count, 1, 12, 12, generator=generator)
    tops, lefts = torch.randint(0, 3, (count,), generator=generator), torch.randint(0, 7, (count,), generator=generator)
    shapes = glyphs()
    for image, label, top, left in zip(images, labels, tops, lefts):
        image[0, top:top + 10, left:left + 6] += shapes[label]
    return images, labels


def new_network():
    """Return a network with two convolutions."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(32 * 3 * 3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def train(args):
    """Train, and print how many digits are read right. Return the weights."""
    rank, size = dist.get_rank(), dist.get_world_size()
    network = new_network()
    if args.exact:
        for parameter in network.parameters():
            parameter.register_hook(exact)  # called before DDP adds up the gradients of all ranks
    model = DistributedDataParallel(network, bucket_cap_mb=0.05)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
    for step in range(args.steps):
        images, labels = digits(BATCH, args.seed * 1_000_003 + step)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[rank::size]), labels[rank::size])
        loss.backward()
        optimiser.step()
        if step % 10 == 0 or step == args.steps - 1:
            say(f"step {step:3}  loss {mean(loss):.6f}")
    images, labels = digits(1000, args.seed - 1)
    with torch.no_grad():
        right = (network(images[rank::size]).argmax(1) == labels[rank::size]).sum()
    dist.all_reduce(right)
    say(f"{right.item() / 10:.1f} % of 1000 new digits are read right")
    return list(network.parameters())


if __name__ == "__main__":
    run(train, arguments(__doc__, steps=100))
