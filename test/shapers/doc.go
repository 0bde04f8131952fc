// SPDX-License-Identifier: Apache-2.0

// Package shapers tests the shapers of the kernel datapath that are made of qdiscs and BPF programs (edt, netem, htb):
// it brings up fabrics and measures their rate, delay, jitter and loss. Most kernels of containers lack what these
// shapers need; test/lab runs the tests on kernels that have it.
package shapers
