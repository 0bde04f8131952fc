// SPDX-License-Identifier: Apache-2.0
//
// NCCL's progress thread: it tests a request until the process is gone, which takes
// a while: other libraries have things to do at the end too.

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*test_function)(void *request, int *done, int *size);

struct work {
	test_function test;
	void *request;
};

static void linger(void) { usleep(100000); }

// Loaded before the plugin, so that this comes after the plugin's own end.
__attribute__((constructor)) static void last(void) { atexit(linger); }

static void *run(void *argument)
{
	struct work w = *(struct work *)argument;
	free(argument);
	for (int done = 0, size; !done;)
		if (w.test(w.request, &done, &size) != 0)
			return NULL;
	return NULL;
}

int poll_request(test_function test, void *request)
{
	pthread_t thread;
	struct work *w = malloc(sizeof *w);
	if (w == NULL)
		return -1;
	*w = (struct work){ test, request };
	return pthread_create(&thread, NULL, run, w);
}
