# SPDX-License-Identifier: Apache-2.0
"""The handle of an operation that was started."""

import threading
import time
from ctypes import c_void_p
from datetime import timedelta
from typing import Any, Callable, List, Optional, Protocol, Sequence

import torch
from torch._C._distributed_c10d import Work as C10dWork

from . import _completer
from ._board import Message
from ._errors import DdlemuError
from ._library import NOT_READY, SUCCESS, Library
from ._signature import Signature

# A thread that waits for an event looks this often whether its communicator has failed, in nanoseconds.
_SLICE = 200_000_000


class Owner(Protocol):
    """What a work uses of its communicator."""

    library: Library
    title: str
    own_rank: int
    failing: bool

    def completed(self, work: "Work", event: c_void_p) -> None:
        """Note that an operation is complete. Its event can be used again."""

    def begin_wait(self, work: "Work") -> None:
        """Tell the other ranks that a thread waits for an operation."""

    def end_wait(self, work: "Work") -> None:
        """Tell the other ranks that the operation is complete."""

    def difference(self, work: "Work") -> str:
        """Say how another member's call differs from this one, or return an empty string."""

    def fail(self, cause: str, look_for_death: bool = True) -> None:
        """Abort the communicator."""

    def fail_late(self, work: "Work") -> None:
        """Abort the communicator because a work is not complete in time."""

    def cause(self) -> str:
        """Return why the communicator has failed."""

    def await_stop(self) -> None:
        """Wait until no operation of a failed communicator touches memory any more."""


