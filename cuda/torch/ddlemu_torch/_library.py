# SPDX-License-Identifier: Apache-2.0
"""NCCL and the CUDA runtime below it, through ctypes.

The library is loaded by its full path. RTLD_LOCAL keeps its symbols from other libraries, and RTLD_DEEPBIND keeps the
symbols of other libraries from it: a CUDA build of torch has another CUDA runtime in the same process.
"""

import ctypes
import importlib.util
import os
import threading
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint, c_void_p
from typing import Dict, List, Optional

from ._errors import DdlemuError

PATH_VARIABLE = "DDLEMU_TORCH_NCCL"

SUCCESS = 0
IN_PROGRESS = 7  # ncclInProgress
NOT_READY = 600  # cudaErrorNotReady
_LAUNCH_TIMEOUT = 702  # cudaErrorLaunchTimeout

_UNDEFINED = -(2**31)  # NCCL_CONFIG_UNDEF_INT
_NON_BLOCKING_STREAM = 1  # cudaStreamNonBlocking
_EVENT_FLAGS = 2  # cudaEventDisableTiming
_UNIQUE_ID_BYTES = 128


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = [("internal", c_char * _UNIQUE_ID_BYTES)]

    def to_bytes(self) -> bytes:
        """Return all 128 bytes."""
        return ctypes.string_at(ctypes.byref(self), _UNIQUE_ID_BYTES)


class _Config(ctypes.Structure):
    """ncclConfig_t as in NCCL 2.17 to 2.26. Later versions accept it by its size."""

    _fields_ = [
        ("size", c_size_t),
        ("magic", c_uint),
        ("version", c_uint),
        ("blocking", c_int),
        ("cga_cluster_size", c_int),
        ("min_ctas", c_int),
        ("max_ctas", c_int),
        ("net_name", c_void_p),
        ("split_share", c_int),
    ]


# Each function returns an int, which is an ncclResult_t or a cudaError_t, unless it is one of _TIMES.
_FUNCTIONS: Dict[str, List[type]] = {
    "ncclGetVersion": [POINTER(c_int)],
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclCommInitRankConfig": [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(_Config)],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclCommCount": [c_void_p, POINTER(c_int)],
    "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
    "ncclRedOpCreatePreMulSum": [POINTER(c_int), c_void_p, c_int, c_int, c_void_p],
    "ncclRedOpDestroy": [c_int, c_void_p],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclReduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p],
    "ncclBroadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclAllGather": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "ncclReduceScatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "cudaGetDeviceCount": [POINTER(c_int)],
    "cudaSetDevice": [c_int],
    "cudaStreamCreateWithFlags": [POINTER(c_void_p), c_uint],
    "cudaStreamDestroy": [c_void_p],
    "cudaEventCreateWithFlags": [POINTER(c_void_p), c_uint],
    "cudaEventDestroy": [c_void_p],
    "cudaEventRecord": [c_void_p, c_void_p],
    "cudaEventQuery": [c_void_p],
    "ddlemuSoftEventWait": [c_void_p, c_int64],
    "ddlemuSoftHandovers": [],
    "ddlemuSoftAwaitHandover": [c_uint, c_int],
    "ddlemu_now": [],
    "ddlemu_computed": [],
}
_TIMES = ("ddlemu_now", "ddlemu_computed")  # return ns


