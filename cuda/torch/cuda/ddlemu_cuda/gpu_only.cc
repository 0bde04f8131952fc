// SPDX-License-Identifier: Apache-2.0
// Operators that PyTorch has for GPUs only, made of others: the cells of LSTM and GRU, the parts of SyncBatchNorm,
// softmax from half types to float, attention as its caller chooses it, and the questions whether cuDNN is to be used.
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>

#include "gpu_only.h"

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

bool given(const Optional &t) { return t && t->defined(); }

Tensor plus(const Tensor &t, const Optional &bias) { return given(bias) ? t + *bias : t; }

Tensor sum_of_rows(const Tensor &t, bool wanted) { return wanted ? t.sum(0) : Tensor(); }

// --- cells of recurrent networks: the workspace has the gates -------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor> lstm(
	const Tensor &input, const Tensor &hidden, const Tensor &cx, const Optional &b1, const Optional &b2)
{
	const auto g = (plus(input, b1) + plus(hidden, b2)).chunk(4, 1);
	const Tensor in = g[0].sigmoid(), forget = g[1].sigmoid(), cell = g[2].tanh(), out = g[3].sigmoid();
	const Tensor cy = forget * cx + in * cell;
	return { out * cy.tanh(), cy, at::cat({ in, forget, cell, out }, 1) };
}

std::tuple<Tensor, Tensor, Tensor> lstm_backward(const Optional &grad_hy, const Optional &grad_cy, const Tensor &cx,
	const Tensor &cy, const Tensor &workspace, bool has_bias)
{
	if (!given(grad_hy) && !given(grad_cy))
		return {};
	const auto w = workspace.chunk(4, 1);
	const Tensor &in = w[0], &forget = w[1], &cell = w[2], &out = w[3];
	const Tensor hy = given(grad_hy) ? *grad_hy : at::zeros_like(cy), tanh = cy.tanh();
	const Tensor c = plus(hy * out * (1 - tanh * tanh), grad_cy);
	const Tensor gates = at::cat({ c * cell * (1 - in) * in, c * cx * (1 - forget) * forget,
					     c * in * (1 - cell * cell), hy * tanh * (1 - out) * out },
		1);
	return { gates, c * forget, sum_of_rows(gates, has_bias) };
}

