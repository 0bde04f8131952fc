// SPDX-License-Identifier: Apache-2.0

// Package validate compares the emulator with a table that was measured with nccl-tests on a real cluster. It runs the
// table's sizes on a fabric and reports for each row the published, the expected and the emulated time, and whether the
// error is within its limit.
package validate
