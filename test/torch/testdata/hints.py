# SPDX-License-Identifier: Apache-2.0
"""Errors of a user who expects a GPU or a launcher. Each is caught, and printed as if it had ended the program."""

import contextlib
import inspect
import io
import os
import sys
import tempfile
import types

import job  # noqa: F401
import torch
import torch.distributed as dist

import ddlemu_torch._register as registration

for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
    os.environ.pop(name, None)


def printed(function):
    """Return the last line on stderr when a function ends the program."""
    with contextlib.redirect_stderr(io.StringIO()) as text:
        try:
            function()
        except Exception:
            sys.excepthook(*sys.exc_info())
    return text.getvalue().rstrip("\n").rsplit("\n", 1)[-1].replace("[rank0]:", "").strip()


def initialise(backend="ddlemu", rank=0, size=1, **options):
    folder = tempfile.mkdtemp(dir=".")
    dist.init_process_group(backend, init_method=f"file://{os.path.abspath(folder)}/store", rank=rank, world_size=size,
                            **options)


def old_torch():
    own, torch.__version__, registration._registered = torch.__version__, "1.12.1", False
    try:
        registration.register()
    finally:
        torch.__version__, registration._registered = own, True


def gpu_mentioned():
    """Return the lines that are printed when a machine with a GPU initialises twice."""
    own, torch.cuda.is_available = torch.cuda.is_available, lambda: True
    try:
        with contextlib.redirect_stderr(io.StringIO()) as text:
            initialise()
            dist.destroy_process_group()
            initialise()
    finally:
        torch.cuda.is_available = own
    return text.getvalue().splitlines()


def without_accelerator():
    """Ask for the accelerator, of which a torch for CPUs has none."""
    torch = types.SimpleNamespace(accelerator=types.SimpleNamespace(current_accelerator=lambda: None))
    return torch.accelerator.current_accelerator().type


def main():
    model = torch.nn.Linear(2, 2)
    no_launcher, no_gpu = "ddlemu: no launcher has set the ranks: start", "ddlemu: there is no GPU in this job"
    cases = [
        ("no RANK", lambda: dist.init_process_group("ddlemu"), no_launcher),
        ("too many ranks", lambda: initialise(rank=40, size=41), "ddlemu_torch._errors.DdlemuError: ddlemu: 41 ranks are too many"),
        ("old torch", old_torch, "RuntimeError: ddlemu: torch 1.12.1 is too old: the backend needs torch 1.13 or later"),
        ("nccl", lambda: initialise("nccl"), "ddlemu: this torch has no backend nccl: use the backend ddlemu, or start"),
        ("a GPU", lambda: print(*gpu_mentioned(), sep=" AND ", file=sys.stderr),
         "ddlemu: the backend ddlemu does not need the GPU of this machine and does not use it: it takes CPU tensors."
         " For tensors on the GPU use the backend nccl"),
        ("tensor", lambda: torch.ones(1).cuda(), no_gpu),
        ("device", lambda: torch.ones(1, device="cuda"), no_gpu),
        ("module", lambda: model.to("cuda"), no_gpu),
        ("set_device", lambda: torch.cuda.set_device(0), no_gpu),
        ("DDP", lambda: torch.nn.parallel.DistributedDataParallel(model, device_ids=[0]), no_gpu),
        ("accelerator", without_accelerator, no_gpu),
        ("meta", lambda: dist.all_gather([torch.ones(1, device="meta")], torch.ones(1)),
         "ddlemu_torch._errors.Refused: ddlemu: all_gather: a tensor is on device meta: this backend takes CPU tensors"),
        ("other error", lambda: int("x"), "ValueError: invalid literal"),
    ]
    if "device_id" in inspect.signature(dist.init_process_group).parameters:  # before a case that initialises
        cases.insert(0, ("device_id", lambda: initialise(device_id=torch.device("cpu")), no_gpu))
    wrong = 0
    for name, function, want in cases:
        line = printed(function)
        if not line.startswith(want) or " AND " in line:
            print(f"{name}: the last line is {line!r}, want {want!r}")
            wrong += 1
    if wrong:
        sys.exit(2)
    torch.ones(1).cuda()  # ends the program


main()
