# SPDX-License-Identifier: Apache-2.0
"""One rank fails in the way that the argument names. The others must raise, in time and with the cause."""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from job import check, say, start

LIMIT = 3.0  # seconds of the group's timeout, where it matters


def expect(operation, longest, *words):
    """Run an operation, which must raise an error that has the words, within longest seconds."""
    began = time.monotonic()
    try:
        operation()
    except RuntimeError as error:
        took, text = time.monotonic() - began, str(error)
        check("\n" not in text.splitlines()[0] and all(w in text for w in words), "the error is:", text)
        check(took <= longest, f"it took {took:.2f} s: {text}")
        say(f"raised after {took:.2f} s: {text.splitlines()[0]}")
        return
    check(False, "no error")


def limit_timeout():
    """Set the group's timeout. What a rank needs before the operation that matters may take longer on a busy host."""
    group = dist.group.WORLD
    backend = group if hasattr(group, "group") else group._get_backend(torch.device("cpu"))
    backend.set_timeout(datetime.timedelta(seconds=LIMIT))


def repeat(operation):
    """Repeat an operation until it raises."""
    while True:
        operation()


def killed(rank, size, victim, operation):
    dist.barrier()
    if rank == victim:
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.6)
    expect(lambda: repeat(operation), 2.1, f"rank {victim} died", "group 0", f"on rank {rank}")
    # The group stays unusable, and says why.
    expect(operation, 0.5, f"rank {victim} died")


def kill(rank, size):
    tensor = torch.ones(1000)
    killed(rank, size, size - 1, lambda: dist.all_reduce(tensor))


def survive(rank, size):
    """A rank dies. The others make another group and go on, also with operations between ranks of one node."""
    tensor = torch.ones(1000)
    killed(rank, size, size - 1, lambda: dist.all_reduce(tensor))
    dist.destroy_process_group()
    store = dist.FileStore("survivors", size - 1)
    dist.init_process_group("ddlemu", store=store, rank=rank, world_size=size - 1)
    node = dist.new_group([0, 1])
    for _ in range(20):
        time.sleep(0.1)
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        check(torch.equal(tensor, torch.full((1000,), float(size - 1))), "all_reduce of the survivors", tensor)
        if rank < 2:
            dist.all_reduce(tensor, group=node)
    dist.destroy_process_group()
    say("survived")


def elsewhere(rank, size):
    """A rank dies that is not in the group, whose other rank does not come. All ranks of the job fail together."""
    node = dist.new_group([0, 1])
    dist.barrier()
    if rank < 2:
        dist.barrier(group=node)
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        expect(lambda: dist.all_reduce(torch.ones(3), group=node), 2.1, f"rank {size - 1} died", "all_reduce number 2")
    else:
        time.sleep(3)
    os._exit(0)


def restarted(rank, size):
    """torchrun starts the ranks again, and gives them the store of the ranks before, with its values."""
    from ddlemu_torch import _group

    dist.barrier()
    store = dist.FileStore("store", size)
    for attempt in range(3):
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(attempt)
        _group._generations.clear()  # as in a new process
        again = _group.Group(store, rank, size, datetime.timedelta(seconds=20), "again", [0, 1], rank)
        again.communicator()
        again.close()
        dist.barrier()
    say("started again")


def kill_alltoall(rank, size):
    parts = [torch.ones(100_000) for _ in range(size)]
    killed(rank, size, 0, lambda: dist.all_to_all([torch.empty(100_000) for _ in range(size)], parts))


def kill_before_first(rank, size):
    """A rank dies before it makes its first communicator."""
    if rank == size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    expect(lambda: dist.barrier(), 2.7, f"rank {size - 1} died", "communicator")


def kill_host(rank, size):
    """The rank that hosts the store dies before the first communicator is made."""
    if rank == 0:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    expect(lambda: dist.barrier(), 2.7, "rank 0", "communicator", "on rank 1")


def kill_pair(rank, size):
    """Rank 0 dies while rank 1 receives from it."""
    if rank == 0:
        dist.send(torch.ones(3), 1)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        tensor = torch.empty(3)
        dist.recv(tensor, 0)
        expect(lambda: dist.recv(tensor, 0), 2.6, "rank 0 died", "recv from rank 0", "pair 0 and 1", "on rank 1")


def exception(rank, size):
    """A rank ends with an exception of its own."""
    dist.barrier()
    if rank == 0:
        raise SystemExit(0)
    expect(lambda: dist.all_reduce(torch.ones(3)), 5, "rank 0 ")


