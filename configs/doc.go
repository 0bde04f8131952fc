// SPDX-License-Identifier: Apache-2.0

// Package configs describes a fabric as a user writes it: plain types for its links,
// NICs and transport, named profiles of real networks, and the loader. The loader
// refuses every bad value and names the place that it came from.
//
// The layers, each over the one before:
//
//  1. a profile built into the program, or a fabric file, which may name a profile as its base,
//  2. DDLEMU_* variables (see Settings),
//  3. command-line flags (see package flags).
//
// link.go has everything about the parameters of a link. Limits are constants in
// validate.go. Package fabric makes the runtime view of these types. No option turns
// shaping off: a fabric without it has unlimited bandwidth and latency 0.
package configs
