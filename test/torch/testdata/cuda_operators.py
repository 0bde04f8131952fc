"""Compares each operator of PyTorch's OpInfo on a software GPU with the CPU, float32, forward and backward.

Prints a line for each operator that does not pass, and the numbers. argv[1]: samples of each operator.
"""

import collections
import itertools
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map


def tensors(values):
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


def on_cpu(values):
    """Copy tensors to the CPU, with their strides, and change names of devices."""
    def move(value):
        if isinstance(value, torch.Tensor):
            return value.detach().cpu().requires_grad_(value.requires_grad)
        return torch.device("cpu") if isinstance(value, torch.device) else value
    return tree_map(move, values)


def weighted(result):
    """Return a sum in which each element counts differently, so that each has a gradient of its own."""
    values = result.abs() if result.is_complex() else result
    weights = torch.arange(1, values.numel() + 1, device=values.device).reshape(values.shape) / values.numel()
    return (values * weights).sum()


def execute(op, sample, device, differentiable):
    """Return the results and the gradients of a call on a device. The sample is on the GPU."""
    first, rest, named = sample.input, list(sample.args), dict(sample.kwargs)
    if device == "cpu":
        first, rest, named = on_cpu((first, rest, named))
    if "device" in named:
        named["device"] = device
    torch.manual_seed(1)
    result = op(first, *rest, **named)
    outputs = [t for t in tensors(sample.output_process_fn_grad(result)) if t.requires_grad]
    inputs = [t for t in tensors((first, rest, named)) if t.requires_grad]
    gradients = []
    if differentiable and outputs and inputs:
        gradients = torch.autograd.grad(sum(map(weighted, outputs)), inputs, allow_unused=True)
    return tensors(result) + tensors(gradients)


def failure(error):
    return "refused" if "ddlemu" in str(error) or "software CUDA" in str(error) else "error"


def compare(op, sample, differentiable):
    """Return how the results on both devices compare, and why they are not the same."""
    try:
        want = execute(op, sample, "cpu", differentiable)
    except Exception as error:
        return "fails on the CPU", error
    try:
        got = execute(op, sample, "cuda", differentiable)
    except Exception as error:
        return failure(error), error
    try:
        assert len(got) == len(want), "number of results"
        for a, b in zip(got, want):
            torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), equal_nan=True, rtol=1e-5, atol=1e-5)
    except Exception as error:
        return "different", error
    return "passed", None


def check(op, samples):
    differentiable = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cuda")
    torch.manual_seed(0)
    try:
        inputs = list(itertools.islice(op.sample_inputs("cuda", torch.float32, requires_grad=differentiable), samples))
    except Exception as error:
        return failure(error), error
    for sample in inputs:
        verdict, error = compare(op, sample, differentiable)
        if verdict != "passed":
            return verdict, error
    return "passed", None


def main(samples):
    warnings.filterwarnings("ignore")
    numbers = collections.Counter()
    for op in op_db:
        if not op.supports_dtype(torch.float32, "cuda"):
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        verdict, error = check(op, samples)
        numbers[verdict] += 1
        if verdict != "passed":
            print(f"{verdict}: {name}: {' '.join(str(error).split())[:160]}", flush=True)
    print("numbers", " ".join(f"{n} {verdict}," for verdict, n in sorted(numbers.items())), flush=True)


main(int(sys.argv[1]))
