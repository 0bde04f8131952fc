// SPDX-License-Identifier: Apache-2.0

package nccl

import "testing"

func TestCheckDescriptors(t *testing.T) {
	for limit, ok := range map[uint64]bool{0: false, 64: false, 74: false, 75: true, 1024: true, ^uint64(0): true} {
		if err := CheckDescriptors(limit); (err == nil) != ok {
			t.Errorf("%d: %v", limit, err)
		}
	}
}
