// SPDX-License-Identifier: Apache-2.0

package bpf

// The object is committed, so clang is needed only after a change of the C code: see `make bpf`.
//
//go:generate go tool bpf2go -output-dir $BPF_OUTPUT -cc $BPF_CLANG -strip $BPF_STRIP -target bpfel -tags linux shape shape.c -- -O2 -g -Wall -Wextra -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu
