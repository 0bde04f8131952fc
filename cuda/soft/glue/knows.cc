// SPDX-License-Identifier: Apache-2.0
// Prints those of its arguments (NCCL versions such as 22203) whose kernels' data layouts the executor knows.
#include <stdio.h>
#include <stdlib.h>

#include "../runtime/kernels.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (ddlemuSoftSupportsNccl(atoi(argv[i])))
			puts(argv[i]);
	return 0;
}
