// SPDX-License-Identifier: Apache-2.0

// Package validate holds the emulator against a table that somebody measured with
// nccl-tests on a real cluster: it runs the table's sizes on a fabric, and says for
// each row what was published, what the model expects, what the emulated run took,
// and whether that is within the limits.
package validate
