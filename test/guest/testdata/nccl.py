# SPDX-License-Identifier: Apache-2.0
"""NCCL and the software CUDA in one library, by ctypes."""

import ctypes
import os
from ctypes import POINTER, byref, c_char, c_int, c_int64, c_size_t, c_void_p

FLOAT32, SUM = 7, 0
NOT_READY = 600  # cudaErrorNotReady
NON_BLOCKING, NO_TIMING = 1, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", c_char * 128)]


SIGNATURES = {
    "cudaSetDevice": [c_int],
    "cudaStreamCreateWithFlags": [POINTER(c_void_p), c_int],
    "cudaStreamSynchronize": [c_void_p],
    "cudaEventCreateWithFlags": [POINTER(c_void_p), c_int],
    "cudaEventRecord": [c_void_p, c_void_p],
    "ddlemuSoftEventWait": [c_void_p, c_int64],
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, UniqueId, c_int],
    "ncclAllReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
    "ncclCommDestroy": [c_void_p],
}


class Library:
    """Its functions raise an error unless they succeed; those that end in _status return the status."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        for name, arguments in SIGNATURES.items():
            getattr(self.lib, name).argtypes = arguments

    def __getattr__(self, name):
        if name.endswith("_status"):
            return getattr(self.lib, name.removesuffix("_status"))
        function = getattr(self.lib, name)

        def call(*arguments):
            if (status := function(*arguments)) != 0:
                raise RuntimeError(f"{name}: status {status}")

        return call


class Communicator:
    def __init__(self, lib, world, identity, rank):
        self.lib, self.comm, self.stream, self.event = lib, c_void_p(), c_void_p(), c_void_p()
        lib.cudaStreamCreateWithFlags(byref(self.stream), NON_BLOCKING)
        lib.cudaEventCreateWithFlags(byref(self.event), NO_TIMING)
        lib.ncclCommInitRank(byref(self.comm), world, identity, rank)

    def all_reduce(self, source, target, count):
        """Begins a sum of floats; the event is complete when it is done."""
        self.lib.ncclAllReduce(source, target, count, FLOAT32, SUM, self.comm, self.stream)
        self.lib.cudaEventRecord(self.event, self.stream)

    def wait(self, ns):
        """Returns False if the event is not complete after ns."""
        status = self.lib.ddlemuSoftEventWait_status(self.event, ns)
        if status not in (0, NOT_READY):
            raise RuntimeError(f"ddlemuSoftEventWait: status {status}")
        return status == 0

    def error(self):
        status = c_int()
        self.lib.ncclCommGetAsyncError(self.comm, byref(status))
        return status.value

    def destroy(self):
        self.lib.ncclCommDestroy(self.comm)
