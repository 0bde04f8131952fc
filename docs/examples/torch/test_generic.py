# SPDX-License-Identifier: Apache-2.0
"""All operations with all types and sizes of 16 to 8192 elements and some odd ones. Every element is checked.

Prints a table for each operation, or, with --sweep, a line for each call. The times are those of the whole call from
Python on this host, and so not those of the emulated network. The exit status is 1 if an element is wrong, or if the
backend ddlemu refuses a call.
"""

import argparse
import sys
import time

import torch
import torch.distributed as dist
from common import join, leave, progress, say

TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
POWERS = [2 ** n for n in range(4, 14)]
SIZES = sorted([1, 3, *POWERS, 1000, 4099])


def data(rank, size, dtype):
    """Return the input of a rank: small integers, so that sums are exact in every type."""
    return ((torch.arange(size) * 7 + rank * 3) % 5).to(dtype)


# Each operation returns a function that calls it, its output, and what the output must be. n is the number of ranks.

def all_reduce(me, n, size, dtype):
    output = data(me, size, dtype)
    return lambda: dist.all_reduce(output), output, sum(data(r, size, dtype) for r in range(n))


def all_reduce_max(me, n, size, dtype):
    output = data(me, size, dtype)
    want = torch.stack([data(r, size, torch.int64) for r in range(n)]).amax(0).to(dtype)
    return lambda: dist.all_reduce(output, dist.ReduceOp.MAX), output, want


def reduce(me, n, size, dtype):
    output = data(me, size, dtype)
    want = sum(data(r, size, dtype) for r in range(n))
    return lambda: dist.reduce(output, 0), output if me == 0 else want, want  # other ranks have no result


def broadcast(me, n, size, dtype):
    output = data(me, size, dtype)
    return lambda: dist.broadcast(output, n - 1), output, data(n - 1, size, dtype)


def all_gather(me, n, size, dtype):
    output = torch.zeros(n, size, dtype=dtype)
    want = torch.stack([data(r, size, dtype) for r in range(n)])
    return lambda: dist.all_gather(list(output), data(me, size, dtype)), output, want


def all_gather_into_tensor(me, n, size, dtype):
    output = torch.zeros(n * size, dtype=dtype)
    want = torch.cat([data(r, size, dtype) for r in range(n)])
    return lambda: dist.all_gather_into_tensor(output, data(me, size, dtype)), output, want


def reduce_scatter(me, n, size, dtype):
    output = torch.zeros(size, dtype=dtype)
    inputs = [data(me + to, size, dtype) for to in range(n)]
    return lambda: dist.reduce_scatter(output, inputs), output, sum(data(r + me, size, dtype) for r in range(n))


def gather(me, n, size, dtype):
    output = torch.zeros(n, size, dtype=dtype)
    want = torch.stack([data(r, size, dtype) for r in range(n)]) if me == 0 else output
    return lambda: dist.gather(data(me, size, dtype), list(output) if me == 0 else None), output, want


def scatter(me, n, size, dtype):
    output = torch.zeros(size, dtype=dtype)
    inputs = [data(to, size, dtype) for to in range(n)] if me == 0 else None
    return lambda: dist.scatter(output, inputs), output, data(me, size, dtype)


def all_to_all(me, n, size, dtype):
    output = torch.zeros(n, size, dtype=dtype)
    inputs = [data(me + to, size, dtype) for to in range(n)]
    want = torch.stack([data(r + me, size, dtype) for r in range(n)])
    return lambda: dist.all_to_all(list(output), inputs), output, want


def all_to_all_single(me, n, size, dtype):
    output = torch.zeros(n * size, dtype=dtype)
    inputs = torch.cat([data(me + to, size, dtype) for to in range(n)])
    want = torch.cat([data(r + me, size, dtype) for r in range(n)])
    return lambda: dist.all_to_all_single(output, inputs), output, want


