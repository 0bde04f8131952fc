# SPDX-License-Identifier: Apache-2.0
"""Cases that need a job of their own. The argument names one."""

import datetime
import gc
import os
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist
from job import check, same, say, start, version


kept = []


def alone():
    """A group of one rank, of which the backend does all itself."""
    rank, _ = start()
    group = [dist.new_group([r]) for r in range(dist.get_world_size())][rank]
    data = torch.arange(12.0).reshape(4, 3)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        tensor = data.clone()
        dist.all_reduce(tensor, op, group=group)
        same(tensor, data, "all_reduce")
    outputs = [torch.empty(4, 3)]
    dist.all_gather(outputs, data, group=group)
    same(outputs[0], data, "all_gather")
    output = torch.empty(4, 3)
    dist.reduce_scatter(output, [data], group=group)
    same(output, data, "reduce_scatter")
    dist.all_to_all_single(output.zero_(), data, group=group)
    same(output, data, "all_to_all_single")
    dist.all_to_all([output.zero_()], [data], group=group)
    same(output, data, "all_to_all")
    dist.scatter(output.zero_(), [data], rank, group=group)
    same(output, data, "scatter")
    outputs = [torch.zeros(3, 4).t()]
    dist.gather(data, outputs, rank, group=group)
    same(outputs[0].contiguous(), data, "gather")
    if version() >= (2, 0):
        dist.all_reduce(tensor := data.clone(), dist._make_nccl_premul_sum(0.5), group=group)
        same(tensor, data * 0.5, "PREMUL_SUM")
    same(dist.all_reduce(data.clone(), group=group, async_op=True).get_future().wait()[0], data, "future")
    objects = [None]
    dist.all_gather_object(objects, "x", group=group)
    check(objects == ["x"], "all_gather_object", objects)
    dist.barrier(group)
    dist.barrier()
    dist.destroy_process_group()
    kept.append(group)  # lives until the handlers of exit run


