// SPDX-License-Identifier: Apache-2.0

// Package host says what this machine can do for an emulated fabric: how fast it
// copies and how late it polls with as many busy threads as a run has, what time
// scale a fabric needs for that, and which of the kernel's, CUDA's and NCCL's parts
// are there.
//
// What Measure and Scale say is a prediction, made before the run and without it.
// Whether the run was carried is for the verdict to decide, which looks at every
// message.
package host
