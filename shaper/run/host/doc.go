// SPDX-License-Identifier: Apache-2.0

// Package host says what this machine can do for an emulated fabric: how fast it copies memory and how late it polls
// with as many busy threads as a run has, which time scale a fabric needs for that, and which features of the kernel,
// CUDA and NCCL are present.
//
// Measure and Scale predict before a run. The verdict, which uses every message, decides whether the run was carried.
package host