def send_recv(me, n, size, dtype):
    """Each rank sends to the next one."""
    output = torch.zeros(size, dtype=dtype)

    def call():  # in a batch: on their own, sends that all ranks start first would wait for each other
        ops = [dist.P2POp(dist.isend, data(me, size, dtype), (me + 1) % n),
               dist.P2POp(dist.irecv, output, (me - 1) % n)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    return call, output, data((me - 1) % n, size, dtype)


OPERATIONS = [all_reduce, all_reduce_max, reduce, broadcast, all_gather, all_gather_into_tensor, reduce_scatter, gather,
              scatter, all_to_all, all_to_all_single, send_recv]


def measure(operation, dtype, size, repeats):
    """Return the times of the calls in seconds, the number of wrong elements, and why the call was refused."""
    times, wrong = [], 0
    for _ in range(repeats):
        call, output, want = operation(dist.get_rank(), dist.get_world_size(), size, getattr(torch, dtype))
        begin = time.perf_counter()
        try:
            call()
        except (RuntimeError, ValueError) as error:
            return [], 0, str(error).splitlines()[0]
        times.append(time.perf_counter() - begin)
        wrong += int((output != want).sum())
    return times, wrong, ""


def test(operation, args):
    """Test an operation, and print its table. Return how many elements are wrong, and whether a call was refused."""
    measure(operation, args.dtype[0], args.sizes[0], 1)  # ranks connect to each other at the first call
    cases = [(dtype, size) for dtype in args.dtype for size in args.sizes]
    rows = [measure(operation, dtype, size, args.repeats) for dtype, size in progress(cases, operation.__name__)]
    wrong = summed(torch.tensor([row[1] for row in rows]))
    (print_calls if args.sweep else print_table)(operation, cases, rows, wrong)
    return sum(wrong), any(row[2] for row in rows)


def bytes_of(dtype, size):
    """Return the size in bytes of so many elements."""
    return size * torch.empty(0, dtype=getattr(torch, dtype)).element_size()


def print_calls(operation, cases, rows, wrong):
    """Print a line for each call, in the form that tests of other process groups have."""
    name = operation.__name__.replace("all_to_all", "alltoall").replace("all_", "all").title().replace("_", "")
    for (dtype, size), (times, _, refused), count in zip(cases, rows, wrong):
        for seconds in times:
            say(f"pytorch_{name}_{bytes_of(dtype, size)} durationUs: {seconds * 1e6:.1f}")
        if refused or count:
            say(f"pytorch_{name}_{bytes_of(dtype, size)} {f'refused: {refused}' if refused else f'wrong elements: {count}'}")


def print_table(operation, cases, rows, wrong):
    """Print a row for each type and size."""
    say(f"\n{operation.__name__}\n{'type':>10} {'elements':>9} {'bytes':>8} {'min us':>9} {'avg us':>9} "
        f"{'max MB/s':>9} {'avg MB/s':>9} {'wrong':>6}")
    for (dtype, size), (times, _, refused), count in zip(cases, rows, wrong):
        payload = bytes_of(dtype, size)
        if refused:
            say(f"{dtype:>10} {size:>9} {payload:>8} refused: {refused}")
            continue
        least, mean = min(times), sum(times) / len(times)
        say(f"{dtype:>10} {size:>9} {payload:>8} {least * 1e6:9.1f} {mean * 1e6:9.1f} {payload / least / 1e6:9.1f} "
            f"{payload / mean / 1e6:9.1f} {count:>6}")


def summed(counts):
    """Return the sum over all ranks of each count."""
    tensors = [torch.zeros_like(counts) for _ in range(dist.get_world_size())]
    dist.all_gather(tensors, counts)
    return torch.stack(tensors).sum(0).tolist()


def main():
    names = [operation.__name__ for operation in OPERATIONS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="ddlemu", help="of torch.distributed: ddlemu, or gloo for comparison")
    parser.add_argument("--op", nargs="+", choices=names, default=names, metavar="OP", help=", ".join(names))
    parser.add_argument("--dtype", nargs="+", choices=TYPES, default=TYPES, metavar="TYPE", help=", ".join(TYPES))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="N", help="numbers of elements")
    parser.add_argument("--repeats", type=int, default=3, help="calls of each (default: %(default)s)")
    parser.add_argument("--sweep", action="store_true", help="five calls of each with 16, 32 to 8192 floats, and a line "
                        "`pytorch_Allreduce_64 durationUs: 123.4` for each")
    args = parser.parse_args()
    if args.sweep:
        args.dtype, args.sizes, args.repeats = ["float32"], POWERS, 5
    join(args.backend)
    chosen = [operation for operation in OPERATIONS if operation.__name__ in args.op]
    results = [test(operation, args) for operation in chosen]
    wrong, refused = sum(r[0] for r in results), any(r[1] for r in results)
    count = len(results) * len(args.dtype) * len(args.sizes)
    say(f"\n{count} combinations of operation, type and size on {dist.get_world_size()} ranks with {args.backend}: "
        f"{wrong} wrong elements" + (", some were refused" if refused else ""))
    leave()
    sys.exit(1 if wrong or (refused and args.backend == "ddlemu") else 0)


main()
