// SPDX-License-Identifier: Apache-2.0
// PyTorch's operators for CUDA tensors on the software CUDA: each runs the CPU's kernel on the same memory, because the
// memory of a software GPU is the host's.
//
// This file is compiled for the PyTorch that is installed, and loaded after it (__init__.py). It replaces every kernel
// that PyTorch has registered for the CUDA key by on_cpu, except kernels that launch nothing.
//
// Order: before an operator runs, this thread waits for the current streams of its tensors' GPUs. When the operator
// returns, it is done. So everything that is queued later finds its results.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu_only.h"

namespace {

using c10::Device;
using c10::DispatchKey;
using c10::IValue;
using torch::jit::Stack;

// --- memory ----------------------------------------------------------------------------------------------------

// on returns the same memory as memory of another device. The owner stays the same.
c10::DataPtr on(Device device, c10::DataPtr memory)
{
	void *data = memory.get();
	auto deleter = memory.get_deleter();
	return { data, memory.release_context(), deleter, device };
}

// allocator_of_gpu is PyTorch's allocator of GPU memory, of the current device.
c10::Allocator *allocator_of_gpu()
{
	static c10::Allocator *allocator = at::empty({ 0 }, at::device(c10::kCUDA)).storage().allocator();
	return allocator;
}

// GpuMemory gives the CPU's kernels memory of the current GPU, when they resize a tensor that aliases such memory.
struct GpuMemory : c10::Allocator {
	c10::DataPtr allocate(size_t bytes) override { return on(c10::kCPU, allocator_of_gpu()->allocate(bytes)); }
	void copy_data(void *to, const void *from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

c10::Allocator *gpu_memory()
{
	static GpuMemory memory;
	return &memory;
}

c10::Storage make_storage(c10::DataPtr memory, size_t bytes, c10::Allocator *allocator, bool resizable)
{
	return c10::make_intrusive<c10::StorageImpl>(
		c10::StorageImpl::use_byte_size_t(), bytes, std::move(memory), allocator, resizable);
}

// like makes a tensor in a storage, with the type, shape and bits of another tensor.
at::Tensor like(const at::Tensor &t, c10::Storage storage, DispatchKey key)
{
	auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), t.dtype());
	impl->set_storage_offset(t.storage_offset());
	impl->set_sizes_and_strides(t.sizes(), t.strides());
	impl->_set_conj(t.is_conj());
	impl->_set_neg(t.is_neg());
	return at::Tensor(std::move(impl));
}

// --- random numbers --------------------------------------------------------------------------------------------

// A GPU's generator has a seed and an offset. The CPU's kernels need a generator of the CPU: it starts with the same
// seed, so that a GPU's numbers are the CPU's, and its state at each offset is kept for a while, because programs
// go back (activation checkpointing).
class Random {
public:
	// begin returns the CPU's generator for a GPU's, in its present state. end follows.
	at::Generator begin(at::Generator gpu)
	{
		std::lock_guard<std::mutex> lock(mu_);
		State &s = states_[gpu.unsafeGetGeneratorImpl()];
		const uint64_t seed = gpu.current_seed(), offset = gpu.get_offset();
		if (!s.cpu.defined() || s.seed != seed)
			s = { seed, kNone, at::detail::createCPUGenerator(seed), {} };
		if (s.offset != offset)
			restore(s, offset);
		s.offset = offset;
		s.before[offset] = s.cpu.clone();
		if (s.before.size() > kMostStates)
			s.before.erase(s.before.begin());
		return s.cpu;
	}

	void end(at::Generator gpu)
	{
		std::lock_guard<std::mutex> lock(mu_);
		State &s = states_[gpu.unsafeGetGeneratorImpl()];
		std::lock_guard<std::mutex> own(gpu.mutex());
		s.offset += kStep;
		gpu.set_offset(s.offset);
	}

private:
	static constexpr uint64_t kNone = UINT64_MAX;
	static constexpr uint64_t kStep = 4; // PyTorch wants a multiple of 4
	static constexpr size_t kMostStates = 4096; // of 2.5 kB each

	struct State {
		uint64_t seed, offset;
		at::Generator cpu;
		std::map<uint64_t, at::Generator> before; // by the offset at which it was there
	};