class Library:
    """The functions of NCCL and of the CUDA runtime. Each function is an attribute with its C name."""

    def __init__(self, path: str) -> None:
        try:
            handle = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        except OSError as error:
            raise DdlemuError(f"ddlemu: load NCCL ({PATH_VARIABLE}={path}): {error}") from None
        self.path = path
        for name, arguments in _FUNCTIONS.items():
            try:
                function = getattr(handle, name)
            except AttributeError:
                raise DdlemuError(f"ddlemu: {path} has no function {name}: {PATH_VARIABLE} must name the NCCL that "
                                  "comes with this version of ddlemu; run `make build`") from None
            function.argtypes, function.restype = arguments, c_int64 if name in _TIMES else c_int
            setattr(self, name, function)
        self._error_string = {"nccl": handle.ncclGetErrorString, "cuda": handle.cudaGetErrorString}
        for function in self._error_string.values():
            function.argtypes, function.restype = [c_int], c_char_p
        self._last_error = handle.ncclGetLastError
        self._last_error.argtypes, self._last_error.restype = [c_void_p], c_char_p

    def nccl_error(self, code: int, communicator: Optional[c_void_p] = None) -> str:
        """Describe an ncclResult_t. NCCL adds the last line that it logged, if there is one."""
        text = f"NCCL: {self._error_string['nccl'](code).decode()}"
        last = self._last_error(communicator).decode(errors="replace").strip()
        return f"{text}: {' '.join(last.split())}" if last else text

    def cuda_error(self, code: int) -> str:
        """Describe a cudaError_t."""
        return f"CUDA: {self._error_string['cuda'](code).decode()}"

    def is_launch_timeout(self, error: str) -> bool:
        """Return whether an error is that of a kernel which waited for too long after a rank of the job had died."""
        return error == self.cuda_error(_LAUNCH_TIMEOUT)

    def check_nccl(self, code: int) -> None:
        """Raise DdlemuError unless code is ncclSuccess or ncclInProgress."""
        if code not in (SUCCESS, IN_PROGRESS):
            raise DdlemuError(self.nccl_error(code))

    def check_cuda(self, code: int) -> None:
        """Raise DdlemuError unless code is cudaSuccess."""
        if code != SUCCESS:
            raise DdlemuError(self.cuda_error(code))

    def version(self) -> int:
        """Return NCCL's version, such as 22203."""
        value = c_int()
        self.check_nccl(self.ncclGetVersion(ctypes.byref(value)))
        return value.value

    def unique_id(self) -> UniqueId:
        """Return a new identifier for a communicator."""
        value = UniqueId()
        self.check_nccl(self.ncclGetUniqueId(ctypes.byref(value)))
        return value

    def device_count(self) -> int:
        """Return the number of software GPUs."""
        count = c_int()
        return count.value if self.cudaGetDeviceCount(ctypes.byref(count)) == SUCCESS else 0

    def non_blocking_config(self) -> _Config:
        """Return a configuration with which NCCL's calls return ncclInProgress instead of blocking."""
        return _Config(ctypes.sizeof(_Config), 0xCAFEBEEF, self.version(), 0, _UNDEFINED, _UNDEFINED, _UNDEFINED,
                       None, _UNDEFINED)

    def new_stream(self) -> c_void_p:
        """Create a stream that does not wait for the default stream."""
        stream = c_void_p()
        self.check_cuda(self.cudaStreamCreateWithFlags(ctypes.byref(stream), _NON_BLOCKING_STREAM))
        return stream

    def record_end(self, stream: c_void_p) -> Optional[c_void_p]:
        """Return an event after all that is in a stream, or None if CUDA fails: a kernel has failed."""
        event = c_void_p()
        if self.cudaEventCreateWithFlags(ctypes.byref(event), _EVENT_FLAGS) != SUCCESS:
            return None
        return event if self.cudaEventRecord(event, stream) == SUCCESS else None

    def new_event(self) -> c_void_p:
        """Create an event without timing."""
        event = c_void_p()
        self.check_cuda(self.cudaEventCreateWithFlags(ctypes.byref(event), _EVENT_FLAGS))
        return event


_lock = threading.Lock()
_library: Optional[Library] = None


def library() -> Library:
    """Load the library that DDLEMU_TORCH_NCCL names, once per process."""
    global _library
    with _lock:
        if _library is None:
            path = os.environ.get(PATH_VARIABLE)
            if not path:
                raise DdlemuError(f"ddlemu: {PATH_VARIABLE} is not set: start the program with `{_command()} run -- "
                                  "COMMAND`, which sets it (with a GPU: use the backend nccl, or add --soft-cuda)")
            _library = Library(path)
        return _library


def _command() -> str:
    """Return how this user starts ddlemu."""
    wheel = importlib.util.find_spec("ddlemu")
    return "python -m ddlemu" if wheel is not None and wheel.origin else "ddlemu"
