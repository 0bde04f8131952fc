// SPDX-License-Identifier: Apache-2.0

// Package flightrec reads dumps of PyTorch's flight recorder, the ring buffer of the calls of each rank's process
// groups: the pickles that PyTorch writes when a call times out, and what its control plane gives as JSON. It joins
// the dumps of the ranks of a job, and makes a workload of what they have in common.
//
// The layout is in torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; its version is a field of the dump.
// Versions 1.1 to 2.10 (PyTorch 2.15) are known.
package flightrec
