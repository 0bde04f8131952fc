// SPDX-License-Identifier: Apache-2.0
//
// NCCL's progress thread: it tests a request until that fails or the process has ended. The end takes a while, because
// other libraries have functions to run too.

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*test_function)(void *request, int *done, int *size);

struct work {
	test_function test;
	void *request;
};

static int polling;

static void linger(void)
{
	for (int i = 0; i < 500 && __atomic_load_n(&polling, __ATOMIC_ACQUIRE); i++)
		usleep(10000);
}

// Loaded before the plugin, so that this runs after the plugin's function for the end of the process.
__attribute__((constructor)) static void last(void) { atexit(linger); }

static void *run(void *argument)
{
	struct work w = *(struct work *)argument;
	free(argument);
	for (int done = 0, size; !done && w.test(w.request, &done, &size) == 0;)
		usleep(50);
	__atomic_store_n(&polling, 0, __ATOMIC_RELEASE);
	return NULL;
}

int poll_request(test_function test, void *request)
{
	pthread_t thread;
	struct work *w = malloc(sizeof *w);
	if (w == NULL)
		return -1;
	*w = (struct work){ test, request };
	polling = 1;
	return pthread_create(&thread, NULL, run, w);
}
