# SPDX-License-Identifier: Apache-2.0
"""Loads the backend "ddlemu" as soon as a program of `ddlemu run` has imported a torch that does not look for backends.

Python imports the first module of this name that it finds when it starts, here from the folder that `ddlemu run` puts
at the beginning of PYTHONPATH. The next one, of the user or of the system, is then executed as if this one were not
there.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_FIRST, _END = (1, 13), (2, 5)  # versions of torch that the backend supports, and that do not look for backends


class _AfterTorch:
    """Finds torch as Python does, and lets the backend follow it."""

    def find_spec(self, name, path=None, target=None):
        """Return where torch is; of other modules, nothing."""
        if name != "torch":
            return None
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in list(sys.meta_path)
                                  if finder is not self and hasattr(finder, "find_spec"))), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):  # a program may look where torch is, and import it later
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                execute(module)
                _load_backend(module)

            spec.loader.exec_module = exec_module
        return spec


def _load_backend(torch):
    """Import the backend if this torch needs that."""
    try:
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        missing = _FIRST <= version < _END and torch.distributed.is_available()
    except (AttributeError, ValueError):  # it is not PyTorch
        return
    if missing:
        import ddlemu_torch  # noqa: F401


def _execute_next():
    """Execute the sitecustomize that Python would have found without this one."""
    own = __spec__.origin
    for folder in sys.path:
        spec = PathFinder.find_spec("sitecustomize", [folder])
        if spec is not None and spec.loader is not None and spec.origin != own:
            module = module_from_spec(spec)
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)
            return


sys.meta_path.insert(0, _AfterTorch())
_execute_next()
