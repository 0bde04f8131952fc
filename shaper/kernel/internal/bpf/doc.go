// SPDX-License-Identifier: Apache-2.0

// Package bpf has the eBPF programs of the kernel datapath. They count packets by hop and flow class, lose packets,
// and compute departure times with the arithmetic of the link model. They are written in C (shape.c). The compiled
// object is committed.
package bpf
