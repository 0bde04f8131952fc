// SPDX-License-Identifier: Apache-2.0

// Package runcmd has the commands that run a job on a fabric or say how long one takes: run, bench, record, replay,
// expect, validate and verify.
package runcmd
