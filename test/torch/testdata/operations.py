# SPDX-License-Identifier: Apache-2.0
"""Every operation with every type that it has, and odd sizes. Every element is checked."""

import torch
import torch.distributed as dist
from job import check, same, say, start, version

TYPES = [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SHAPES = [(), (1,), (0,), (3,), (7, 5), (1031,), (2, 3, 0), (64, 65)]
checks = 0


def data(shape, dtype, seed):
    """Return small integers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 4, shape, generator=generator)
    return (values % 2 if dtype == torch.bool else values).to(dtype)


def reduced(tensors, op):
    """Return the reduction of tensors, as NCCL defines it."""
    wide = torch.stack([t.to(torch.float64) for t in tensors])
    dtype = tensors[0].dtype
    if dtype == torch.bool and op in ("SUM", "MAX"):
        return wide.amax(0).to(dtype)
    if op == "SUM":
        return wide.sum(0).to(dtype)
    if op == "PRODUCT":
        return wide.prod(0).to(dtype)
    if op == "MIN":
        return wide.amin(0).to(dtype)
    if op == "MAX":
        return wide.amax(0).to(dtype)
    mean = wide.sum(0) / len(tensors)
    return (mean if dtype.is_floating_point else mean.floor()).to(dtype)


def done(count=1):
    global checks
    checks += count


def reductions(rank, size):
    for dtype in TYPES:
        for shape in SHAPES:
            inputs = [data(shape, dtype, 100 + r) for r in range(size)]
            for op in ["SUM", "PRODUCT", "MIN", "MAX"] + ([] if dtype == torch.bool else ["AVG"]):
                want, red = reduced(inputs, op), getattr(dist.ReduceOp, op)
                name = f"{op} {dtype} {shape}"
                tensor = inputs[rank].clone()
                dist.all_reduce(tensor, red)
                same(tensor, want, "all_reduce", name)
                tensor = inputs[rank].clone()
                dist.reduce(tensor, size - 1, red)
                same(tensor, want if rank == size - 1 else inputs[rank], "reduce", name)
                parts = [data(shape, dtype, 7 * r + 1000 * rank) for r in range(size)]
                all_parts = [data(shape, dtype, 7 * rank + 1000 * r) for r in range(size)]
                output = torch.empty(shape, dtype=dtype)
                dist.reduce_scatter(output, parts, red)
                same(output, reduced(all_parts, op), "reduce_scatter", name)
                if shape and version() >= (2, 0):
                    output = torch.empty(shape, dtype=dtype)
                    dist.reduce_scatter_tensor(output, torch.cat(parts), red)
                    same(output, reduced(all_parts, op), "reduce_scatter_tensor", name)
                done(4)


def special_reductions(rank, size):
    if version() >= (2, 0):
        for factor in (2.0, torch.tensor([0.5])):
            tensor = torch.arange(10.0) + rank
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            want = sum((torch.arange(10.0) + r) * float(factor) for r in range(size))
            same(tensor, want, "PREMUL_SUM", factor)
            done()
    for dtype in COMPLEX:
        tensor = torch.complex(torch.arange(5.0), torch.arange(5.0) * rank).to(dtype)
        dist.all_reduce(tensor)
        want = torch.complex(torch.arange(5.0) * size, torch.arange(5.0) * sum(range(size))).to(dtype)
        same(tensor, want, "all_reduce", dtype)
        done()
    sizes = [r + 1 for r in range(size)]
    parts = [torch.arange(float(n)) + rank for n in sizes]
    output = torch.empty(sizes[rank])
    dist.reduce_scatter(output, parts)
    same(output, sum(torch.arange(float(sizes[rank])) + r for r in range(size)), "reduce_scatter uneven")
    tensors = [torch.full((n,), float(rank + n)) for n in (1, 5, 1000)]
    dist.all_reduce_coalesced(tensors)
    for n, tensor in zip((1, 5, 1000), tensors):
        same(tensor, torch.full((n,), float(sum(r + n for r in range(size)))), "all_reduce_coalesced", n)
    done(2)


def moves(rank, size):
    for dtype in TYPES + COMPLEX:
        for shape in SHAPES:
            name = f"{dtype} {shape}"
            everyone = [data(shape, dtype, 100 + r) for r in range(size)]
            mine = everyone[rank]
            for root in {0, size - 1}:
                tensor = mine.clone()
                dist.broadcast(tensor, root)
                same(tensor, everyone[root], "broadcast", name)
                outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
                dist.gather(mine, outputs if rank == root else None, root)
                for got, want in zip(outputs if rank == root else [], everyone):
                    same(got, want, "gather", name)
                tensor = torch.empty(shape, dtype=dtype)
                dist.scatter(tensor, everyone if rank == root else None, root)
                same(tensor, mine, "scatter", name)
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, mine)
            for got, want in zip(outputs, everyone):
                same(got, want, "all_gather", name)
            sent = [data(shape, dtype, 10 * rank + r) for r in range(size)]
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_to_all(outputs, sent)
            for r, got in enumerate(outputs):
                same(got, data(shape, dtype, 10 * r + rank), "all_to_all", name)
            if shape:
                flat(rank, size, dtype, shape, everyone, sent)
            ring(rank, size, everyone, name)
            done(9)


def flat(rank, size, dtype, shape, everyone, sent):
    """Operations on one tensor with a part for each rank."""
    if version() >= (2, 0):
        output = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
        dist.all_gather_into_tensor(output, everyone[rank])
        same(output, torch.cat(everyone), "all_gather_into_tensor", dtype, shape)
    output = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
    dist.all_to_all_single(output, torch.cat(sent))
    same(output, torch.cat([data(shape, dtype, 10 * r + rank) for r in range(size)]), "all_to_all_single", dtype, shape)
    done(2)


def ring(rank, size, everyone, name):
    """Each rank sends to the next. Without a batch every second rank sends first: NCCL keeps the order of a pair."""
    tensor = torch.empty_like(everyone[0])
    calls = [lambda: dist.isend(everyone[rank], (rank + 1) % size), lambda: dist.irecv(tensor, (rank - 1) % size)]
    for work in [call() for call in (calls if rank % 2 == 0 else calls[::-1])]:
        work.wait()
    same(tensor, everyone[rank - 1], "isend and irecv", name)
    ops = [dist.P2POp(dist.irecv, torch.empty_like(tensor), (rank + 1) % size),
           dist.P2POp(dist.isend, everyone[rank], (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(ops[0].tensor, everyone[(rank + 1) % size], "batch_isend_irecv", name)


def uneven(rank, size):
    """Lists and splits of different sizes, some of them empty."""
    sizes = [3 * r for r in range(size)]
    outputs = [torch.empty(n) for n in sizes]
    dist.all_gather(outputs, torch.full((sizes[rank],), float(rank)))
    for r, got in enumerate(outputs):
        same(got, torch.full((sizes[r],), float(r)), "all_gather uneven")
    to_rank = [(rank + r) % 3 for r in range(size)]
    from_rank = [(r + rank) % 3 for r in range(size)]
    sent = torch.cat([torch.full((n, 2), 10.0 * rank + r) for r, n in enumerate(to_rank)])
    output = torch.empty(sum(from_rank), 2)
    dist.all_to_all_single(output, sent, from_rank, to_rank)
    same(output, torch.cat([torch.full((n, 2), 10.0 * r + rank) for r, n in enumerate(from_rank)]), "split sizes")
    lists = [[torch.empty(2), torch.empty(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.full((3,), rank + 0.5)])
    for r, (first, second) in enumerate(lists):
        same(first, torch.full((2,), float(r)), "all_gather_coalesced")
        same(second, torch.full((3,), r + 0.5), "all_gather_coalesced")
    done(3)


def strided(rank, size):
    """Tensors whose memory is not in the order of their elements."""
    base = torch.zeros(6, 8)
    view = base.t()[1::2]
    view.copy_(torch.arange(24.0).reshape(4, 6) + rank)
    dist.all_reduce(view)
    want = torch.arange(24.0).reshape(4, 6) * size + sum(range(size))
    same(view.contiguous(), want, "all_reduce of a view")
    check(base[:, 0].eq(0).all() and base[:, 2].eq(0).all(), "elements beside the view were changed")
    dist.broadcast(view, 0)
    same(view.contiguous(), want, "broadcast of a view")
    outputs = [torch.zeros(5, 2)[:, 1] for _ in range(size)]
    dist.all_gather(outputs, (torch.arange(10.0) + rank)[::2])
    for r, got in enumerate(outputs):
        same(got.contiguous(), torch.arange(10.0)[::2] + r, "all_gather of views")
    negative = torch.complex(torch.ones(3), torch.full((3,), float(rank))).conj().imag  # negated when it is read
    outputs = [torch.empty(3) for _ in range(size)]
    dist.all_gather(outputs, negative)
    for r, got in enumerate(outputs):
        same(got, torch.full((3,), -float(r)), "all_gather of a negative view")
    channels = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last) + rank
    dist.all_reduce(channels)
    same(channels.contiguous(), torch.arange(120.0).reshape(2, 3, 4, 5) * size + sum(range(size)), "channels last")
    parameter = torch.nn.Parameter(torch.full((4, 4), float(rank)).t())
    dist.broadcast(parameter.data, size - 1)
    same(parameter.detach().contiguous(), torch.full((4, 4), size - 1.0), "broadcast of a parameter")
    done(6)


def handles(rank, size):
    """async_op, futures, several operations in flight, and their results."""
    tensors = [torch.full((1000,), float(rank + i)) for i in range(40)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for i, work in reversed(list(enumerate(works))):
        check(work.wait(), "wait returned false")
        same(tensors[i], torch.full((1000,), float(sum(r + i for r in range(size)))), "async", i)
    tensor = torch.full((10,), float(rank))
    chained = dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0] + 1)
    same(chained.wait(), torch.full((10,), sum(range(size)) + 1.0), "then")
    # A callback that waits for another operation.
    inner = torch.full((3,), 1.0)

    def nest(future):
        return dist.all_reduce(inner, async_op=True).get_future().wait()[0] + future.value()[0][:3]

    tensor = torch.full((10,), float(rank))
    nested = dist.all_reduce(tensor, async_op=True).get_future().then(nest)
    same(nested.wait(), torch.full((3,), float(sum(range(size)) + size)), "nested futures")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (10 ** rank)})
    check([o["rank"] for o in objects] == list(range(size)), "all_gather_object", objects)
    box = [("from", rank)]
    dist.broadcast_object_list(box, size - 1)
    check(box == [("from", size - 1)], "broadcast_object_list", box)
    box = [None]
    dist.scatter_object_list(box, list(range(size)) if rank == 0 else None, 0)
    check(box == [rank], "scatter_object_list", box)
    dist.barrier()
    done(7)


def groups(rank, size):
    """Groups of some ranks."""
    for members in ([0, size - 1], list(range(size)), [size - 1]):
        group = dist.new_group(members)
        if rank in members:
            tensor = torch.full((5,), float(rank))
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.full((5,), float(sum(members))), "group", members)
            outputs = [torch.empty(1) for _ in members]
            dist.all_gather(outputs, torch.tensor([float(rank)]), group=group)
            check([int(o) for o in outputs] == members, "all_gather in", members, outputs)
        dist.barrier()
        done(2)
    if version() < (2, 6):  # it asks for CUDA
        return
    subgroup, _ = dist.new_subgroups(group_size=max(1, size // 2))
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=subgroup)
    same(tensor, torch.full((3,), float(max(1, size // 2))), "new_subgroups")
    done()


def coalesced(rank, size):
    """The blocks of torch 2.14 and later that start several operations together."""
    if version() < (2, 14):
        return
    from torch.distributed.distributed_c10d import _coalescing_manager

    tensors = [torch.full((n,), float(rank)) for n in (2, 3)]
    with _coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        same(tensor, torch.full_like(tensor, float(sum(range(size)))), "coalesced all_reduce")
    outputs = [torch.empty(2 * size), torch.empty(3 * size)]
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for n, output in zip((2, 3), outputs):
            dist.all_gather_into_tensor(output, torch.full((n,), float(rank)))
    manager.wait()
    for n, output in zip((2, 3), outputs):
        same(output, torch.arange(float(size)).repeat_interleave(n), "coalesced all_gather_into_tensor")
    if version() < (2, 15):  # its split_group needs an accelerator
        done(2)
        return
    half = dist.split_group(split_ranks=[list(range(size // 2)), list(range(size // 2, size))])
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=half)
    same(tensor, torch.full((2,), size / 2), "split_group")
    done(3)


def main():
    rank, size = start()
    for part in (reductions, special_reductions, moves, uneven, strided, handles, groups, coalesced):
        before = checks
        part(rank, size)
        say(part.__name__, checks - before)
    dist.destroy_process_group()
    say("ok", checks)


main()
