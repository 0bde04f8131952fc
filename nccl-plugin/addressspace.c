// SPDX-License-Identifier: Apache-2.0

#include "../shaper/run/host/addressspace.h"

// Go's runtime then ends this process, now or later. It belongs to the user, so the plugin does not end it before.
__attribute__((constructor(101))) static void check_address_space(void) { (void)has_address_space("libgoemu.so"); }
