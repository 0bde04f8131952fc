// SPDX-License-Identifier: Apache-2.0

// Package ledger is the file in which a process notes what its connections did: the format, the
// writer (in C, ledger.h), and the reader.
package ledger
