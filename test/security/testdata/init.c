// SPDX-License-Identifier: Apache-2.0
//
// Loads the plugin as NCCL does, and prints whether the program has more privileges than its user, NCCL_HOSTID
// afterwards, and the result of init.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../../../nccl-plugin/abi.h"

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

int main(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "libgoemu.so", RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	const struct net_v8 *net = dlsym(lib, "ncclNetPlugin_v8");
	const char *id = getenv("NCCL_HOSTID");
	printf("secure %d\nhostid %s\n", getauxval(AT_SECURE) != 0, id == NULL ? "unset" : id);
	fflush(stdout);
	if (argc > 2) // only what loading does
		return 0;
	int result = net->init(quiet);
	printf("init %d\n", result);
	fflush(stdout);
	_exit(0);
}
