# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's operators for CUDA tensors on the CPU, on the software CUDA.

PyTorch loads this package when it is imported (entry point `torch.backends`). operators.cc is compiled at the first
use for the installed PyTorch, and kept in the user's cache.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def load():
    """Compile the operators if that has not been done for this PyTorch, and put them in place of the GPU's."""
    import torch

    version = torch.version.cuda
    if version is None or version.split(".")[0] != "12":
        kind = "the CPU only" if version is None else f"CUDA {version}"
        sys.exit(f"ddlemu: --cuda needs a PyTorch for CUDA 12, and torch {torch.__version__} is for {kind}: install "
                 "one, such as `pip install torch==2.8.0`, or use the backend ddlemu (docs/torch.md)")
    torch.ops.load_library(_built(torch))
    sys.meta_path.insert(0, _AfterTriton())


class _AfterTriton:
    """Lets Triton say that it cannot run kernels, where it would compile a helper for NVIDIA's driver."""

    def find_spec(self, name, path=None, target=None):
        """Return where Triton's module for NVIDIA's driver is; of other modules, nothing."""
        if name != "triton.backends.nvidia.driver":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.CudaUtils.__new__ = _refuse_triton

            spec.loader.exec_module = exec_module
        return spec


def _refuse_triton(*_):
    """Stand for the functions of the driver by which Triton loads kernels."""
    raise NotImplementedError("ddlemu: Triton's kernels, such as torch.compile's by default, cannot run on a software "
                              "GPU: use torch.compile(backend=\"aot_eager\"), or leave it out")


def _built(torch):
    """Return the path of the compiled operators."""
    sources = sorted(Path(__file__).parent.glob("*.[ch]*"))
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    what = hashlib.sha256(b"".join(s.read_bytes() for s in sources) + " ".join([compiler, *flags, torch.__version__]).encode())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddlemu"
    product = base / f"torch-{torch.__version__}-{what.hexdigest()[:16]}.so"
    base.mkdir(parents=True, exist_ok=True)
    with open(base / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several ranks one compiles
        if not product.exists():
            _compile(compiler, flags, [str(s) for s in sources if s.suffix == ".cc"], product, Path(torch.__file__).parent)
    return str(product)


def _compile(compiler, flags, sources, product, torch):
    """Compile the sources into the product."""
    print("ddlemu: compiling the operators for this PyTorch, once", file=sys.stderr)
    new = product.with_suffix(".new")
    include = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        subprocess.run([compiler, *flags, *include, *sources, "-o", str(new), f"-L{torch / 'lib'}", "-lc10",
                        "-ltorch_cpu"], check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"ddlemu: cannot compile {sources[0]}: {error}: install g++, or set CXX to a compiler of C++17")
    new.rename(product)