std::tuple<Tensor, Tensor> gru(
	const Tensor &input, const Tensor &hidden, const Tensor &hx, const Optional &b1, const Optional &b2)
{
	const auto i = plus(input, b1).chunk(3, 1), h = plus(hidden, b2).chunk(3, 1);
	const Tensor reset = (i[0] + h[0]).sigmoid(), update = (i[1] + h[1]).sigmoid();
	const Tensor fresh = (i[2] + reset * h[2]).tanh();
	return { fresh + update * (hx - fresh), at::cat({ reset, update, fresh, hx, h[2] }, 1) };
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_backward(
	const Tensor &grad, const Tensor &workspace, bool has_bias)
{
	const auto w = workspace.chunk(5, 1);
	const Tensor &reset = w[0], &update = w[1], &fresh = w[2], &hx = w[3], &hidden = w[4];
	const Tensor g_update = grad * (hx - fresh) * (1 - update) * update;
	const Tensor g_fresh = grad * (1 - update) * (1 - fresh * fresh);
	const Tensor g_reset = g_fresh * hidden * (1 - reset) * reset;
	const Tensor input = at::cat({ g_reset, g_update, g_fresh }, 1);
	const Tensor of_hidden = at::cat({ g_reset, g_update, g_fresh * reset }, 1);
	return { input, of_hidden, grad * update, sum_of_rows(input, has_bias), sum_of_rows(of_hidden, has_bias) };
}

// --- SyncBatchNorm: the channels are dimension 1 --------------------------------------------------------------------

std::vector<int64_t> all_but_channels(const Tensor &t)
{
	std::vector<int64_t> dims = { 0 };
	for (int64_t d = 2; d < t.dim(); d++)
		dims.push_back(d);
	return dims;
}

// per_channel gives values of channels the shape in which they are broadcast to t.
Tensor per_channel(const Tensor &values, const Tensor &t)
{
	std::vector<int64_t> shape(t.dim(), 1);
	shape[1] = -1;
	return values.reshape(shape);
}

std::tuple<Tensor, Tensor> statistics(const Tensor &input, double eps)
{
	const auto dims = all_but_channels(input);
	const Tensor x = input.to(at::toAccumulateType(input.scalar_type(), true));
	return { x.mean(dims), (x.var(dims, false) + eps).rsqrt() };
}

std::tuple<Tensor, Tensor> gather_statistics(const Tensor &, const Tensor &mean, const Tensor &invstd,
	const Optional &running_mean, const Optional &running_var, double momentum, double eps, const Tensor &counts)
{
	const Tensor n = counts.to(mean.scalar_type()).reshape({ -1, 1 }), total = n.sum();
	const Tensor all = (mean * n).sum(0) / total;
	const Tensor squares = ((invstd.pow(-2) - eps + (mean - all).pow(2)) * n).sum(0);
	if (given(running_mean))
		running_mean->mul_(1 - momentum).add_(all, momentum);
	if (given(running_var))
		running_var->mul_(1 - momentum).add_(squares / (total - 1), momentum);
	return { all, (squares / total + eps).rsqrt() };
}

std::tuple<Tensor, Tensor> gather_equal_statistics(const Tensor &input, const Tensor &mean, const Tensor &invstd,
	const Optional &running_mean, const Optional &running_var, double momentum, double eps, int64_t count)
{
	return gather_statistics(input, mean, invstd, running_mean, running_var, momentum, eps,
		at::full({ mean.size(0) }, count, mean.options()));
}

Tensor normalize(const Tensor &input, const Optional &weight, const Optional &bias, const Tensor &mean,
	const Tensor &invstd, double)
{
	Tensor out = (input - per_channel(mean, input)) * per_channel(invstd, input);
	if (given(weight))
		out = out * per_channel(*weight, input);
	if (given(bias))
		out = out + per_channel(*bias, input);
	return out.to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> reduce_backward(const Tensor &grad, const Tensor &input, const Tensor &mean,
	const Tensor &invstd, const Optional &, bool input_g, bool weight_g, bool bias_g)
{
	const auto dims = all_but_channels(input);
	const Tensor g = grad.to(mean.scalar_type());
	const Tensor sum = g.sum(dims), product = (g * (input - per_channel(mean, input))).sum(dims);
	return { input_g ? sum : Tensor(), input_g ? product : Tensor(),
		weight_g ? (product * invstd).to(grad.scalar_type()) : Tensor(),
		bias_g ? sum.to(grad.scalar_type()) : Tensor() };
}

Tensor input_backward(const Tensor &grad, const Tensor &input, const Tensor &mean, const Tensor &invstd,
	const Optional &weight, const Tensor &sum, const Tensor &product, const Tensor &count)
{
	const Tensor total = count.sum();
	const Tensor slope = per_channel(product * invstd * invstd / total, input);
	const Tensor centred = grad - per_channel(sum / total, input) - (input - per_channel(mean, input)) * slope;
	Tensor out = centred * per_channel(invstd, input);
	if (given(weight))
		out = out * per_channel(*weight, input);
	return out.to(input.scalar_type());
}

// --- RMS norm over the last dimensions: PyTorch 2.9 and later have a form of its gradient for GPUs ------------------

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor &grad, const Tensor &input, at::IntArrayRef shape,
	const Tensor &rstd, const Optional &weight, std::array<bool, 2> wanted)
{
	std::vector<int64_t> outer, inner;
	for (int64_t d = 0; d < input.dim(); d++)
		(d < input.dim() - static_cast<int64_t>(shape.size()) ? outer : inner).push_back(d);
	Tensor scale = rstd;
	while (scale.dim() < input.dim())
		scale = scale.unsqueeze(-1);
	const Tensor normal = input * scale, g = given(weight) ? grad * *weight : grad;
	const Tensor of_input = scale * (g - normal * (g * normal).mean(inner, true));
	Tensor of_weight;
	if (wanted[1] && given(weight))
		of_weight = outer.empty() ? grad * normal : (grad * normal).sum(outer);
	return { wanted[0] ? of_input.to(input.scalar_type()) : Tensor(),
		of_weight.defined() ? of_weight.to(weight->scalar_type()) : Tensor() };
}

// --- softmax: autocast asks for results in float of inputs in half types --------------------------------------------

Tensor on_cpu(const char *name, torch::jit::Stack stack)
{
	run_on_cpu(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), &stack);
	return stack.back().toTensor();
}

