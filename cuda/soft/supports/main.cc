// SPDX-License-Identifier: Apache-2.0
// softcuda-supports prints its arguments, NCCL versions such as 22203, that the executor supports.
#include <stdio.h>
#include <stdlib.h>

#include "../exec/exec.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (softexec_supports(atoi(argv[i])))
			puts(argv[i]);
	return 0;
}
