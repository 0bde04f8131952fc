// SPDX-License-Identifier: Apache-2.0

// Package torch tests the backend of PyTorch (cuda/torch) with real jobs: every operation, training, failures, and random
// calls compared with gloo's. The programs of the jobs are in testdata.
package torch
