// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "device.h"

namespace soft {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local std::string unsupported_text; // of the last cudaErrorNotSupported

struct ErrorText {
	int code;
	const char *name, *text;
};

const ErrorText kErrors[] = {
#define ENTRY(name, value, text) { value, #name, text },
	DDLEMU_SOFT_ERRORS(ENTRY)
#undef ENTRY
};

const ErrorText *find(int err)
{
	for (const ErrorText &e : kErrors)
		if (e.code == err)
			return &e;
	return nullptr;
}

} // namespace

const char *error_name(int err)
{
	const ErrorText *e = find(err);
	return e ? e->name : "unrecognized error code";
}

const char *error_text(int err)
{
	if (err == cudaErrorNotSupported && !unsupported_text.empty())
		return unsupported_text.c_str();
	const ErrorText *e = find(err);
	return e ? e->text : "unrecognized error code";
}

cudaError_t set_error(cudaError_t err)
{
	if (err != cudaSuccess)
		last_error = err;
	return err;
}

cudaError_t enter()
{
	Devices *all = devices();
	if (all->failure != cudaSuccess)
		return set_error(all->failure);
	return set_error(all->sticky(current_device()));
}

void print_error(const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "ddlemu software CUDA: %s\n", line);
}

cudaError_t unsupported(const char *name)
{
	static std::mutex *mu = new std::mutex;
	static auto *printed = new std::set<std::string>;
	bool first;
	{
		std::lock_guard<std::mutex> lock(*mu);
		first = printed->insert(name).second;
	}
	if (first)
		print_error("%s is not supported; the call returns cudaErrorNotSupported", name);
	unsupported_text = std::string("the software CUDA does not support ") + name;
	return set_error(cudaErrorNotSupported);
}

} // namespace soft

SOFT_API cudaError_t cudaGetLastError(void)
{
	cudaError_t err = cudaPeekAtLastError();
	soft::last_error = cudaSuccess;
	return err;
}

SOFT_API cudaError_t cudaPeekAtLastError(void)
{
	if (soft::last_error != cudaSuccess)
		return soft::last_error;
	return soft::devices()->sticky(soft::current_device());
}

SOFT_API const char *cudaGetErrorName(cudaError_t error) { return soft::error_name(error); }
SOFT_API const char *cudaGetErrorString(cudaError_t error) { return soft::error_text(error); }