	static void restore(State &s, uint64_t offset)
	{
		auto found = s.before.find(offset);
		if (offset == 0)
			s.cpu.set_current_seed(s.seed);
		else if (found != s.before.end())
			s.cpu = found->second.clone();
		else // of another process: numbers that depend on seed and offset only
			s.cpu.set_current_seed(s.seed ^ offset * 0x9e3779b97f4a7c15);
	}

	std::mutex mu_;
	std::unordered_map<c10::GeneratorImpl *, State> states_;
};

Random &random_numbers()
{
	static auto *r = new Random;
	return *r;
}

// --- calls -----------------------------------------------------------------------------------------------------

// Operators whose tensors may be on several devices.
bool mixes_devices(const std::string &name)
{
	static const std::set<std::string> names = { "aten::copy_", "aten::_foreach_copy_", "aten::index",
		"aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index" };
	return names.count(name) != 0;
}

// A Call is one call of an operator. For each tensor on a GPU among its arguments it makes a twin: a tensor on the CPU
// in the same memory.
class Call {
public:
	Call(const c10::OperatorHandle &op, Stack *stack) : op_(op), stack_(stack) {}

	void run()
	{
		const auto &arguments = op_.schema().arguments();
		const size_t first = stack_->size() - arguments.size();
		for (size_t i = first; i < stack_->size(); i++)
			find_device((*stack_)[i]);
		const c10::OptionalDeviceGuard guard(device_);
		for (size_t i = 0; i < arguments.size(); i++)
			take(arguments[i], (*stack_)[first + i]);
		for (const Device &d : devices_)
			c10::impl::VirtualGuardImpl(d.type()).getStream(d).synchronize();
		op_.redispatchBoxed(c10::DispatchKeySet(DispatchKey::CPU), stack_);
		if (gpu_generator_.defined())
			random_numbers().end(gpu_generator_);
		update();
		for (size_t i = stack_->size() - op_.schema().returns().size(); i < stack_->size(); i++)
			give((*stack_)[i]);
	}

private:
	struct Twin {
		at::Tensor original, cpu; // the same if the original is on the CPU
		c10::Storage storage; // of cpu, when it was made
	};

	void find_device(const IValue &v)
	{
		if (v.isTensor() && v.toTensor().defined() && v.toTensor().is_cuda())
			add_device(v.toTensor().device());
		else if (v.isTensorList() || v.isOptionalTensorList() || v.isList())
			for (const IValue &e : v.toListRef())
				find_device(e);
		else if (v.isDevice() && v.toDevice().is_cuda())
			add_device(v.toDevice());
	}

	void add_device(Device d)
	{
		if (!d.has_index())
			d = c10::impl::VirtualGuardImpl(d.type()).getDevice();
		if (!device_)
			device_ = d;
		TORCH_CHECK(d == *device_ || mixes_devices(op_.schema().name()), different(*device_, d));
		devices_.insert(d);
	}

	std::string different(Device a, Device b) const
	{
		return "Expected all tensors to be on the same device, but found at least two devices, " + a.str() +
			" and " + b.str() + "! (" + c10::toString(op_.operator_name()) + ")";
	}

	void take(const c10::Argument &argument, IValue &v)
	{
		if (v.isTensor()) {
			v = twin(v.toTensor());
		} else if (v.isTensorList()) {
			c10::List<at::Tensor> list;
			for (const at::Tensor &t : v.toTensorVector())
				list.push_back(twin(t));
			v = list;
		} else if (v.isOptionalTensorList()) {
			c10::List<std::optional<at::Tensor>> list;
			for (const std::optional<at::Tensor> &t : v.toOptionalTensorVector())
				list.push_back(t ? std::optional(twin(*t)) : std::nullopt);
			v = list;
		} else if (v.isDevice() && v.toDevice().is_cuda()) {
			v = Device(c10::kCPU);
		} else if (is_generator(argument) && device_) {
			take_generator(v);
		}
	}

	static bool is_generator(const c10::Argument &argument)
	{
		const auto type = argument.type();
		const auto optional = type->cast<c10::OptionalType>();
		const auto kind = (optional ? optional->getElementType() : type)->kind();
		return kind == c10::TypeKind::GeneratorType;
	}

