# SPDX-License-Identifier: Apache-2.0
"""Calls libgoemu.so through its v8 vtable as NCCL does, with Python's standard library
alone. It stands for a PyTorch process with the plugin."""

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_ulong, c_void_p

PTR_HOST = 1
HANDLE_SIZE = 128
MAX_MESSAGE = 4 << 20
PATIENCE = 20.0  # seconds: the longest wait
PAUSE = 50e-6
INVERT = bytes(255 - i for i in range(256))

# The format has one argument, a string.
LOGGER = CFUNCTYPE(None, c_int, c_ulong, c_char_p, c_int, c_char_p, c_char_p)
OUT = POINTER(c_void_p)


class Props(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("pci_path", c_char_p), ("guid", c_uint64), ("ptr_support", c_int), ("reg_is_global", c_int), ("speed", c_int), ("port", c_int),
        ("latency", c_float), ("max_comms", c_int), ("max_recvs", c_int), ("device_type", c_int), ("device_version", c_int),
    ]


class NetV8(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("init", CFUNCTYPE(c_int, LOGGER)),
        ("devices", CFUNCTYPE(c_int, POINTER(c_int))),
        ("get_properties", CFUNCTYPE(c_int, c_int, POINTER(Props))),
        ("listen", CFUNCTYPE(c_int, c_int, c_void_p, OUT)),
        ("connect", CFUNCTYPE(c_int, c_int, c_void_p, OUT, OUT)),
        ("accept", CFUNCTYPE(c_int, c_void_p, OUT, OUT)),
        ("reg_mr", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int, OUT)),
        ("reg_mr_dmabuf", c_void_p),
        ("dereg_mr", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("isend", CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int, c_void_p, OUT)),
        ("irecv", CFUNCTYPE(c_int, c_void_p, c_int, OUT, POINTER(c_int), POINTER(c_int), OUT, OUT)),
        ("iflush", c_void_p),
        ("test", CFUNCTYPE(c_int, c_void_p, POINTER(c_int), POINTER(c_int))),
        ("close_send", CFUNCTYPE(c_int, c_void_p)),
        ("close_recv", CFUNCTYPE(c_int, c_void_p)),
        ("close_listen", CFUNCTYPE(c_int, c_void_p)),
        ("get_device_mr", c_void_p),
        ("irecv_consumed", c_void_p),
    ]


class NetError(Exception):
    """A call's ncclResult_t that is not success."""

    def __init__(self, call, result):
        super().__init__(f"{call}: ncclResult_t {result}")
        self.result = result


def check(call, result):
    if result != 0:
        raise NetError(call, result)


def until(step, what):
    """Repeats step until it returns something true, as NCCL's progress thread does, but
    yields the processor: these tests measure no times."""
    deadline = time.monotonic() + PATIENCE
    while not (got := step()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(PAUSE)
    return got


class Plugin:
    """The library, loaded as NCCL loads it."""

    def __init__(self):
        self.lib = ctypes.CDLL(os.environ["GOEMU"], mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.net = NetV8.in_dll(self.lib, "ncclNetPlugin_v8")
        self.log = []
        self.logger = LOGGER(lambda level, flags, file, line, format, text: self.log.append((text or b"").decode()))

    def init(self):
        check("init", self.net.init(self.logger))
        n = c_int()
        check("devices", self.net.devices(byref(n)))
        if n.value < 1:
            raise AssertionError(f"{n.value} devices")
        return self

    def properties(self, dev=0):
        p = Props()
        ctypes.memset(byref(p), 0xA5, ctypes.sizeof(p))
        check("getProperties", self.net.get_properties(dev, byref(p)))
        return p

    def link(self, incoming, outgoing):
        """Makes a connection each way with the process behind the two pipes."""
        handle, listen = ctypes.create_string_buffer(HANDLE_SIZE), c_void_p()
        check("listen", self.net.listen(0, handle, byref(listen)))
        outgoing.write(handle.raw.hex() + "\n")
        outgoing.flush()
        theirs = ctypes.create_string_buffer(bytes.fromhex(incoming.readline()), HANDLE_SIZE)
        send, recv, device = c_void_p(), c_void_p(), c_void_p()

        def both():
            if not send:
                check("connect", self.net.connect(0, theirs, byref(send), byref(device)))
            if not recv:
                check("accept", self.net.accept(listen, byref(recv), byref(device)))
            return send and recv

        until(both, "connect and accept")
        check("closeListen", self.net.close_listen(listen))
        return Link(self.net, send, recv)


class Link:
    """A connection each way with one peer."""

    def __init__(self, net, send, recv):
        self.net, self.send, self.recv = net, send, recv
        self.out, self.into = (ctypes.create_string_buffer(MAX_MESSAGE) for _ in range(2))
        self.out_mr, self.into_mr = c_void_p(), c_void_p()
        check("regMr", net.reg_mr(send, self.out, MAX_MESSAGE, PTR_HOST, byref(self.out_mr)))
        check("regMr", net.reg_mr(recv, self.into, MAX_MESSAGE, PTR_HOST, byref(self.into_mr)))

    def isend(self, data):
        """Posts data; the request's value is None if it has to be posted again."""
        ctypes.memmove(self.out, data, len(data))
        request = c_void_p()
        check("isend", self.net.isend(self.send, self.out, len(data), 0, self.out_mr, byref(request)))
        return request

    def irecv(self):
        data, mr, request = (c_void_p * 1)(ctypes.addressof(self.into)), (c_void_p * 1)(self.into_mr), c_void_p()
        check("irecv", self.net.irecv(self.recv, 1, data, (c_int * 1)(MAX_MESSAGE), (c_int * 1)(), mr, byref(request)))
        return request

    def done(self, request):
        """Tests a request; returns its size in a list once it is complete."""
        done, size = c_int(), c_int()
        check("test", self.net.test(request, byref(done), byref(size)))
        return [size.value] if done.value else None

    def put(self, data):
        request = until(lambda: self.isend(data), "isend")
        until(lambda: self.done(request), "the send's end")

    def get(self):
        request = until(self.irecv, "irecv")
        (size,) = until(lambda: self.done(request), "the receive's end")
        return self.into.raw[:size]

    def exchange(self, *sizes):
        """Sends messages to a peer in serve and checks what comes back."""
        for n in sizes or (1, 4096, 1 << 20):
            data = os.urandom(n)
            self.put(data)
            if self.get() != data.translate(INVERT):
                raise AssertionError(f"{n} bytes came back wrong")

    def serve(self):
        """Sends every message back, its bits inverted, until an empty one comes."""
        while data := self.get():
            self.put(data.translate(INVERT))

    def close(self):
        for call, comm, mr in ((self.net.close_send, self.send, self.out_mr), (self.net.close_recv, self.recv, self.into_mr)):
            check("deregMr", self.net.dereg_mr(comm, mr))
            check("close", call(comm))


def start_peer(**env):
    """Starts rank 1, which serves."""
    script = os.path.join(os.path.dirname(__file__), "peer.py")
    return subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "RANK": "1", **env})


@contextlib.contextmanager
def job(load=lambda: Plugin().init()):
    """This process as rank 0 of two, connected to a peer that serves."""
    with start_peer() as peer:
        plugin = load()
        link = plugin.link(peer.stdout, peer.stdin)
        link.exchange()
        yield plugin, link
        link.exchange()
        link.put(b"")
        link.close()
        if peer.wait(PATIENCE) != 0:
            raise AssertionError(f"the peer ended with {peer.returncode}")