class Work(C10dWork):
    """An operation on a communicator. Safe for concurrent use."""

    def __init__(self, communicator: Owner, operation: str, outputs: Sequence[Any], limit: float) -> None:
        super().__init__()
        self.communicator = communicator
        self.operation = operation
        self.signature: Optional[Signature] = None
        # How many elements it sends to each member and receives from each, if members differ in that. Else empty.
        self.sends: Sequence[int] = ()
        self.receives: Sequence[int] = ()
        self.messages: List[Message] = []  # their members are ranks of the communicator
        self.sequence = 0  # among the collectives of the communicator; set when it is launched
        self.order = 0  # among all its operations; set when it is launched
        self.started = time.monotonic()
        self.limit = limit  # seconds
        self._event: Optional[c_void_p] = None
        self._is_launched = False
        self._launch: Optional[threading.Event] = None  # made by a thread that waits for the launch
        self._lock = threading.RLock()
        self.complete = False
        self._error: Optional[DdlemuError] = None
        self._outputs = outputs
        self._inputs: List[Any] = []
        self._actions: List[Callable[[], None]] = []
        self._future: Optional[torch.futures.Future] = None

    # What the operations of a group use.

    def keep(self, *objects: Any) -> None:
        """Keep objects alive until the operation is complete."""
        self._inputs.extend(objects)

    def when_complete(self, function: Callable[[], None]) -> None:
        """Call a function once, when the operation is complete and before anybody is told."""
        self._actions.append(function)

    def launched(self, event: Optional[c_void_p]) -> None:
        """Note that NCCL has the operation. event is its end; None if it is complete already."""
        self._event = event
        if event is None:
            self.finish()
        with self._lock:
            self._is_launched = True
            if self._launch:
                self._launch.set()

    def _await_launch(self, seconds: float) -> None:
        """Wait at most this long until NCCL has the operation."""
        with self._lock:
            if self._is_launched:
                return
            self._launch = self._launch or threading.Event()
        self._launch.wait(seconds)

    # What communicators and the watchdog use.

    def query(self) -> bool:
        """Return whether the operation is complete, without waiting."""
        if self.complete:
            return True
        if not self._is_launched or self.communicator.failing:
            return False
        return self.look(0)

    def finish(self) -> None:
        """Note that the operation is complete."""
        with self._lock:
            if self.complete:
                return
            if self._actions:
                with torch.no_grad():
                    for function in self._actions:
                        function()
            self.complete = True
            event, self._event = self._event, None
            self._inputs, self._actions = [], []
        if event is not None:
            self.communicator.completed(self, event)

    def ended_before_failure(self) -> bool:
        """Return whether the operation was complete when its communicator failed. Only for the thread that aborts it."""
        event = self._event
        return event is not None and self.communicator.library.ddlemuSoftEventWait(event, 0) == SUCCESS

    def overdue(self) -> bool:
        """Return whether the time limit is over."""
        return time.monotonic() > self.started + self.limit

    def error(self) -> DdlemuError:
        """Return the exception for an operation whose communicator has failed."""
        c = self.communicator
        return DdlemuError(f"ddlemu: {self.name()} of {c.title}, on rank {c.own_rank}: {c.cause()}")

    def name(self) -> str:
        """Return the name of the operation with its number, such as "all_reduce number 2"."""
        number = self.messages[0].number if len(self.messages) == 1 else self.sequence
        return f"{self.operation} number {number}" if number else self.operation

    # What c10d defines.

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is complete. Raise DdlemuError if it has failed or the time limit is over."""
        if not self.complete:
            if timeout.total_seconds() > 0:
                self.limit = min(self.limit, time.monotonic() - self.started + timeout.total_seconds())
            self.await_end()
        return True

    def synchronize(self) -> None:
        """As wait. There is no stream of the program for which the operation could be ordered."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the operation is complete or has failed."""
        return self.query() or self.communicator.failing

    def is_success(self) -> bool:
        """Return whether the operation is complete and has not failed."""
        return self.query()

    def exception(self) -> Optional[DdlemuError]:
        """Return the exception of an operation that has failed, else None."""
        if not self.query() and self.communicator.failing:
            return self.error()
        return None

    def result(self) -> List[torch.Tensor]:
        """Return the output tensors."""
        return list(self._results())

    def get_future(self) -> torch.futures.Future:
        """Return a future with the output tensors. It is done if the operation is complete now; else a thread of this
        package completes it, in which its callbacks run.
        """
        complete = self.query()
        with self._lock:
            if self._future is None:
                ended: torch.futures.Future = torch.futures.Future()
                # An error that set_exception sets is seen only from Python. That of a callback is seen from C++ too.
                self._future = ended.then(self._outcome)
                if complete:
                    ended.set_result(None)
                else:
                    _completer.submit(lambda: self._settle(ended))
            return self._future

    def _settle(self, ended: torch.futures.Future) -> None:
        """Wait, and complete the future."""
        try:
            self.wait()
        except DdlemuError as error:
            self._error = error
        ended.set_result(None)

    def _outcome(self, _: torch.futures.Future) -> Sequence[Any]:
        """Return the outputs of an operation that has ended, or raise its error."""
        if self._error:
            raise self._error
        return self._results()

    def _results(self) -> Sequence[Any]:
        """Return the outputs."""
        return self._outputs

    def look(self, nanoseconds: int) -> bool:
        """Wait for the event at most this long. Return whether the operation is complete."""
        event = self._event
        if event is None:
            return self.complete
        code = self.communicator.library.ddlemuSoftEventWait(event, nanoseconds)
        if self.complete:  # another thread has seen it, and the event may be another operation's now
            return True
        if code == NOT_READY:
            return False
        if code != SUCCESS:
            self.communicator.fail(self.communicator.library.cuda_error(code))
            return False
        if self.communicator.failing:  # aborting the communicator ended the operation
            return False
        difference = self.communicator.difference(self)
        if difference:
            self.communicator.fail(difference, look_for_death=False)
            return False
        self.finish()
        return True

    def await_end(self) -> None:
        """Wait until the operation is complete. Raise DdlemuError if it has failed or the time limit is over."""
        self.communicator.begin_wait(self)
        self._await_end()  # if it fails, the other ranks can still read what this one waited for
        self.communicator.end_wait(self)

    def _await_end(self) -> None:
        while not self.complete:
            if self.communicator.failing:
                self.communicator.await_stop()
                if self.complete:
                    return
                raise self.error()
            remaining = int(1e9 * (self.started + self.limit - time.monotonic()))
            if remaining <= 0 and not self.query():
                self.communicator.fail_late(self)
            elif not self._is_launched:
                self._await_launch(min(_SLICE, max(remaining, 0)) * 1e-9)
            else:
                self.look(max(min(_SLICE, remaining), 0))
