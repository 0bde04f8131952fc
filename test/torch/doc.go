// SPDX-License-Identifier: Apache-2.0

// Package torch tests the backend of PyTorch (cuda/torch) with real jobs: every operation, training, failures, and
// random calls compared with gloo's. The programs of the jobs are in testdata.
//
// Ranks often wait. So most tests run beside each other. Failures, which must be noticed in time, run before them.
package torch
