# SPDX-License-Identifier: Apache-2.0
"""Two ranks that use the NCCL for guests, from memory of malloc. GUEST is its path, PRELOAD names libraries that the
process has before, in the global scope. The argument is what the ranks do. Prints "ok"."""

import array
import ctypes
import os
import signal
import subprocess
import sys
import time

import nccl

MS = 1_000_000  # ns
SECOND = 1000 * MS
COUNTS = [1, 1000, 300_000]  # LL and Simple
WORLD = 2

libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


def memory(values):
    """Copies floats into memory of malloc."""
    address = libc.malloc(4 * len(values))
    ctypes.memmove(address, values.tobytes(), 4 * len(values))
    return address


def done():
    os.write(1, b"ok\n")


def floats(address, count):
    return array.array("f", ctypes.string_at(address, 4 * count))


def ramp(count, rank):
    return array.array("f", [i % 1000 + 3 * rank for i in range(count)])


def check_sum(comm, rank, count, ranks=range(WORLD)):
    """All-reduces and checks every element."""
    source, target = memory(ramp(count, rank)), memory(array.array("f", [-1.0] * count))
    comm.all_reduce(source, target, count)
    if not comm.wait(60 * SECOND):
        raise TimeoutError(f"all-reduce of {count} floats, NCCL's error {comm.error()}")
    want = array.array("f", [sum(column) for column in zip(*(ramp(count, r) for r in ranks))])
    got = floats(target, count)
    if got != want:
        wrong = next(i for i in range(count) if got[i] != want[i])
        raise AssertionError(f"{count} floats, element {wrong}: {got[wrong]}, want {want[wrong]}")


def check_process():
    """Nothing of the guest's library is seen by the rest of the process."""
    everything = ctypes.CDLL(None)
    for name in ("ncclGetVersion", "cudaMalloc", "nvmlInit_v2"):
        if hasattr(everything, name) and not os.environ.get("PRELOAD"):
            raise AssertionError(f"{name} is in the global scope")
    address = lambda lib: ctypes.cast(lib.sched_yield, ctypes.c_void_p).value
    if address(everything) != address(libc):
        raise AssertionError("sched_yield is not libc's")
    # As PyTorch looks for GPUs.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pass
    software = os.path.dirname(os.path.dirname(os.environ["GUEST"]))
    with open("/proc/self/maps") as maps:
        strangers = [line for line in maps if line.rstrip().endswith(("libnvidia-ml.so.1", "libcudart.so.12", "libnccl.so.2")) and software in line]
    if strangers:
        raise AssertionError(f"the process has {strangers}")


def values(lib, comm, rank):
    for count in COUNTS:
        check_sum(comm, rank, count)
    check_process()


def alone(lib, comm, rank):
    """A communicator of one rank copies."""
    identity = nccl.UniqueId()
    lib.ncclGetUniqueId(ctypes.byref(identity))
    own = nccl.Communicator(lib, 1, identity, 0)
    for count in COUNTS:
        check_sum(own, rank, count, [rank])
    own.destroy()
    check_sum(comm, rank, 1000)


def late(lib, comm, rank):
    """Rank 0 waits with a limit for rank 1, which begins late."""
    check_sum(comm, rank, 1000)
    if rank == 1:
        time.sleep(1)
        check_sum(comm, rank, 1000)
        return
    target = memory(ramp(1000, rank))
    begin = time.monotonic()
    comm.all_reduce(target, target, 1000)
    waits = 1
    while not comm.wait(100 * MS):
        waits += 1
        if comm.error() != 0:
            raise AssertionError(f"NCCL's error {comm.error()}")
    took = time.monotonic() - begin
    if waits < 3 or waits > 1 + 10 * took:
        raise AssertionError(f"{waits} waits of 100 ms in {took} s")


def killed(lib, comm, rank):
    """Rank 1 dies when rank 0 has its sum, and rank 0 gets an error."""
    check_sum(comm, rank, 1000)
    if rank == 1:
        pipe["incoming"].read(1)
        os.kill(os.getpid(), signal.SIGKILL)
    pipe["outgoing"].write(b"1")
    pipe["outgoing"].flush()
    target = memory(ramp(1000, rank))
    begin = time.monotonic()
    comm.all_reduce(target, target, 1000)
    while comm.error() == 0:
        if comm.wait(50 * MS) and comm.error() == 0:
            raise AssertionError("the all-reduce is complete")
        if time.monotonic() > begin + 30:
            raise TimeoutError("no error after 30 s")
    done()
    os._exit(0)


# From rank 0 to rank 1.
pipe = {}


def run_rank(case, rank, incoming, outgoing):
    pipe.update(incoming=incoming, outgoing=outgoing)
    for path in filter(None, os.environ.get("PRELOAD", "").split(":")):
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    lib = nccl.Library(os.environ["GUEST"])
    identity = nccl.UniqueId()
    if rank == 0:
        lib.ncclGetUniqueId(ctypes.byref(identity))
        outgoing.write(bytes(identity))
        outgoing.flush()
    else:
        identity = nccl.UniqueId.from_buffer_copy(incoming.read(ctypes.sizeof(identity)))
    lib.cudaSetDevice(rank)
    comm = nccl.Communicator(lib, WORLD, identity, rank)
    globals()[case](lib, comm, rank)
    comm.destroy()
    done()


def both(case):
    reader, writer = os.pipe()
    ranks = []
    for rank in range(WORLD):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(WORLD)}
        ranks.append(subprocess.Popen([sys.executable, __file__, case, str(reader), str(writer)], env=env, pass_fds=[reader, writer]))
    os.close(reader)
    os.close(writer)
    want = [0, -signal.SIGKILL] if case == "killed" else [0, 0]
    got = [rank.wait() for rank in ranks]
    sys.exit(0 if got == want else f"the ranks' exit statuses are {got}")


if len(sys.argv) == 2:
    both(sys.argv[1])
else:
    run_rank(sys.argv[1], int(os.environ["RANK"]), os.fdopen(int(sys.argv[2]), "rb"), os.fdopen(int(sys.argv[3]), "wb"))
