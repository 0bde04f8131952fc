// SPDX-License-Identifier: Apache-2.0

// Package programs tests that unmodified programs and their launchers run on the nodes of a fabric of the kernel
// datapath as on real machines: Open MPI, Hydra, pdsh, PyTorch with gloo, oneCCL and iperf3. They are packages of
// Debian, except oneCCL. A test is skipped if its program is not installed.
package programs
