#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what this machine has for the GPU cases, as NAME=VALUE lines.

ready   yes if NCCL cases can run; else why has the reason
gpus    number of GPUs that PyTorch finds
names, driver, cuda, torch, nccl (2.27.5), python
nccl_lib, cudart_lib  paths of the libraries that PyTorch loaded, empty if linked in
torchrun  path of the launcher, empty if it must be started as a module
share   yes if several processes can share a GPU; else share_why has the reason
mps     yes if NVIDIA's Multi-Process Service runs
peers   yes if all GPUs can access each other's memory
"""

import glob
import os
import shutil
import subprocess
import sys
import sysconfig

FIRST_PREEMPTIVE = 6  # major compute capability; on older GPUs, kernels that wait for another process hang


def smi(fields):
    """Returns a list of fields per GPU from nvidia-smi, empty if that fails."""
    tool = shutil.which("nvidia-smi") or "/usr/local/nvidia/bin/nvidia-smi"
    try:
        out = subprocess.run(
            [tool, "--query-gpu=" + fields, "--format=csv,noheader"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=True,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return []
    return [[field.strip() for field in line.split(",")] for line in out.splitlines() if line.strip()]


def has_gpu():
    return bool(glob.glob("/proc/driver/nvidia/gpus/*") or glob.glob("/dev/nvidia[0-9]*") or smi("name"))


def loaded(prefix):
    """Returns the path of a library that this process has loaded, or ""."""
    with open("/proc/self/maps") as f:
        for line in f:
            path = line.split(None, 5)[-1].strip()
            if os.path.basename(path).startswith(prefix):
                return path
    return ""


def mps_runs():
    if os.path.exists(os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control")):
        return True
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path) as f:
                if f.read().startswith("nvidia-cuda-mps"):
                    return True
        except OSError:
            pass
    return False


def nccl_version(torch):
    try:
        v = torch.cuda.nccl.version()
    except Exception:  # built without NCCL; the type differs between versions of PyTorch
        return ""
    if isinstance(v, tuple):
        return ".".join(str(n) for n in v[:3])
    scale = 10000 if v >= 10000 else 1000
    return "%d.%d.%d" % (v // scale, v % scale // 100, v % 100)


def sharing(torch, modes):
    """Returns why several processes cannot share a GPU, or ""."""
    for i in range(torch.cuda.device_count()):
        if torch.cuda.get_device_capability(i)[0] < FIRST_PREEMPTIVE:
            return "GPU %d cannot preempt a kernel that waits for another process" % i
    if any("Exclusive" in mode or "Prohibited" in mode for mode in modes):
        return "a GPU's compute mode is %s" % ", ".join(sorted(set(modes)))
    return ""


def peers(torch):
    n = torch.cuda.device_count()
    return all(torch.cuda.can_device_access_peer(a, b) for a in range(n) for b in range(n) if a != b)


def describe(torch, found):
    """Adds the properties of the GPUs from PyTorch and the driver."""
    n = torch.cuda.device_count()
    found["gpus"] = n
    found["names"] = ", ".join(torch.cuda.get_device_name(i) for i in range(n))
    about = smi("driver_version,compute_mode")
    found["driver"] = about[0][0] if about else "unknown"
    found["share_why"] = sharing(torch, [a[1] for a in about if len(a) > 1])
    found["share"] = "no" if found["share_why"] else "yes"
    found["peers"] = "yes" if peers(torch) else "no"
    found["mps"] = "yes" if mps_runs() else "no"
    found["cudart_lib"] = loaded("libcudart")


def probe():
    found = {"ready": "no", "why": "", "gpus": 0, "python": "%d.%d.%d" % sys.version_info[:3]}
    launcher = os.path.join(sysconfig.get_path("scripts"), "torchrun")
    found["torchrun"] = launcher if os.access(launcher, os.X_OK) else ""
    gpu = has_gpu()
    try:
        import torch
        import torch.distributed as dist
    except ImportError as e:
        found["why"] = "PyTorch cannot be imported by %s: %s" % (sys.executable, e) if gpu else "no NVIDIA GPU"
        return found
    found["torch"], found["cuda"] = torch.__version__, torch.version.cuda or "none"
    if not torch.cuda.is_available():
        found["why"] = "PyTorch %s cannot use the NVIDIA GPU that is there" % torch.__version__ if gpu else "no NVIDIA GPU"
        return found
    describe(torch, found)
    found["nccl"], found["nccl_lib"] = nccl_version(torch), loaded("libnccl.so")
    if not dist.is_available() or not dist.is_nccl_available():
        found["why"] = "PyTorch %s has no NCCL" % torch.__version__
        return found
    found["ready"] = "yes"
    return found


if __name__ == "__main__":
    for key, value in probe().items():
        print("%s=%s" % (key, " ".join(str(value).split())))
