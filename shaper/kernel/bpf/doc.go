// SPDX-License-Identifier: Apache-2.0

// Package bpf is the eBPF side of the kernel datapath: it counts by hop and flow
// class, draws loss, and computes departure times by the link model's arithmetic. The
// programs are C (shape.c), compiled to an object that is committed beside it.
package bpf
