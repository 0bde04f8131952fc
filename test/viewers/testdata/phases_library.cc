// SPDX-License-Identifier: Apache-2.0
//
// A library that uses NVTX by itself: it loads the injection once more.

#include <nvtx3/nvToolsExt.h>

extern "C" __attribute__((visibility("default"))) void in_library(void (*work)())
{
	nvtxRangePushA("in a library");
	work();
	nvtxRangePop();
}