def opposite():
    """All ranks send 32 MB to the next one in a batch. Then two ranks send small messages first, without a batch."""
    rank, size = start()
    count = 8 << 20
    for _ in range(2):
        received = torch.empty(count)
        ops = [dist.P2POp(dist.isend, torch.full((count,), float(rank)), (rank + 1) % size),
               dist.P2POp(dist.irecv, received, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        same(received, torch.full((count,), float((rank - 1) % size)), "opposite sends")
    if size == 2:
        small(rank)
    dist.destroy_process_group()


def small(rank):
    """When both directions are connected, NCCL's buffers hold small messages that both ranks send first.

    NCCL's proxy begins a third send when the second one is complete. That waits for a receive, which comes after the third.
    """
    for sender in (0, 1):
        if rank == sender:
            dist.send(torch.ones(1), 1 - rank)
        else:
            dist.recv(torch.empty(1), 1 - rank)
    works = [dist.isend(torch.full((1000,), float(i)), 1 - rank) for i in range(2)]
    for i in range(2):
        tensor = torch.empty(1000)
        dist.recv(tensor, 1 - rank)
        same(tensor, torch.full((1000,), float(i)), "order of sends")
    for work in works:
        work.wait()


def large():
    """A tensor of more than 2 GiB."""
    rank, _ = start(timeout=300)
    count = (1 << 31) + 4099
    tensor = torch.full((count,), 0 if rank else 7, dtype=torch.uint8)
    tensor[-5:] = 9 if rank == 0 else 0
    dist.broadcast(tensor, 0)
    check(int(tensor[:1000].sum()) == 7000 and tensor[-6:].tolist() == [7, 9, 9, 9, 9, 9], "the ends")
    sevens = sum(int(part.eq(7).count_nonzero()) for part in tensor.split(1 << 24))  # in parts, to save memory
    check(sevens == count - 5, "the middle")
    dist.destroy_process_group()


def options(kind, root):
    """Return options with a root."""
    made = kind()
    made.rootRank = root
    return made


def refusals():
    """What is refused, with one line that says what to do. No rank hangs, and the group works afterwards."""
    rank, size = start()

    def refused(operation, *words):
        try:
            operation()
        except (RuntimeError, ValueError, NotImplementedError) as error:
            first = str(error).splitlines()[0]
            check(first.startswith("ddlemu: ") and all(w in first for w in words), "the error is", error)
            both = isinstance(error, ValueError) and isinstance(error, RuntimeError)  # c10d's backends raise either
            check(both, "the error is of", type(error).__mro__)
            return say("refused:", first)
        return check(False, "it was not refused:", *words)

    four = torch.zeros(4)
    refused(lambda: dist.all_reduce(torch.zeros(3, dtype=torch.int16)), "all_reduce", "torch.int16")
    refused(lambda: dist.broadcast(torch.zeros(3, dtype=torch.int16), 0), "broadcast", "torch.int16")
    if hasattr(torch, "float8_e4m3fn"):
        refused(lambda: dist.all_reduce(torch.zeros(3).to(torch.float8_e4m3fn)), "all_reduce", "float8_e4m3fn")
        refused(lambda: dist.reduce(torch.zeros(3).to(torch.float8_e5m2), 0), "reduce", "float8_e5m2")
    for op in ("BAND", "BOR", "BXOR"):
        refused(lambda op=op: dist.all_reduce(torch.zeros(3, dtype=torch.int32), getattr(dist.ReduceOp, op)), op, "SUM")
    refused(lambda: dist.all_reduce(torch.zeros(3, dtype=torch.bool), dist.ReduceOp.AVG), "AVG", "torch.bool")
    refused(lambda: dist.recv(four), "recv", "any source")
    refused(lambda: dist.all_reduce(torch.eye(3).to_sparse()), "sparse")
    refused(lambda: dist.all_to_all([four], [four]), "all_to_all", "1 tensors", "2 ranks")
    refused(lambda: dist.group.WORLD._allgather_base(four, torch.zeros(3)).wait(),
            "output tensor size must be equal to world_size times input tensor size", "4 elements", "2 times the 3")
    refused(lambda: dist.group.WORLD._reduce_scatter_base(four, torch.zeros(9)).wait(),
            "input tensor must be the same size as output size times world size", "9 elements", "2 times the 4")
    refused(lambda: dist.reduce_scatter(four, [four] * 3), "reduce_scatter", "3 tensors")
    refused(lambda: dist.group.WORLD.broadcast([four], options(dist.BroadcastOptions, size)).wait(), "broadcast", "rank 2")
    refused(lambda: dist.group.WORLD.reduce([four], options(dist.ReduceOptions, -1)).wait(), "reduce", "rank -1")
    if version() < (2, 6):  # later torch refuses a tensor on another device itself
        refused(lambda: dist.all_reduce(torch.zeros(3, device="meta")), "meta", "cpu")
    dist.all_reduce(four)
    dist.barrier()
    dist.destroy_process_group()


def tags():
    """Tags mean nothing, as with c10d's backend for NCCL: a receive takes the next message of its sender."""
    rank, size = start()
    peer = 1 - rank
    groups = [dist.new_group(list(range(size))) for _ in range(size)]
    if rank == 0:  # the ranks use their first tags in different groups
        dist.send(torch.ones(4), peer, group=groups[0], tag=1)
        dist.recv(torch.empty(4), peer, group=groups[1])
    else:
        dist.recv(torch.empty(4), peer, group=groups[0])
        dist.send(torch.ones(4), peer, group=groups[1], tag=1)
    for sender in (0, 1):
        for tag in (3, 0, 7):
            if rank == sender:
                dist.send(torch.full((4,), float(tag)), peer, tag=tag)
            else:
                dist.recv(tensor := torch.empty(4), peer, tag=tag + 1)
                same(tensor, torch.full((4,), float(tag)), "tag", tag)
    received = [torch.empty(5) for _ in range(3)]
    for sends in (rank == 0, rank == 1):  # a pair has one stream: one of the ranks must receive first
        works = [dist.isend(torch.full((5,), float(i)), peer, tag=-i) if sends else dist.irecv(tensor, peer, tag=i)
                 for i, tensor in enumerate(received)]
        for work in works:
            work.wait()
    for i, tensor in enumerate(received):
        same(tensor, torch.full((5,), float(i)), "irecv", i)
    ops = [dist.P2POp(dist.isend, torch.full((6,), float(rank)), peer, tag=1),
           dist.P2POp(dist.irecv, tensor := torch.empty(6), peer, tag=2)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(tensor, torch.full((6,), float(peer)), "batch_isend_irecv")
    dist.destroy_process_group()


def itself():
    """A rank sends messages to itself, in the order of the receives, also beside messages to others."""
    rank, size = start()
    for count in (1, 1000):
        sent = [torch.full((count,), float(10 * rank + i)) for i in range(3)]
        received = [torch.empty(2 * count)[::2] for _ in range(3)]
        works = [dist.isend(sent[0], rank), dist.irecv(received[0], rank), dist.irecv(received[1], rank)]
        works += [dist.isend(sent[1], rank), dist.isend(sent[2], rank), dist.irecv(received[2], rank)]
        for work in works:
            work.wait()
        for want, got in zip(sent, received):
            same(got.contiguous(), want, "messages to itself")
    for others in ([], [1 - rank]):
        outputs = {peer: torch.empty(5) for peer in (rank, *others)}
        ops = [dist.P2POp(dist.irecv, tensor, peer) for peer, tensor in outputs.items()]
        ops += [dist.P2POp(dist.isend, torch.full((5,), float(rank)), peer) for peer in outputs]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        for peer, tensor in outputs.items():
            same(tensor, torch.full((5,), float(peer)), "batch with", others)
    work = dist.isend(torch.ones(3), rank)
    check(not work.is_completed(), "a send to itself is complete before its receive")
    dist.irecv(torch.empty(3), rank).wait()
    work.wait()
    alone = [dist.new_group([r]) for r in range(size)][rank]
    works = [dist.isend(sent[0], rank, group=alone), dist.irecv(received[0], rank, group=alone)]
    for work in works:
        work.wait()
    same(received[0].contiguous(), sent[0], "a group of one rank")
    dist.barrier()
    dist.destroy_process_group()


def moved():
    """8-bit floats are moved as bytes, as c10d's backend for NCCL does."""
    rank, size = start()
    for dtype in [getattr(torch, name) for name in dir(torch) if name.startswith("float8_e") and "e8m0" not in name]:
        def made(value, count=3):
            return torch.full((count,), float(value)).to(dtype)

        def equal(got, want, *words):
            same(got.view(torch.uint8), want.view(torch.uint8), dtype, *words)

        every = [made(r + 0.5) for r in range(size)]
        dist.broadcast(tensor := every[rank].clone(), 1)
        equal(tensor, every[1], "broadcast")
        dist.all_gather(outputs := [made(0) for _ in range(size)], every[rank])
        dist.all_gather_into_tensor(output := made(0, 3 * size), every[rank])
        for r in range(size):
            equal(outputs[r], every[r], "all_gather")
            equal(output[3 * r:3 * r + 3], every[r], "all_gather_into_tensor")
        dist.scatter(tensor, every if rank == 0 else None, 0)
        equal(tensor, every[rank], "scatter")
        dist.gather(every[rank], outputs if rank == 1 else None, 1)
        equal(outputs[0], every[0], "gather")
        dist.all_to_all(outputs, [every[rank]] * size)
        equal(outputs[1 - rank], every[1 - rank], "all_to_all")
        calls = [lambda: dist.isend(every[rank], 1 - rank), lambda: dist.irecv(tensor, 1 - rank)]
        for work in [call() for call in (calls if rank == 0 else calls[::-1])]:
            work.wait()
        equal(tensor, every[1 - rank], "irecv")
        say("moved", dtype)
    dist.barrier()
    dist.destroy_process_group()


def dropped():
    """The tensors of an operation that the program has dropped live until it is complete, and then go."""
    rank, _ = start()
    group, store, count = dist.group.WORLD, dist.distributed_c10d._get_default_store(), 4 << 20
    one, two, three = (torch.full((count,), float(n)) for n in (1, 2, 3))
    part, whole = (one, two)[rank], torch.cat([one, two])
    dist.all_to_all_single(torch.empty(2), torch.ones(2))  # connects the ranks
    for sender in (0, 1):  # the pair has a communicator of its own
        (dist.send if rank == sender else dist.recv)(torch.ones(1), 1 - rank)
    calls = {  # what starts it, its input, its output if that is another tensor, and what rank 1 gets
        "all_reduce": (lambda a: dist.all_reduce(a, async_op=True), part, None, three),
        "future": (lambda a: dist.all_reduce(a, async_op=True).get_future(), part, None, three),
        "broadcast": (lambda a: dist.broadcast(a, 1, async_op=True), part, None, two),
        "irecv": (lambda a: (dist.isend if rank else dist.irecv)(a, 1 - rank), part, None, two),
        "isend": (lambda a: (dist.irecv if rank else dist.isend)(a, 1 - rank), part, None, one),
        "all_gather": (lambda a, b: dist.all_gather(list(b.split(count)), a, async_op=True), part, whole, whole),
        "_allgather_base": (lambda a, b: group._allgather_base(b, a), part, whole, whole),
        "reduce_scatter": (lambda a, b: dist.reduce_scatter(b, list(a.split(count)), async_op=True), whole, one, two * 2),
        "_reduce_scatter_base": (lambda a, b: group._reduce_scatter_base(b, a), whole, one, two * 2),
        "all_to_all_single": (lambda a, b: dist.all_to_all_single(b, a, async_op=True), whole, whole, two.repeat(2)),
    }
    for name, (call, given, output, want) in calls.items():
        tensors = [given.clone()] + ([] if output is None else [torch.zeros_like(output)])
        refs = [weakref.ref(tensor) for tensor in tensors]
        if rank == 1:
            store.get(name)  # waits for rank 0
            call(*tensors)
            end = time.monotonic() + 20
            while not torch.equal(tensors[-1], want) and time.monotonic() < end:
                time.sleep(0.01)
            same(tensors[-1], want, name)
            del tensors
        else:
            call(*tensors)
            del tensors
            gc.collect()
            others = [torch.full_like(whole, -1) for _ in range(4)]  # they take the memory that is free
            # A send may be complete before its receive: NCCL has buffers.
            check(refs[-1]() is not None or name == "isend", name, "has lost its output before it was complete")
            store.set(name, "")
        end = time.monotonic() + 20
        while any(ref() is not None for ref in refs) and time.monotonic() < end:
            time.sleep(0.01)
        check(not any(ref() is not None for ref in refs), name, "keeps its tensors")
        dist.barrier()
    dist.destroy_process_group()


def held():
    """Callers in C++ wait for an operation, and have its future, long after it was complete and all of Python has dropped it."""
    rank, size = start()
    tensors = [torch.full((1000,), float(100 * rank + i)) for i in range(200)]
    dist._broadcast_coalesced(dist.group.WORLD, tensors, 4000, 1)
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((1000,), 100.0 + i), "_broadcast_coalesced", i)
    if version() >= (2, 6):
        import torch.distributed._functional_collectives as functional

        results = [functional.all_reduce(torch.full((100,), float(rank + i)), "sum", dist.group.WORLD) for i in range(500)]
        time.sleep(1)  # the watchdog completes them
        dist.all_reduce(torch.ones(100))
        gc.collect()
        for i, result in enumerate(results):
            same(functional.wait_tensor(result), torch.full((100,), float(size * i + sum(range(size)))), "functional", i)
    dist.barrier()
    dist.destroy_process_group()


def leave():
    """The program ends without destroy_process_group, with groups, channels and a thread that waits."""
    rank, size = start()
    tensor = torch.full((100_000,), float(rank))
    dist.broadcast(tensor, 0)
    same(tensor, torch.zeros(100_000), "broadcast")
    group = dist.new_group(list(range(size)))
    dist.all_reduce(tensor, group=group)
    if rank == 0:
        dist.send(tensor, 1)
    if rank == 1:
        dist.recv(tensor, 0)
    dist.all_reduce(tensor, async_op=True)
    say("left")


def again():
    """Initialise, destroy, and initialise again in one process, and with groups."""
    counts = []
    for i in range(6):
        rank, size = start()
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        same(tensor, torch.full((10,), float(size)), "round", i)
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(tensor, group=group)
            dist.destroy_process_group(group)
        dist.barrier()
        dist.destroy_process_group()
        del group
        gc.collect()
        if version() < (2, 0):  # a rank that is faster would connect to the store that is about to end
            time.sleep(1)
        counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
    say("descriptors and threads", counts)
    # A communicator has 9 descriptors and 4 threads. The plugin's Go runtime may start some threads.
    check(counts[5][0] <= counts[1][0] + 2 and counts[5][1] <= counts[1][1] + 6, "a leak:", counts)


class Numbers(torch.utils.data.Dataset):
    """Numbers, made by the workers of a data loader."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((8,), float(index))


def workers():
    """Forked children, and DataLoader workers by fork and by spawn, while the group is in use."""
    rank, size = start()
    dist.barrier()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            os._exit(0 if "was forked" in str(error) else 2)
        os._exit(3)
    check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the forked child did not get the error")
    if version() >= (2, 0):  # in 1.13 the child's exit waits for the store's thread, or crashes, with gloo too
        child = os.fork()
        if child == 0:
            sys.exit(0)  # with the handlers of exit
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        check(status == 0, "the forked child ended with", status)
    total = torch.zeros(8)
    for context in ("fork", "spawn"):
        for batch in torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=context):
            part = batch.sum(0)
            dist.all_reduce(part)
            total += part
    same(total, torch.full((8,), 2.0 * size * sum(range(64))), "sum")
    dist.barrier()
    dist.destroy_process_group()


def threads():
    """Several threads use one group, each with operations of a group of its own."""
    rank, size = start()
    groups = [dist.new_group(list(range(size))) for _ in range(3)]

    def run(group, n):
        for i in range(30):
            tensor = torch.full((100,), float(i * n + rank))
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.full((100,), float(sum(i * n + r for r in range(size)))), "thread", n, i)

    running = [threading.Thread(target=run, args=(group, n)) for n, group in enumerate(groups)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    dist.destroy_process_group()


def alias():
    """A script that names nccl or gloo gets this backend."""
    name = sys.argv[2]
    start(name)
    tensor = torch.ones(10)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    same(tensor, torch.ones(10), name)
    group = dist.group.WORLD
    backend = group if version() < (2, 14) else group._get_backend(torch.device("cpu"))
    check(type(backend).__module__.startswith("ddlemu_torch"), name, "is", type(backend))
    dist.destroy_process_group()


def polling():
    """A program asks whether an operation is complete, and for its result, and does not wait."""
    rank, size = start()
    work = dist.all_reduce(torch.full((7,), float(rank)), async_op=True)
    while not work.is_completed():  # the limit of the program ends it
        time.sleep(0.001)
    same(work.result()[0], torch.full((7,), float(sum(range(size)))), "result")
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    check(work.is_completed(), "is_completed after wait")
    same(work.result()[0], torch.full((2,), float(size)), "result after wait")
    tensor = torch.zeros(3)
    work = dist.isend(torch.ones(3), 1 - rank) if rank == 0 else dist.irecv(tensor, 1 - rank)
    while not work.is_completed():
        time.sleep(0.001)
    same(tensor, torch.full((3,), float(rank)), "irecv")
    dist.destroy_process_group()


def stub():
    """A program of another backend runs with this one, by the name of that backend. Capital letters do not matter."""
    import ddlemu_torch

    ddlemu_torch.register("OtherCCL")
    ddlemu_torch.register("otherccl")  # a second import of the stub
    rank, size = start("OtherCCL")
    check(dist.get_backend().lower() == "otherccl", "the backend is", dist.get_backend())
    tensor = torch.full((5,), float(rank))
    dist.all_reduce(tensor, group=dist.new_group([0, 1], backend="otherccl"))
    same(tensor, torch.ones(5), "all_reduce")
    dist.destroy_process_group()


def forms():
    """The methods of a group, with one tensor instead of a list, and with values instead of options."""
    import ddlemu_torch

    rank, size = start()
    store = dist.distributed_c10d._get_default_store()
    if version() >= (2, 4):  # async_save asks for it
        check(torch.device("cpu") in dist.group.WORLD._device_types, "devices", dist.group.WORLD._device_types)
    if rank == 0:  # a group that the others do not make
        kept.append(ddlemu_torch.create_group(dist.PrefixStore("alone", store), 0, 1))
    limit = datetime.timedelta(seconds=60)
    groups = [dist.group.WORLD, ddlemu_torch.create_group(dist.PrefixStore("direct", store), rank, size, limit)]
    for group in groups if version() < (2, 14) else groups[1:]:
        every = [torch.full((3,), float(r)) for r in range(size)]
        for root, call in enumerate([lambda t: group.broadcast(t, root=0), lambda t: group.broadcast(t, 1)]):
            tensor = every[rank].clone()
            call(tensor).wait()
            same(tensor, every[root], "broadcast from", root)
        for arguments, options, want in [((), {}, 1.0), ((dist.ReduceOp.MAX,), {}, 1.0), ((), {"op": dist.ReduceOp.MIN}, 0.0)]:
            tensor = every[rank].clone()
            group.allreduce(tensor, *arguments, **options).wait()
            same(tensor, torch.full((3,), want), "allreduce", arguments, options)
            tensor = every[rank].clone()
            group.allreduce([tensor], *arguments, **options).wait()
            same(tensor, torch.full((3,), want), "allreduce of a list", arguments, options)
        tensor = every[rank].clone()
        group.reduce(tensor, 1, dist.ReduceOp.SUM).wait()
        same(tensor, torch.ones(3) * rank, "reduce")
        outputs = [torch.empty(3) for _ in range(size)]
        group.allgather(outputs, every[rank]).wait()
        same(torch.stack(outputs), torch.stack(every), "allgather")
        outputs = [torch.empty(3) for _ in range(size)] if rank == 1 else []
        group.gather(outputs, every[rank], root=1).wait()
        check(rank == 0 or torch.equal(torch.stack(outputs), torch.stack(every)), "gather")
        tensor = torch.empty(3)
        group.scatter(tensor, every if rank == 0 else [], root=0).wait()
        same(tensor, every[rank], "scatter")
        group.reduce_scatter(tensor, every).wait()
        same(tensor, every[rank] * size, "reduce_scatter")
        flat, whole = torch.empty(1), torch.arange(float(size))
        group._reduce_scatter_base(flat, whole).wait()
        same(flat, torch.tensor([float(rank * size)]), "_reduce_scatter_base")
        group._allgather_base(whole, flat).wait()
        same(whole, torch.arange(0.0, size * size, size), "_allgather_base")
        output = torch.empty(size)
        for sizes in ([], torch.ones(size, dtype=torch.int64)):  # as an array of numpy, it is neither true nor false
            group.alltoall_base(output.zero_(), torch.full((size,), float(rank)), sizes, sizes).wait()
            same(output, torch.arange(float(size)), "alltoall_base")
        group.barrier().wait()
    dist.destroy_process_group()


def compiled():
    """torch.compile of a DDP model compiles the program, and nothing of the backend."""
    rank, size = start()
    if version() < (2, 2):  # it does not tell what it has compiled
        dist.barrier()  # rank 0 hosts the store
        return dist.destroy_process_group()
    from torch._dynamo.utils import get_compilation_metrics

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    model = torch.nn.parallel.DistributedDataParallel(model)
    fast = torch.compile(model, backend="eager")
    for _ in range(2):
        fast(torch.full((2, 4), float(rank))).sum().backward()
        dist.all_reduce(total := torch.ones(3))
        same(total, torch.full((3,), float(size)), "all_reduce")

    def step(tensor):
        output = torch.empty(size * 3)
        dist.all_gather_into_tensor(output, tensor)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        return output.sum() + tensor.sum()

    same(torch.compile(step, backend="eager")(torch.ones(3)), torch.tensor(6.0 * size), "compiled operations")
    files = [metrics.co_filename or "" for metrics in get_compilation_metrics()]
    check(files and not [f for f in files if "ddlemu_torch" in f], "torch.compile compiled", files)
    dist.destroy_process_group()


def monitored():
    """A group's monitored_barrier does not depend on the groups before it, of which only rank 0 keeps some."""
    import ddlemu_torch

    rank, size = start()
    dist.monitored_barrier()
    dist.monitored_barrier(dist.new_group([0, 1]), timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)
    alone = dist.new_group([0])
    if rank == 0:
        dist.monitored_barrier(group=alone)
    store, limit = dist.distributed_c10d._get_default_store(), datetime.timedelta(seconds=20)
    for i in range(6):
        group = ddlemu_torch.create_group(dist.PrefixStore(f"direct {i}", store), rank, size, limit)
        if rank == 0 and i % 2:
            kept.append(group)
        group.monitored_barrier()
        group.shutdown()
        del group
        gc.collect()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    say("ok")
