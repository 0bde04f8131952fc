"""Cases of PyTorch on a software GPU that OpInfo does not have. Ends with "done"."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def refused(call, *words):
    """Check that a call fails with a message that has the words."""
    try:
        call()
    except Exception as error:
        assert all(word in str(error) for word in words), f"{words} are not in: {error}"
        return
    raise AssertionError(f"no error with {words}")


def same_as_cpu(make, *inputs, tolerance=1e-5):
    """Compare the results and gradients of a module on both devices."""
    torch.manual_seed(0)
    results = []
    module = make()
    for model, device in ((module, "cpu"), (copy.deepcopy(module).cuda(), "cuda")):
        values = [t.detach().to(device).requires_grad_() for t in inputs]
        out = model(*values)
        out = out if isinstance(out, torch.Tensor) else out[0]
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad for p in model.parameters()), *(t.grad for t in values)])
    for want, got in zip(*results):
        assert got.is_cuda
        torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)


class Attention(nn.Module):
    def forward(self, q, k, v):
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION] if q.is_cuda else [SDPBackend.MATH]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def modules():
    same_as_cpu(lambda: nn.LSTM(4, 5, 2, bidirectional=True), torch.randn(3, 2, 4))
    same_as_cpu(lambda: nn.GRU(4, 5, 2), torch.randn(3, 2, 4))
    same_as_cpu(lambda: nn.GRU(4, 5, bias=False), torch.randn(3, 2, 4))
    same_as_cpu(lambda: nn.BatchNorm2d(3), torch.randn(4, 3, 5, 5))
    same_as_cpu(lambda: nn.Conv2d(4, 8, 3, groups=4), torch.randn(2, 4, 9, 9))
    same_as_cpu(lambda: nn.Conv3d(2, 4, 3, groups=2), torch.randn(2, 2, 5, 5, 5))
    same_as_cpu(lambda: nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), torch.randn(2, 7, 16))
    same_as_cpu(Attention, *(torch.randn(2, 4, 9, 16).bfloat16() for _ in range(3)), tolerance=0.05)


def random_numbers():
    for draw in (lambda d: torch.randn(50, device=d), lambda d: F.dropout(torch.ones(50, device=d), 0.3),
                 lambda d: torch.randperm(50, device=d)):
        torch.manual_seed(3)
        want = draw("cpu")
        torch.manual_seed(3)
        assert torch.equal(draw("cuda").cpu(), want)
        state = torch.cuda.get_rng_state()
        first = draw("cuda")
        draw("cuda")
        torch.cuda.set_rng_state(state)
        assert torch.equal(draw("cuda"), first)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda()
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    state = torch.cuda.get_rng_state()
    model(x).sum().backward()
    want, x.grad = x.grad, None
    torch.cuda.set_rng_state(state)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    assert torch.equal(x.grad, want)


def optimizers():
    for make, options in ((torch.optim.AdamW, {"fused": True}), (torch.optim.Adam, {"foreach": True}),
                          (torch.optim.SGD, {"fused": True, "momentum": 0.9})):
        weights = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            model = nn.Linear(8, 8)
            x = torch.randn(4, 8).to(device)
            model.to(device)
            optimizer, scaler = make(model.parameters(), lr=1e-2, **options), torch.amp.GradScaler(device)
            for _ in range(3):
                with torch.autocast(device, dtype=torch.bfloat16):
                    loss = model(x).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            weights.append(model.weight.detach().cpu())
        torch.testing.assert_close(*weights)


def softmax():
    x = torch.randn(4, 6)
    for function in (F.softmax, F.log_softmax):
        gradients = []
        for device in ("cpu", "cuda"):
            value = x.bfloat16().to(device).requires_grad_()
            with torch.autocast("cuda", dtype=torch.bfloat16):  # on the CPU the input is made float by hand
                out = function(value.float() if device == "cpu" else value, dim=-1)
            assert out.dtype == torch.float32
            (out * x.to(device)).sum().backward()
            gradients.append(value.grad.cpu())
        assert torch.equal(*gradients)


def memory():
    out = torch.empty(0, device="cuda")
    torch.add(torch.ones(3, device="cuda"), 1, out=out)
    assert out.tolist() == [2, 2, 2]
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    assert x.t()[1].tolist() == [1, 5, 9] and x[x > 9].tolist() == [10, 11]
    x[1:, ::2] = -1
    assert x.sum().item() == 66 - (4 + 6 + 8 + 10) - 4
    for batch, in DataLoader(TensorDataset(torch.arange(8.0)), 8, pin_memory=True):
        assert batch.is_pinned() and batch.cuda(non_blocking=True).sum().item() == 28
    before = torch.cuda.memory_allocated()
    big = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() == before + (4 << 20)
    del big
    refused(lambda: torch.empty(1 << 50, device="cuda"), "out of memory")


def streams():
    side, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(side):
        side.wait_event(start)
        x = torch.ones(1000, device="cuda").mul_(2)
        end.record()
    torch.cuda.current_stream().wait_stream(side)
    assert x.sum().item() == 2000
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0


def refusals():
    x = torch.ones(3, 3, device="cuda")
    refused(lambda: x + torch.ones(3, 3), "Expected all tensors to be on the same device", "aten::add.Tensor")
    refused(lambda: x + torch.ones(3, 3, device="cuda:1"), "cuda:0", "cuda:1")
    refused(x.to_sparse, "aten::_to_sparse", "Sparse")
    refused(lambda: torch.ops.aten._cudnn_init_dropout_state(0.5, True, 1, device="cuda"), "_cudnn_init_dropout_state")
    refused(lambda: torch.compile(lambda t: t.sin() + 1)(x), "Triton's kernels")
    refused(lambda: torch.cuda.graph(torch.cuda.CUDAGraph()).__enter__(), "cudaStreamBeginCapture")
    jitted = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")
    refused(lambda: jitted(x), "cuModuleLoadData")


for part in (modules, random_numbers, optimizers, softmax, memory, streams, refusals):
    part()
print("done")
