// SPDX-License-Identifier: Apache-2.0

// Package configs says what a fabric may be: plain types for its links, NICs and
// transport, named profiles of real networks, and the loader that puts a profile
// or a file, the environment and the command line together and refuses every bad
// value with the place it came from.
//
// The layers, each over the one before:
//
//  1. a profile built into the program, or a fabric file, which may name a profile as its base,
//  2. DDLEMU_* variables (see Settings),
//  3. command-line flags.
//
// The types here are what a user writes; package fabric makes the runtime view
// of them. Limits are constants in validate.go. There is no switch for a fabric
// that is not shaped: its bandwidth is unlimited and its latency 0.
package configs
