# SPDX-License-Identifier: Apache-2.0
"""Keeps torch.compile away from the functions of this package.

torch calls a backend in Python also while a compiled program runs. Without this, torch.compile takes these functions for a
part of the program: it warns of what it cannot compile, and the first operations take seconds.
"""

import inspect
import sys
from types import CodeType
from typing import Any, Callable, Iterator, Optional

import torch


def skip(package: str) -> None:
    """Let torch.compile skip all functions of the modules of a package that are loaded."""
    mark = _marker()
    if mark is None:
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package:
            for value in list(vars(module).values()):
                if getattr(value, "__module__", "") == name:
                    for code in _codes(value):
                        mark(code)


def _marker() -> Optional[Callable[[CodeType], None]]:
    """Return the function of this version of torch that marks code, or None. The compiler need not be loaded for it."""
    compiler = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(compiler, "skip_code"):  # torch 2.0 and later
        return compiler.skip_code  # type: ignore[no-any-return]
    if hasattr(compiler, "set_code_exec_strategy"):  # which later versions have in its place
        always = compiler._FrameExecStrategy(compiler._FrameAction.SKIP, compiler._FrameAction.SKIP)
        return lambda code: compiler.set_code_exec_strategy(code, always)  # type: ignore[no-any-return]
    return None


def _codes(value: Any) -> Iterator[CodeType]:
    """Return the code of a function, or of all functions of a class, and of the functions in them."""
    if isinstance(value, CodeType):
        yield value
        for constant in value.co_consts:
            if isinstance(constant, CodeType):
                yield from _codes(constant)
    elif inspect.isfunction(value):
        yield from _codes(value.__code__)
    elif inspect.isclass(value):
        for attribute in vars(value).values():
            function = getattr(attribute, "fget", None) or getattr(attribute, "__func__", attribute)
            if inspect.isfunction(function):
                yield from _codes(function)