	void take_generator(IValue &v)
	{
		gpu_generator_ = v.isNone() ? at::globalContext().defaultGenerator(*device_) : v.toGenerator();
		TORCH_CHECK(gpu_generator_.device().type() == c10::kCUDA,
			"Expected a 'cuda' device type for generator but found '", gpu_generator_.device().type(),
			"' (", op_.operator_name(), ")");
		v = random_numbers().begin(gpu_generator_);
	}

	at::Tensor twin(const at::Tensor &t)
	{
		if (!t.defined())
			return t;
		if (!t.is_cuda()) {
			TORCH_CHECK(!device_ || t.dim() == 0 || mixes_devices(op_.schema().name()),
				different(*device_, t.device()));
			twins_.push_back({ t, t, {} });
			return t;
		}
		for (const Twin &known : twins_)
			if (known.original.is_same(t))
				return known.cpu;
		TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided, "ddlemu: the operator ", op_.operator_name(),
			" has a tensor of layout ", t.layout(), " on a software GPU, which is not supported");
		c10::Storage storage = storage_of(t.storage());
		twins_.push_back({ t, like(t, storage, DispatchKey::CPU), storage });
		return twins_.back().cpu;
	}

	c10::Storage storage_of(const c10::Storage &original)
	{
		for (const auto &known : storages_)
			if (known.first.is_alias_of(original))
				return known.second;
		c10::DataPtr memory(original.mutable_data(), c10::kCPU);
		storages_.emplace_back(original,
			make_storage(std::move(memory), original.nbytes(), gpu_memory(), original.resizable()));
		return storages_.back().second;
	}

	// update gives the original tensors the shapes and the memory that the kernel has given their twins.
	void update()
	{
		for (auto &[original, cpu] : storages_) {
			if (cpu.data() == original.data() && cpu.nbytes() == original.nbytes())
				continue;
			const size_t bytes = cpu.nbytes();
			const Device device = original.device();
			c10::DataPtr memory = cpu.set_data_ptr({ nullptr, c10::kCPU });
			cpu.set_nbytes(0);
			original.unsafeGetStorageImpl()->set_data_ptr_noswap(on(device, std::move(memory)));
			original.set_nbytes(bytes);
		}
		for (const Twin &t : twins_) {
			if (t.cpu.is_same(t.original))
				continue;
			TORCH_CHECK_NOT_IMPLEMENTED(t.cpu.storage().is_alias_of(t.storage), "ddlemu: the operator ",
				op_.operator_name(), " replaces the memory of a tensor, which is not supported");
			if (t.cpu.sizes() == t.original.sizes() && t.cpu.strides() == t.original.strides() &&
				t.cpu.storage_offset() == t.original.storage_offset())
				continue;
			c10::TensorImpl *impl = t.original.unsafeGetTensorImpl();
			impl->set_storage_offset(t.cpu.storage_offset());
			impl->set_sizes_and_strides(t.cpu.sizes(), t.cpu.strides());
		}
	}

	void give(IValue &v)
	{
		if (v.isTensor()) {
			v = result(v.toTensor());
		} else if (v.isTensorList()) {
			c10::List<at::Tensor> list;
			for (const at::Tensor &t : v.toTensorVector())
				list.push_back(result(t));
			v = list;
		}
	}

	// result returns a tensor on the GPU: the original of a twin, a view of one, or a new tensor.
	at::Tensor result(const at::Tensor &t)
	{
		if (!t.defined() || !device_ || !t.is_cpu())
			return t;
		for (const Twin &known : twins_)
			if (known.cpu.is_same(t))
				return known.original;
		TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided && !t.is_quantized(), "ddlemu: the operator ",
			op_.operator_name(), " gives a tensor of layout ", t.layout(), ", which is not supported");
		for (const auto &known : storages_)
			if (known.second.is_alias_of(t.storage()))
				return like(t, known.first, DispatchKey::CUDA);
		c10::Allocator *allocator = allocator_of_gpu();
		const size_t bytes = t.storage().nbytes();
		c10::DataPtr memory = allocator->allocate(bytes);
		std::memcpy(memory.get(), t.storage().data(), bytes);
		c10::Storage storage = make_storage(std::move(memory), bytes, allocator, true);
		storages_.emplace_back(storage, t.storage());
		return like(t, storage, DispatchKey::CUDA);
	}

	const c10::OperatorHandle &op_;
	Stack *const stack_;
	std::optional<Device> device_; // of the results
	std::set<Device, bool (*)(Device, Device)> devices_{ [](Device a, Device b) { return a.index() < b.index(); } };
	std::vector<Twin> twins_;
	std::vector<std::pair<c10::Storage, c10::Storage>> storages_; // on a GPU, and the same memory on the CPU
	at::Generator gpu_generator_;
};

