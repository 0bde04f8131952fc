// SPDX-License-Identifier: Apache-2.0

// Package programs tests that programs which know nothing of ddlemu, and their
// launchers, run on the nodes of a kernel fabric as on real machines: Open MPI,
// Hydra, pdsh, PyTorch with gloo, iperf3. They are Debian's packages; a test of one
// that is not installed says so and is skipped.
package programs
