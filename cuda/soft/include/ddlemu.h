// SPDX-License-Identifier: Apache-2.0
// What a program can tell the software CUDA about itself.
#ifndef DDLEMU_H
#define DDLEMU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ddlemu_compute says that the calling thread computes for this many ns of virtual time: it returns when they have
// passed. In a function of cudaLaunchHostFunc, it is the stream that computes. Without a virtual clock it returns -1 at
// once, else 0. Before the first communicator there is no virtual clock yet.
int ddlemu_compute(int64_t ns);

#ifdef __cplusplus
}
#endif

#endif
