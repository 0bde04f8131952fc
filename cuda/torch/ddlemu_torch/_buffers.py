# SPDX-License-Identifier: Apache-2.0
"""Memory that NCCL can read and write: contiguous, and in the order of the elements.

Usually it is the tensor's own memory, so nothing is copied. NCCL has no strides: another tensor is copied before or
after, as c10d does for NCCL on GPUs.
"""

from typing import Callable, List, Sequence

import torch

Actions = List[Callable[[], None]]


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the memory of a tensor holds its elements in their order, as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the same elements that NCCL can read."""
    if _is_plain(tensor):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def writable(tensor: torch.Tensor, actions: Actions) -> torch.Tensor:
    """Return a tensor of the same shape that NCCL can write. An action copies it back, if it is another one."""
    if _is_plain(tensor):
        return tensor
    buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
    actions.append(lambda: copy(tensor, buffer))
    return buffer


def updatable(tensor: torch.Tensor, actions: Actions) -> torch.Tensor:
    """Return a tensor with the same elements that NCCL can read and write. An action copies it back."""
    if _is_plain(tensor):
        return tensor
    buffer = readable(tensor)
    actions.append(lambda: copy(tensor, buffer))
    return buffer


def split(tensors: Sequence[torch.Tensor], actions: Actions) -> torch.Tensor:
    """Return a flat tensor for NCCL's output. An action copies its parts to the tensors."""
    flat = torch.empty(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)

    def copy_parts() -> None:
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors])):
            copy(tensor, part.view(tensor.shape))

    actions.append(copy_parts)
    return flat


def join(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a flat tensor with the elements of the tensors one after the other."""
    with torch.no_grad():
        return torch.cat([readable(t).reshape(-1) for t in tensors])


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy the elements, without a trace for autograd."""
    with torch.no_grad():
        target.detach().copy_(source)
