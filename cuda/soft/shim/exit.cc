// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: what it does at the end of a process, it does only in the process that has begun it. The linker's
// --wrap leads NCCL's own calls of the functions below to here.
//
// A child that is forked inherits the handlers of exit and the descriptors, but none of the threads. NCCL 2.29 then
// tells its monitoring thread (RAS) to end, through a socket that the child shares with its parent. That of the parent
// ends, the parent does not join it, and std::terminate aborts the parent at its own exit.
#include <unistd.h>

#include <new>

using Function = void (*)(void *);

extern "C" {
extern void *__dso_handle;
int __real___cxa_atexit(Function, void *, void *);
int __wrap___cxa_atexit(Function function, void *argument, void *library);
int __wrap_atexit(void (*function)());
}

namespace {

struct Handler {
	Function function;
	void *argument;
	pid_t process;
};

void run(void *pointer)
{
	const auto *handler = static_cast<Handler *>(pointer);
	if (handler->process == getpid())
		handler->function(handler->argument);
	delete handler;
}

void call(void *function) { reinterpret_cast<void (*)()>(function)(); }

} // namespace

int __wrap___cxa_atexit(Function function, void *argument, void *library)
{
	auto *handler = new (std::nothrow) Handler{ function, argument, getpid() };
	return handler ? __real___cxa_atexit(run, handler, library) : -1;
}

int __wrap_atexit(void (*function)())
{
	return __wrap___cxa_atexit(call, reinterpret_cast<void *>(function), &__dso_handle);
}
