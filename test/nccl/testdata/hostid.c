// SPDX-License-Identifier: Apache-2.0
//
// Loads the library that is its argument, as NCCL does, and prints what the library has made of the environment. With a
// second argument, a child process with that number in RANK prints too.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (dlsym(lib, "ncclNetPlugin_v8") == NULL || dlsym(lib, "ncclNetPlugin_v12") == NULL ||
		dlsym(lib, "netInit") != NULL) {
		fprintf(stderr, "the library's symbols are not those of a plugin\n");
		return 1;
	}
	const char *names[] = { "NCCL_HOSTID", "NCCL_MNNVL_ENABLE", "NCCL_GIN_ENABLE", "NCCL_NET_PLUGIN_REF_COUNT" };
	for (int i = 0; i < 4; i++)
		printf("%s%s", i > 0 ? " " : "", getenv(names[i]) != NULL ? getenv(names[i]) : "-");
	printf("\n");
	fflush(stdout);
	if (argc > 2) {
		setenv("RANK", argv[2], 1);
		execl(argv[0], argv[0], argv[1], (char *)NULL);
	}
	return 0;
}
