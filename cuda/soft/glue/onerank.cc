// SPDX-License-Identifier: Apache-2.0
// Linked into a relinked NCCL: what a collective of a communicator with one rank does. The archive's own version is
// in an object that holds device code; this one runs as a host function of the stream.
#include <cuda_runtime_api.h>
#include <math.h>
#include <nccl.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

// NCCL's structure, by which the function's C++ name is made; the same in every version that setup accepts.
enum ncclDevRedOp_t { kSum, kProd, kMinMax, kPreMulSum, kSumPostDiv };
struct ncclDevRedOpFull {
	ncclDevRedOp_t op;
	ncclRedOp_t proxyOp;
	bool scalarArgIsPtr;
	uint64_t scalarArg;
};

namespace {

struct Job {
	void *dst;
	const void *src;
	size_t count;
	const void *scalar; // nullptr: inline_scalar
	uint64_t inline_scalar;
	ncclDataType_t type;
};

struct Half {
	uint16_t bits;
};
struct Brain {
	uint16_t bits;
};

float widen(Brain v)
{
	const uint32_t wide = static_cast<uint32_t>(v.bits) << 16;
	float f;
	memcpy(&f, &wide, sizeof f);
	return f;
}

float widen(Half v)
{
	const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000) << 16;
	const int exponent = v.bits >> 10 & 31, mantissa = v.bits & 1023;
	float f = exponent == 31 ? (mantissa ? NAN : INFINITY)
		: exponent == 0  ? ldexpf(static_cast<float>(mantissa), -24)
				 : ldexpf(static_cast<float>(mantissa + 1024), exponent - 25);
	return sign ? -f : f;
}

// Round to nearest, ties to even, as the GPU's multiplication does. The product of two 16-bit floats is exact in
// a float, so there is this one rounding.
void narrow(float f, Brain *out)
{
	uint32_t wide;
	memcpy(&wide, &f, sizeof wide);
	out->bits = f != f ? 0x7fff : static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

void narrow(float f, Half *out)
{
	const uint16_t sign = signbit(f) ? 0x8000 : 0;
	const float a = fabsf(f);
	if (f != f) {
		out->bits = 0x7fff;
	} else if (a >= 65520.0f) { // halfway between the largest half and what would be the next
		out->bits = sign | 0x7c00;
	} else if (a < 0x1p-14f) { // subnormal, or zero: units of 2^-24
		out->bits = sign | static_cast<uint16_t>(nearbyintf(a * 0x1p24f));
	} else {
		int exponent;
		frexpf(a, &exponent); // a = m * 2^exponent with m in [0.5, 1)
		const int mantissa = static_cast<int>(nearbyintf(ldexpf(a, 11 - exponent))); // 1024 to 2048
		// Adding lets a mantissa that rounds up carry into the exponent.
		out->bits = sign | static_cast<uint16_t>(((exponent + 13) << 10) + mantissa);
	}
}

template <class T>
T multiply(T a, T b)
{
	if constexpr (std::is_class_v<T>) {
		T out;
		narrow(widen(a) * widen(b), &out);
		return out;
	} else if constexpr (std::is_integral_v<T>) {
		return static_cast<T>(
			static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
	} else {
		return a * b;
	}
}

template <class T>
void scale(const Job &job)
{
	T factor;
	memcpy(&factor, job.scalar ? job.scalar : &job.inline_scalar, sizeof factor);
	auto src = static_cast<const T *>(job.src);
	auto dst = static_cast<T *>(job.dst);
	for (size_t i = 0; i < job.count; i++)
		dst[i] = multiply(src[i], factor);
}

void run(void *data)
{
	Job *job = static_cast<Job *>(data);
	switch (job->type) {
	case ncclInt8:
	case ncclUint8:
		scale<uint8_t>(*job);
		break;
	case ncclInt32:
	case ncclUint32:
		scale<uint32_t>(*job);
		break;
	case ncclInt64:
	case ncclUint64:
		scale<uint64_t>(*job);
		break;
	case ncclFloat16:
		scale<Half>(*job);
		break;
	case ncclBfloat16:
		scale<Brain>(*job);
		break;
	case ncclFloat32:
		scale<float>(*job);
		break;
	case ncclFloat64:
		scale<double>(*job);
		break;
	default:
		break; // refused before
	}
	delete job;
}

size_t size_of(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		return 1;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	case ncclInt32:
	case ncclUint32:
	case ncclFloat32:
		return 4;
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	default:
		return 0;
	}
}

} // namespace

ncclResult_t ncclLaunchOneRank(
	void *dst, void const *src, size_t count, ncclDevRedOpFull op, ncclDataType_t type, cudaStream_t stream)
{
	const bool scaled = op.op == kPreMulSum;
	// The 8-bit floats are one byte each: they can be moved, but their products are not known here.
	const size_t size = size_of(type) ? size_of(type) : scaled ? 0 : 1;
	if (size == 0)
		return ncclInvalidArgument;
	if (!scaled && dst == src)
		return ncclSuccess;
	if (!scaled)
		return cudaMemcpyAsync(dst, src, count * size, cudaMemcpyDeviceToDevice, stream)
			? ncclUnhandledCudaError
			: ncclSuccess;
	const void *scalar = op.scalarArgIsPtr ? reinterpret_cast<const void *>(op.scalarArg) : nullptr;
	Job *job = new Job{ dst, src, count, scalar, op.scalarArg, type };
	if (cudaLaunchHostFunc(stream, run, job) == cudaSuccess)
		return ncclSuccess;
	delete job;
	return ncclUnhandledCudaError;
}
