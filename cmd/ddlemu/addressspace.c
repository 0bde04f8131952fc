// SPDX-License-Identifier: Apache-2.0

#include <stdlib.h>

#include "../../shaper/run/host/addressspace.h"

__attribute__((constructor(101))) static void check_address_space(void)
{
	if (!has_address_space("this command"))
		exit(1);
}