def stop(rank, size):
    """A rank is stopped for longer than the timeout."""
    dist.barrier()
    limit_timeout()
    time.sleep(0.5)
    if rank == 0:
        subprocess.Popen(["sh", "-c", f"sleep 6; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        expect(lambda: repeat(lambda: dist.all_reduce(torch.ones(3))), LIMIT + 1.5, "timeout", "rank 0 is stopped")
    os._exit(0)


def absent(rank, size):
    """A rank does not call the operation."""
    dist.barrier()
    limit_timeout()
    if rank == 0:
        time.sleep(LIMIT + 2)
    else:
        expect(lambda: dist.all_reduce(torch.ones(3)), LIMIT + 1, "all_reduce number 2", "timeout",
               "rank 0 has not called it", "its last call is number 1")
    os._exit(0)


def not_coming(rank, size):
    """A rank does not come to the first operation."""
    if rank == 0:
        time.sleep(LIMIT + 2)
    else:
        expect(lambda: dist.all_reduce(torch.ones(3)), LIMIT + 1, "timeout", "rank 0 did not come")
    os._exit(0)


def unanswered(rank, size):
    """Nobody sends what a rank receives, and what it sends nobody receives."""
    limit_timeout()
    if rank == 1:
        expect(lambda: dist.recv(torch.empty(3), 0), LIMIT + 1, "recv from rank 0", "timeout")
        expect(lambda: dist.isend(torch.ones(3), 0).wait(), LIMIT + 1, "send to rank 0", "rank 0")
    else:
        time.sleep(2 * LIMIT + 2)
    os._exit(0)


def short(rank, size):
    """The timeout of one wait."""
    dist.barrier()
    if rank == 1:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        expect(lambda: work.wait(datetime.timedelta(seconds=1)), 2, "timeout", "rank 0 has not called it")
    else:
        time.sleep(3)
    os._exit(0)


def future(rank, size):
    """The future of an operation that fails."""
    dist.barrier()
    limit_timeout()
    if rank == 1:
        result = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        expect(result.wait, LIMIT + 1.0, "timeout")
    else:
        time.sleep(LIMIT + 2)
    os._exit(0)


def abort(rank, size):
    """A rank aborts its own group, from another thread."""
    dist.barrier()
    if rank == 1:
        group = dist.group.WORLD
        backend = group if hasattr(group, "group") else group._get_backend(torch.device("cpu"))
        threading.Timer(1.0, backend.abort).start()
        expect(lambda: dist.all_reduce(torch.ones(3)), 2.0, "aborted")
    else:
        time.sleep(3)
    os._exit(0)


def monitored(rank, size):
    """monitored_barrier names the rank that does not come."""
    group = dist.group.WORLD
    backend = group if hasattr(group, "group") else group._get_backend(torch.device("cpu"))
    limit = datetime.timedelta(seconds=1)
    backend.monitored_barrier(datetime.timedelta(seconds=10), False)
    if rank == 0:
        expect(lambda: backend.monitored_barrier(limit, True), 1.5, "monitored_barrier", "rank 1 did not come")
    time.sleep(2)
    os._exit(0)


def monitored_death(rank, size):
    """monitored_barrier names the rank that has died: on rank 0, and on the others, which wait for rank 0."""
    group = dist.group.WORLD
    backend = group if hasattr(group, "group") else group._get_backend(torch.device("cpu"))
    backend.monitored_barrier(datetime.timedelta(seconds=30), False)
    if rank == size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    expect(lambda: backend.monitored_barrier(datetime.timedelta(seconds=30), False), 2.6, "monitored_barrier", f"rank {size - 1} died")
    time.sleep(2)  # rank 0 hosts the store
    os._exit(0)


def compared(rank, size):
    """The debug mode names the ranks whose calls differ."""
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        expect(lambda: dist.all_reduce(torch.ones(3)), 2, "all_reduce number 2", "rank 1 called (all_reduce, SUM, ((torch.float32, torch.Size([4])))")
    else:
        expect(lambda: dist.all_reduce(torch.ones(4)), 2, "all_reduce number 2", "rank 0 called (all_reduce, SUM, ((torch.float32, torch.Size([3])))")
    time.sleep(2)  # rank 0 hosts the store
    os._exit(0)


def threads(rank, size):
    """Two threads of the last rank call one group, whose calls are then in another order than those of the others."""
    del size
    dist.barrier()

    def reduce():
        expect(lambda: dist.all_reduce(torch.ones(3)), 60, "all_reduce", "all_gather")

    if rank == 0:
        return reduce()
    gather = threading.Thread(target=lambda: dist.all_gather([torch.ones(3), torch.ones(3)], torch.ones(3)))
    threading.excepthook = lambda raised: check("2 threads of this rank" in str(raised.exc_value), "its error is:",
                                                raised.exc_value)
    gather.start()
    time.sleep(0.5)
    expect(lambda: dist.all_reduce(torch.ones(3)), 60, "2 threads of this rank call this group", "new_group")
    gather.join()


def mismatch(rank, size):
    """The last rank calls something else than the others. NCCL would wait for ever, or give wrong data."""
    floats, doubles = torch.ones(10), torch.ones(10, dtype=torch.float64)

    def sizes(group, other):
        dist.all_reduce(torch.ones(4 if other else 3), group=group)

    def types(group, other):
        dist.all_reduce(doubles if other else floats, group=group)

    def reductions(group, other):
        dist.all_reduce(floats, op=dist.ReduceOp.MAX if other else dist.ReduceOp.SUM, group=group)

    def order(group, other):
        if other:
            dist.broadcast(floats, 0, group=group)
        else:
            dist.all_reduce(floats, group=group)

    def lists(group, other):
        count = 5 if other else 3
        dist.all_gather([torch.ones(count) for _ in range(size)], torch.ones(count), group=group)

    def parts(group, other):
        count = 3 if other else 5
        dist.all_to_all([torch.empty(count) for _ in range(size)], [torch.ones(count)] * size, group=group)

    for operation, words in ((sizes, ["3)", "4)"]), (types, ["torch.float32, 10", "torch.float64, 10"]),
                             (reductions, ["SUM", "MAX"]), (order, ["all_reduce", "broadcast"]),
                             (lists, ["float32, 3)", "float32, 5)"]), (parts, ["3", "5", "elements"])):
        group = dist.new_group()
        operation(group, False)  # NCCL connects the ranks, which takes seconds on a busy host
        dist.barrier()
        expect(lambda: operation(group, rank == size - 1), 2, "number 2", *words)
        dist.barrier()
    if rank < 2:
        pair = torch.ones(5 - 2 * rank)
        transfer = (lambda t: dist.recv(t, 0)) if rank == 1 else lambda t: dist.send(t, 1)
        transfer(torch.ones(3))  # makes the communicator of the pair, which takes seconds on a busy host
        expect(lambda: transfer(pair) if rank else repeat(lambda: transfer(pair)), 2, "number 2", "sends 5 elements of torch.float32",
               "receives 3 of torch.float32")
    os._exit(0)


def shape(*arguments):
    """Change the links."""
    subprocess.run([os.environ["DDLEMU"], "shape", *arguments], check=True, stdout=subprocess.DEVNULL)


def link(rank, size):
    """A link goes down for longer than the transport allows."""
    dist.barrier()
    if rank == 0:
        shape("--down", "--link", "node0:node1")
    expect(lambda: repeat(lambda: dist.all_reduce(torch.ones(1000))), 10, "all_reduce", "group 0", f"on rank {rank}",
           "the emulated link node", "was down for longer than the transport allows")
    os._exit(0)


def link_back(rank, size):
    """A link goes down for a while that the transport allows. The job continues."""
    dist.barrier()
    if rank == 0:
        shape("--down", "--link", "node0:node1")
        threading.Timer(1.5, shape, ("--up", "--link", "node0:node1")).start()
    end, over = time.monotonic() + 4, False
    while not over:
        tensor = torch.ones(1000)
        tensor[0] = float(time.monotonic() > end)
        dist.all_reduce(tensor)
        over = tensor[0] > 0
        check(torch.equal(tensor[1:], torch.full((999,), float(size))), "all_reduce", tensor)
    say("continued")


def meet():
    """Wait until all ranks have imported torch: the group's timeout is also that of the rendezvous."""
    with open(f"rank{os.environ['RANK']}.here", "x", encoding="utf-8"):
        pass
    while not all(os.path.exists(f"rank{rank}.here") for rank in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)


def main():
    name = sys.argv[1]
    meet()
    rank, size = start(timeout=LIMIT if name == "not_coming" else 60)
    globals()[name](rank, size)
    say("ok")


main()
