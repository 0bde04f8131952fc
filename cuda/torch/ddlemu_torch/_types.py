# SPDX-License-Identifier: Apache-2.0
"""Which tensors and reductions NCCL has. What it has not is refused by name."""

from typing import Any, Dict, NamedTuple, Optional, Sequence

import torch
from torch._C._distributed_c10d import ReduceOp

from ._errors import refuse


class ElementType(NamedTuple):
    """How NCCL sees the elements of a tensor."""

    nccl: int  # ncclDataType_t
    parts: int  # NCCL elements per element: 2 for complex numbers


class Reduction(NamedTuple):
    """How NCCL reduces."""

    name: str  # of c10d, such as "SUM"
    nccl: int  # ncclRedOp_t, if factor is None
    factor: Optional[torch.Tensor]  # of PREMUL_SUM, one element of the tensor's type


_INT8, _UINT8, _INT32, _UINT32, _INT64, _UINT64, _FLOAT16, _FLOAT32, _FLOAT64, _BFLOAT16 = range(10)
_SUM, _PROD, _MAX, _MIN, _AVG = range(5)

_TYPES: Dict[torch.dtype, ElementType] = {
    torch.bool: ElementType(_UINT8, 1),
    torch.int8: ElementType(_INT8, 1),
    torch.uint8: ElementType(_UINT8, 1),
    torch.int32: ElementType(_INT32, 1),
    torch.int64: ElementType(_INT64, 1),
    torch.float16: ElementType(_FLOAT16, 1),
    torch.bfloat16: ElementType(_BFLOAT16, 1),
    torch.float32: ElementType(_FLOAT32, 1),
    torch.float64: ElementType(_FLOAT64, 1),
    torch.complex32: ElementType(_FLOAT16, 2),
    torch.complex64: ElementType(_FLOAT32, 2),
    torch.complex128: ElementType(_FLOAT64, 2),
}
for _name, _code in (("uint32", _UINT32), ("uint64", _UINT64)):  # torch 2.3 and later
    if hasattr(torch, _name):
        _TYPES[getattr(torch, _name)] = ElementType(_code, 1)

# Types that are moved as bytes and not reduced, as c10d does for NCCL (ncclDataType in its NCCLUtils.hpp).
_BYTES = tuple(getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
               if hasattr(torch, name))
_TYPES.update((dtype, ElementType(_UINT8, 1)) for dtype in _BYTES)

_DTYPES = list(_TYPES)  # in the same order in all ranks

_REDUCTIONS: Dict[Any, int] = {
    ReduceOp.RedOpType.SUM: _SUM,
    ReduceOp.RedOpType.PRODUCT: _PROD,
    ReduceOp.RedOpType.MAX: _MAX,
    ReduceOp.RedOpType.MIN: _MIN,
    ReduceOp.RedOpType.AVG: _AVG,
}

# Of values that are 0 or 1: a sum is not 0 if any is not 0, and a product is 1 if all are 1.
_BOOL_REDUCTIONS: Dict[int, int] = {_SUM: _MAX, _PROD: _MIN, _MAX: _MAX, _MIN: _MIN}


def element_type(operation: str, tensor: torch.Tensor) -> ElementType:
    """Return the type of a tensor's elements, or refuse the tensor."""
    if tensor.device.type != "cpu":
        raise refuse(operation, f"a tensor is on device {tensor.device}: this backend takes CPU tensors, which cross "
                                "the emulated network; use tensor.cpu() or device='cpu'")
    if tensor.layout != torch.strided:
        raise refuse(operation, f"NCCL has no {tensor.layout} tensors: use tensor.to_dense()")
    try:
        return _TYPES[tensor.dtype]
    except KeyError:
        raise refuse(operation, f"NCCL has no {tensor.dtype}: convert the tensor to a type that it has, such as "
                                "torch.int32 or torch.float32") from None


def type_number(dtype: torch.dtype) -> int:
    """Return a number for a type that NCCL has. It is the same in all ranks."""
    return _DTYPES.index(dtype)


def type_name(number: int) -> str:
    """Return the name of the type with this number."""
    return str(_DTYPES[number])


def same_type(operation: str, tensors: Sequence[torch.Tensor]) -> ElementType:
    """Return the type of the tensors' elements, which must be the same."""
    if not tensors:
        raise refuse(operation, "there is no tensor")
    found = element_type(operation, tensors[0])
    for tensor in tensors[1:]:
        element_type(operation, tensor)
        if tensor.dtype != tensors[0].dtype:
            raise refuse(operation, f"the tensors have different types: {tensors[0].dtype} and {tensor.dtype}")
    return found


def reduction(operation: str, op: Any, tensor: torch.Tensor) -> Reduction:
    """Return NCCL's form of a ReduceOp for tensors like this one, or refuse it."""
    kind = getattr(op, "op", op)  # an operator, or its kind
    name = reduction_name(op)
    if tensor.dtype in _BYTES:
        raise refuse(operation, f"{tensor.dtype} can be moved, but not reduced: convert the tensor to a type that NCCL "
                                "reduces, such as torch.float16")
    if kind == ReduceOp.RedOpType.PREMUL_SUM:
        return Reduction(name, _SUM, _factor(operation, op, tensor))
    code = _REDUCTIONS.get(kind)
    if code is None:
        raise refuse(operation, f"NCCL has no reduction {name}: it has SUM, PRODUCT, MIN, MAX, AVG and PREMUL_SUM")
    if tensor.dtype == torch.bool:
        if code not in _BOOL_REDUCTIONS:
            raise refuse(operation, f"NCCL has no reduction {name} of torch.bool")
        code = _BOOL_REDUCTIONS[code]
    if tensor.is_complex() and code not in (_SUM, _AVG):
        raise refuse(operation, f"NCCL has no reduction {name} of {tensor.dtype}")
    return Reduction(name, code, None)


_reduction_names: Dict[Any, str] = {}  # torch takes microseconds to tell one


def reduction_name(op: Any) -> str:
    """Return the name of a ReduceOp, such as "SUM"."""
    kind = getattr(op, "op", op)
    if kind not in _reduction_names:
        _reduction_names[kind] = str(kind).rsplit(".", 1)[-1]
    return _reduction_names[kind]


def _factor(operation: str, op: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Return the factor of a PREMUL_SUM."""
    if not tensor.is_floating_point():
        raise refuse(operation, f"NCCL has no reduction PREMUL_SUM of {tensor.dtype}")
    if not hasattr(op, "__getstate__") or not isinstance(op.__getstate__(), tuple):
        raise refuse(operation, f"torch {torch.__version__} does not tell the factor of PREMUL_SUM: multiply the "
                                "tensor and use SUM")
    factor = op.__getstate__()[1]
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise refuse(operation, f"the factor of PREMUL_SUM has {factor.numel()} elements, not 1")
        return factor.detach().reshape(1).to("cpu", tensor.dtype)
    return torch.tensor([factor], dtype=tensor.dtype)
