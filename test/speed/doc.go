// SPDX-License-Identifier: Apache-2.0

// Speed measures the cost of the emulator without shaping, and its accuracy with shaping, each compared with a plain
// method that is measured in the same run. It prints the figures and ratios, and writes them into docs/performance.md
// between the lines that mark them: `make bench`.
//
// All figures contain the noise of the host. Each comparison is made several times, with both sides in turn, and its
// result is the median of the ratios.
package main
