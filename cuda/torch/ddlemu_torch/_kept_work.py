# SPDX-License-Identifier: Apache-2.0
"""Works for torch below 2.14, where a caller in C++ keeps only the C++ half of a work.

When nothing in Python refers to a work any more, its Python half would go. The C++ half no longer finds the methods then,
and its wait would never return. Python cannot see whether C++ has the other half. So the Python halves of works that C++
may have are kept, a limited number of them. Their tensors are not kept: from then on a work refers to them weakly, and a
caller in C++ that asks for the future so late has the tensors itself.

No more is kept than that: a small object that stays where a large tensor was cannot be passed over by the allocator of
C, and the memory of the process grows by the size of the tensor.
"""

import sys
import weakref
from collections import OrderedDict, deque
from datetime import timedelta
from typing import Any, Callable, Deque, Sequence

import torch
import torch.distributed as dist

from ._errors import DdlemuError
from ._work import Work

_MOST_UNASKED = 4096
_MOST_ASKED = 8


class Kept:
    """The works of a group that are kept. Safe for concurrent use."""

    def __init__(self) -> None:
        self._unasked: "OrderedDict[int, KeptWork]" = OrderedDict()
        # A caller that waits, or has the future, seldom needs the work again, and if so, soon.
        self._asked: Deque[KeptWork] = deque(maxlen=_MOST_ASKED)

    def add(self, work: "KeptWork") -> None:
        """Keep a work."""
        if work.asked:
            self._asked.append(work)
            return
        self._unasked[id(work)] = work
        if len(self._unasked) > _MOST_UNASKED:
            self._unasked.popitem(last=False)

    def note_asked(self, work: "KeptWork") -> None:
        """Note that a caller waits for a work, or asks for its future."""
        if self._unasked.pop(id(work), None) is not None:
            self._asked.append(work)

    def clear(self) -> None:
        """Keep none of them any longer."""
        self._unasked.clear()
        self._asked.clear()


class KeptWork(Work):
    """A work that is kept when nothing in Python refers to it any more, if a caller in C++ may have it."""

    def __init__(self, kept: Kept, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kept = kept
        self._is_of_python = _is_called_by_python()
        self.asked = False

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """As Work.wait."""
        self._ask()
        return super().wait(timeout)

    def get_future(self) -> torch.futures.Future:
        """As Work.get_future."""
        self._ask()
        return super().get_future()

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            self._kept.note_asked(self)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # The communicator refers to an operation that is in flight. So this one has ended, or was never started.
        if self._is_of_python or finalizing():
            return
        self._outputs, self._future = _weak(self._outputs), None
        self._inputs, self._actions = [], []  # of an operation that has failed
        self._kept.add(self)  # Python calls this method only once

    def _results(self) -> Sequence[Any]:
        return self._strong(self._outputs)

    def _strong(self, value: Any) -> Any:
        """Return what _weak was given."""
        if isinstance(value, (list, tuple)):
            return [self._strong(item) for item in value]
        if not isinstance(value, weakref.ref):
            return value
        tensor = value()
        if tensor is None:
            raise DdlemuError(f"ddlemu: {self.operation} of {self.communicator.title}: its output tensors are gone: keep "
                              "them, or ask for the future before the operation is complete")
        tensor._fix_weakref()  # C++ may have owned its Python half
        return tensor


def _weak(value: Any) -> Any:
    """Return weak references to the tensors in lists of lists."""
    if isinstance(value, torch.Tensor):
        return weakref.ref(value)
    return [_weak(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_called_by_python() -> bool:
    """Return whether a function of torch.distributed has called a method of the group.

    These functions call it directly. All others may have called C++, which has called the group.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_globals is vars(dist.distributed_c10d)
