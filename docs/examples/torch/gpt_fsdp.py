# SPDX-License-Identifier: Apache-2.0
"""Fully sharded data parallel: a GPT of 3.2 million parameters learns to spell, with FSDP on CPU tensors.

Each rank keeps its part of the weights. Before a block is computed, an all-gather brings the other parts, and after the
backward pass a reduce-scatter adds up the gradients. The text is sentences that this program makes up.
"""

import random

import torch
import torch.distributed as dist
from common import arguments, exact, mean, need, run, say
from torch import nn
from torch.nn import functional

BATCH, CONTEXT = 8, 32  # sequences of all ranks together, characters per sequence
WIDTH, HEADS, BLOCKS = 256, 8, 4
WORDS = [["the", "a", "every", "one"], ["small", "red", "old", "quick"], ["cat", "house", "river", "engineer"],
         ["sees", "likes", "finds", "draws"]]


def text(length, seed):
    """Return sentences such as "a red cat finds the old river. " """
    chosen, sentences = random.Random(seed), []
    while sum(map(len, sentences)) < length:
        sentences.append(" ".join(chosen.choice(WORDS[kind]) for kind in (0, 1, 2, 3, 0, 1, 2)) + ". ")
    return "".join(sentences)[:length]


class Block(nn.Module):
    """Attention to earlier characters, then two linear layers."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Predicts the next character, for each character of a sequence."""

    def __init__(self, characters):
        super().__init__()
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x):
        x = self.token(x) + self.place.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sharded1(model, args):
    """Shard the model by FSDP1."""
    from torch.distributed.algorithms._comm_hooks.default_hooks import DefaultState, reduce_scatter_hook
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    def rounded_reduce_scatter(state, gradient, output):
        reduce_scatter_hook(state, exact(gradient), output)

    model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"))
    if args.exact:
        model.register_comm_hook(DefaultState(process_group=dist.group.WORLD), rounded_reduce_scatter)
    return model


class RoundedReduceScatter:
    """FSDP2's reduce-scatter, of rounded gradients."""

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        return dist.reduce_scatter_tensor(output_tensor, exact(input_tensor), op, group, async_op)


def sharded2(model, args):
    """Shard the model by FSDP2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for module in [*model.blocks, model]:
        fully_shard(module, mesh=mesh)
        if args.exact:
            module.set_custom_reduce_scatter(RoundedReduceScatter())
    return model


def train(args):
    """Train. Return this rank's part of the weights."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data = text(100_000, args.seed)
    characters = sorted(set(data))
    data = torch.tensor([characters.index(c) for c in data])
    model = Gpt(len(characters))
    say(f"{sum(p.numel() for p in model.parameters())} parameters, FSDP{args.fsdp}")
    model = (sharded1 if args.fsdp == 1 else sharded2)(model, args)
    say(f"rank 0 keeps {sum(local(p).numel() for p in model.parameters())}")
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.001)
    for step in range(args.steps):
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
        begins = torch.randint(0, len(data) - CONTEXT - 1, (BATCH,), generator=generator).tolist()[rank::size]
        inputs = torch.stack([data[b:b + CONTEXT] for b in begins])
        targets = torch.stack([data[b + 1:b + CONTEXT + 1] for b in begins])
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimiser.step()
        if step % 5 == 0 or step == args.steps - 1:
            say(f"step {step:3}  loss {mean(loss):.6f}")
    return [local(p) for p in model.parameters()]


def local(parameter):
    """Return what this rank has of a parameter."""
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


if __name__ == "__main__":
    parser = arguments(__doc__, steps=20)
    parser.add_argument("--fsdp", type=int, choices=[1, 2], default=1, help="FullyShardedDataParallel or fully_shard")
    need((2, 14) if parser.parse_args().fsdp == 2 else (2, 2), "FSDP on the CPU")
    run(train, parser)
