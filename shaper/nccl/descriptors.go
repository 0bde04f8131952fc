// SPDX-License-Identifier: Apache-2.0

package nccl

import "fmt"

// leastDescriptors is the smallest limit of open files with which NCCL starts. Its proxy service polls a fixed number
// of descriptors at once, which follows from the ranks that it allows on a node (proxy.cc), and poll refuses more than
// the limit allows. ncclCommInitRank then hangs. Measured: 66 with NCCL 2.22.3, 75 with 2.29.7.
const leastDescriptors = 75

// CheckDescriptors refuses a limit of open files (RLIMIT_NOFILE, as `ulimit -n` sets it) with which NCCL hangs when it
// starts.
func CheckDescriptors(limit uint64) error {
	if limit >= leastDescriptors {
		return nil
	}
	return fmt.Errorf("a process may have %d open files, and NCCL hangs with fewer than %d: raise the limit "+
		"(ulimit -n 4096)", limit, leastDescriptors)
}
