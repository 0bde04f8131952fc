# SPDX-License-Identifier: Apache-2.0
"""Messages of a rank to itself: the first send goes to the first receive, and so on.

c10d's backend for NCCL takes them in a batch. They cross no link, so they are copied here and NCCL takes no part.
"""

import threading
from collections import deque
from typing import Deque, Tuple

import torch

from ._buffers import copy
from ._errors import refuse
from ._work import Work


class SelfMessages:
    """The sends and receives of a rank of a group that have no partner yet. Safe for concurrent use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sends: Deque[Tuple[Work, torch.Tensor]] = deque()
        self._receives: Deque[Tuple[Work, torch.Tensor]] = deque()

    def send(self, work: Work, tensor: torch.Tensor) -> None:
        """Complete a send and its receive, if that was started before. Else the send waits for it."""
        self._start(work, tensor, self._sends, self._receives)

    def receive(self, work: Work, tensor: torch.Tensor) -> None:
        """Complete a receive and its send, if that was started before. Else the receive waits for it."""
        self._start(work, tensor, self._receives, self._sends)

    def _start(self, work: Work, tensor: torch.Tensor, mine: Deque[Tuple[Work, torch.Tensor]],
               others: Deque[Tuple[Work, torch.Tensor]]) -> None:
        with self._lock:
            if not others:
                mine.append((work, tensor))
                return
            partner, other = others[0]
            source, target = (tensor, other) if mine is self._sends else (other, tensor)
            if target.numel() != source.numel() or target.dtype != source.dtype:
                raise refuse("recv", f"this rank sends itself {source.numel()} elements of {source.dtype}, and receives "
                                     f"{target.numel()} of {target.dtype}")
            copy(target, source.reshape(target.shape))
            others.popleft()
        for ended in (partner, work):
            ended.launched(None)