Tensor softmax(const Tensor &t, int64_t dim, bool to_float)
{
	return to_float ? at::_softmax(t.to(at::kFloat), dim, false) : on_cpu("aten::_softmax", { t, dim, false });
}

Tensor log_softmax(const Tensor &t, int64_t dim, bool to_float)
{
	return to_float ? at::_log_softmax(t.to(at::kFloat), dim, false)
			: on_cpu("aten::_log_softmax", { t, dim, false });
}

Tensor softmax_backward(const Tensor &grad, const Tensor &out, int64_t dim, at::ScalarType type)
{
	return on_cpu("aten::_softmax_backward_data", { grad, out, dim, grad.scalar_type() }).to(type);
}

Tensor log_softmax_backward(const Tensor &grad, const Tensor &out, int64_t dim, at::ScalarType type)
{
	return on_cpu("aten::_log_softmax_backward_data", { grad, out, dim, grad.scalar_type() }).to(type);
}

// --- attention that its caller has chosen by sdpa_kernel: the CPU's fused form ---------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash(const Tensor &q,
	const Tensor &k, const Tensor &v, double dropout, bool causal, bool, std::optional<double> scale)
{
	auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, {}, scale);
	const Tensor none = at::zeros({ 2 }, q.options().dtype(at::kLong));
	return { out, sums, Tensor(), Tensor(), q.size(2), k.size(2), none, none, Tensor() };
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor &grad, const Tensor &q, const Tensor &k, const Tensor &v,
	const Tensor &out, const Tensor &sums, const Tensor &, const Tensor &, c10::SymInt, c10::SymInt, double dropout,
	bool causal, const Tensor &, const Tensor &, std::optional<double> scale)
{
	return at::_scaled_dot_product_flash_attention_for_cpu_backward(
		grad, q, k, v, out, sums, dropout, causal, {}, scale);
}

// --- cuDNN: it is never used ----------------------------------------------------------------------------------------

bool no_cudnn(const Tensor &, const Tensor &, at::IntArrayRef, at::IntArrayRef, int64_t) { return false; }
bool no_cudnn_of_tensors(const Tensor &, const Tensor &, const Tensor &, const Tensor &, int64_t) { return false; }

} // namespace

void replace_gpu_only(torch::Library &library)
{
	library.impl("_thnn_fused_lstm_cell", &lstm);
	library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_backward);
	library.impl("_thnn_fused_gru_cell", &gru);
	library.impl("_thnn_fused_gru_cell_backward", &gru_backward);
	library.impl("batch_norm_stats", &statistics);
	library.impl("batch_norm_gather_stats", &gather_equal_statistics);
	library.impl("batch_norm_gather_stats_with_counts", &gather_statistics);
	library.impl("batch_norm_elemt", &normalize);
	library.impl("batch_norm_backward_reduce", &reduce_backward);
	library.impl("batch_norm_backward_elemt", &input_backward);
	library.impl("_fused_rms_norm_backward", &rms_norm_backward);
	library.impl("_softmax", &softmax);
	library.impl("_log_softmax", &log_softmax);
	library.impl("_softmax_backward_data", &softmax_backward);
	library.impl("_log_softmax_backward_data", &log_softmax_backward);
	library.impl("_scaled_dot_product_flash_attention", &flash);
	library.impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
	library.impl("_use_cudnn_ctc_loss", &no_cudnn);
	library.impl("_use_cudnn_ctc_loss.Tensor", &no_cudnn_of_tensors);
}
