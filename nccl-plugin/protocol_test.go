// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// The results are those of NCCL's parseList (graph/tuning.cc), at the tags v2.22.3-1 and v2.29.7-1.
func TestAllowsLL128(t *testing.T) {
	for _, tc := range []struct {
		proto       string
		list, lists bool // to NCCL before 2.24, and since
	}{
		{"", false, false},
		{"LL128", true, true},
		{"ll128", true, true},
		{"Simple", false, false},
		{"LL,Simple", false, false},
		{"LL,LL128,Simple", true, true},
		{"LL,,LL128", true, true},
		{" LL128", false, false}, // NCCL does not trim
		{"^LL128", false, false},
		{"^ll128,LL", false, false},
		{"^LL", true, true},
		{"^Simple", true, true},
		{"^LL,Simple", true, true},
		{"^", true, true},
		{"^LL, LL128", true, true},
		{"LL1288", false, false},

		{"allreduce:LL128", false, true},
		{"AllReduce:ll128", false, true},
		{"allreduce:Simple", false, false},
		{"allreduce:^LL", false, true},
		{"allreduce:^LL128", false, false},
		{"LL;allreduce:LL128", false, true},
		{"LL;;allreduce:LL128;", false, true},
		{"LL,Simple;allreduce:^LL", false, true},
		{"LL,Simple;allreduce:^LL128", false, false},
		{"LL;allreduce:LL128;allreduce:LL", false, false}, // the last counts
		{"LL128;allreduce:LL", false, true},               // for all others
		{"LL128;allreduce:LL;broadcast:LL;reduce:LL;allgather:LL;reducescatter:LL", false, false},
		{"^LL128;allreduce:LL128", true, true}, // 2.22 reads this as "not an unknown word"
		{"^LL128;allreduce:Simple", true, false},
		{"^LL128;allreduce:^LL128", true, false},
	} {
		if got := listAllowsLL128(tc.proto); got != tc.list {
			t.Errorf("%q as one list: %v, want %v", tc.proto, got, tc.list)
		}
		if got := collectiveAllowsLL128(tc.proto); got != tc.lists {
			t.Errorf("%q as lists: %v, want %v", tc.proto, got, tc.lists)
		}
		if got, want := allowsLL128(tc.proto), tc.list || tc.lists; got != want {
			t.Errorf("%q: %v, want %v", tc.proto, got, want)
		}
	}
}
