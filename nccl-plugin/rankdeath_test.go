// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// NCCL tells of communicators since 2.21, by the tuner that it has.
func TestTellsOfCommunicators(t *testing.T) {
	for _, tc := range []struct {
		version int
		tuner   string
		want    bool
	}{
		{22203, "", true}, {22907, "libgoemu.so", true}, {22907, "/opt/lib/libgoemu.so", true}, {22907, "goemu", true},
		{0, "", true}, {22005, "", false}, {21903, "goemu", false}, {22907, "libnccl-ofi-tuner.so", false},
	} {
		if got := tellsOfCommunicators(tc.version, tc.tuner); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
