# SPDX-License-Identifier: Apache-2.0
"""Makes the backend known to torch.distributed.

Most modules of this package need a torch that has torch.distributed and is not too old. So they are imported in the
functions, after the checks that say so.
"""

import functools
import os
from typing import Any, List, Set

import torch

from . import _alias
from ._torch_version import version

BACKEND = "ddlemu"
_OLDEST = (1, 13)
_FIRST_WITH_BACKENDS = (2, 14)
_names: Set[str] = set()  # under which the backend is registered


def register(name: str = BACKEND) -> None:
    """Register the backend under a name.

    A program that names another backend, such as "ccl", runs with this one if a stub of that backend's module calls
    register("ccl").
    """
    if version() < _OLDEST:
        raise RuntimeError(f"ddlemu: torch {torch.__version__} is too old: the backend needs torch 1.13 or later")
    if not torch.distributed.is_available():
        raise RuntimeError("ddlemu: this torch was built without torch.distributed: install one that has it")
    if not _names:
        from . import _dist_batch, _dist_monitored_barrier, _gloo, _hints, _library, _store

        aliases = _alias.parse(os.environ.get(_alias.VARIABLE, ""))
        if os.environ.get(_library.PATH_VARIABLE):  # this process belongs to a job of `ddlemu run`
            _store.use_without_libuv()
            _hints.install()
            _dist_monitored_barrier.install()
            if version() < _FIRST_WITH_BACKENDS:
                _dist_batch.install()
            _gloo.install("gloo" in aliases)
        _register_name(BACKEND)
        _register_aliases(aliases)
    _register_name(name)


def _register_aliases(names: List[str]) -> None:
    """Give the names of other backends to this one."""
    if version() >= _FIRST_WITH_BACKENDS:
        for name in names:
            _register_name(name)
    elif names:
        _alias.replace(names)


def _register_name(name: str) -> None:
    """Register the backend under a name, once per process. Capital letters are the same as small ones."""
    from torch.distributed import Backend

    if name.lower() in _names:
        return
    _names.add(name.lower())
    if version() >= (2, 0):
        Backend.register_backend(name, create, extended_api=True, devices=["cpu"])
    else:
        Backend.register_backend(name, create, extended_api=True)


def create(options: Any, _: Any) -> Any:
    """Make the backend of a group. torch.distributed calls it."""
    import torch.distributed as dist

    ranks = list(options.global_ranks_in_group)
    own = dist.get_rank() if ranks else options.group_rank
    return _create(options.store, options.group_rank, options.group_size, options.timeout, options.group_id, ranks, own)


def create_group(store: Any, rank: int, size: int, timeout: Any = None) -> Any:
    """Make a group of all ranks without torch.distributed, as c10d.ProcessGroupGloo(store, rank, size, timeout) does."""
    from torch.distributed.constants import default_pg_timeout

    from ._group import attempt

    # Some ranks may have made groups that this one has not: the store tells how many there are of it.
    generation = store.add(f"ddlemu/{attempt()}/direct/{rank}", 1)
    return _create(store, rank, size, timeout or default_pg_timeout, "direct", [], rank, generation)


def _create(*arguments: Any) -> Any:
    from ._group import Group

    shell = _shell()
    return shell(Group(*arguments))


@functools.lru_cache(maxsize=None)
def _shell() -> Any:
    """Return the class of the backend for this version of torch."""
    from . import _untraced

    shell: Any
    if version() >= _FIRST_WITH_BACKENDS:
        from ._shell_backend import DdlemuBackend as shell
    else:
        from ._shell_process_group import DdlemuProcessGroup as shell
    _untraced.skip(__package__)  # all modules are loaded now
    return shell