// --- kernels ---------------------------------------------------------------------------------------------------

void on_cpu(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *stack) { run_on_cpu(op, stack); }

void refuse(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *)
{
	TORCH_CHECK_NOT_IMPLEMENTED(false, "ddlemu: the operator ", op.operator_name(),
		" has no kernel for the CPU, so that it cannot run on a software GPU");
}

bool is_plain(const at::Tensor &t)
{
	return t.layout() == c10::kStrided && t.is_contiguous() && !t.is_conj() && !t.is_neg();
}

// copy leaves plain copies to PyTorch, which queues them on the stream.
at::Tensor &copy(at::Tensor &self, const at::Tensor &from, bool non_blocking)
{
	static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
	if (is_plain(self) && is_plain(from) && self.dtype() == from.dtype() && self.sizes() == from.sizes())
		return at::native::copy_(self, from, non_blocking);
	Stack stack = { self, from, non_blocking };
	run_on_cpu(op, &stack);
	return self;
}

// dropout is the CPU's, with the GPU's random numbers: the CPU's kernel takes no generator.
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor &input, double p, std::optional<bool> train)
{
	if (train && !*train)
		return { input.clone(), at::empty_like(input, input.options().dtype(c10::kBool)).fill_(true) };
	const double kept = 1 - p;
	at::Tensor mask = at::empty_like(input, input.options().dtype(c10::kBool)).bernoulli_(kept);
	return { input.mul(mask).mul_(kept == 0 ? 0. : 1 / kept), mask };
}

// The kernels of the CUDA key that launch nothing: they make tensors, or change only their shapes.
const std::set<std::string> kLaunchNothing = { "as_strided", "empty.memory_format", "empty_strided", "view",
	"view.dtype", "_reshape_alias", "unfold", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset",
	"set_.source_Tensor", "resize_", "record_stream", "is_pinned", "_pin_memory", "is_set_to",
	"_local_scalar_dense", "_efficientzerotensor", "copy_", "native_dropout" };

// Operators without a kernel of the CUDA key that run on the CPU too: they choose by the device what they call, or are
// the CPU's form of one that is for GPUs only (gpu_only.cc).
const char *const kMore[] = { "convolution", "convolution_backward", "_convolution",
	"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward" };

std::string text(const c10::OperatorName &name)
{
	const std::string plain = name.name.substr(name.name.find("::") + 2);
	return name.overload_name.empty() ? plain : plain + "." + name.overload_name;
}

struct Silent : c10::WarningHandler {
	void process(const c10::Warning &) override {}
};

TORCH_LIBRARY_IMPL(aten, CUDA, library)
{
	Silent silent; // PyTorch warns that kernels are replaced
	c10::WarningUtils::WarningHandlerGuard guard(&silent);
	auto &dispatcher = c10::Dispatcher::singleton();
	for (const c10::OperatorName &name : dispatcher.getRegistrationsForDispatchKey(DispatchKey::CUDA)) {
		const auto op = dispatcher.findSchema(name);
		if (!op || name.name.rfind("aten::", 0) != 0 || kLaunchNothing.count(text(name)))
			continue;
		library.impl(text(name).c_str(),
			op->hasComputedKernelForDispatchKey(DispatchKey::CPU)
				? torch::CppFunction::makeFromBoxedFunction<&on_cpu>()
				: torch::CppFunction::makeFromBoxedFunction<&refuse>());
	}
	for (const char *name : kMore)
		library.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
	library.impl("copy_", &copy);
	library.impl("native_dropout", &dropout);
	replace_gpu_only(library);
	// Of attention the mathematical form is chosen, and never cuDNN: the other forms are kernels of GPUs only.
	auto &context = at::globalContext();
	context.setUserEnabledCuDNN(false);
	context.setSDPUseFlash(false);
	context.setSDPUseMemEfficient(false);
	context.setSDPUseCuDNN(false);
}

} // namespace

void run_on_cpu(const c10::OperatorHandle &op, Stack *stack) { Call(op, stack).run(); }
