// SPDX-License-Identifier: Apache-2.0

// Speed measures what the emulator costs when it shapes nothing, and how exactly it
// shapes when it does, each beside something bare that was measured in the same run.
// It prints the figures and ratios, and writes them into docs/performance.md between
// the lines that mark them: `make bench`.
//
// The host's noise is in every figure. Each comparison is made several times, the
// two sides in turns, and the median of the ratios is given.
package main
