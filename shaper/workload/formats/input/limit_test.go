// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// One limit is for operations and, five for each, for small records. A nil one has none.
func TestLimit(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*Limit) error
		most int
		want string
	}{
		"operations": {(*Limit).Add, 3, "the job has more than 3 calls, nodes or operations: --max-ops N reads more"},
		"records": {func(l *Limit) error { return l.AddSmall(1) }, 15,
			"the job has more than 15 records of kernels and calls: --max-ops N reads more"},
	} {
		limit := NewLimit(3)
		for i := range test.most {
			if err := test.add(limit); err != nil {
				t.Errorf("%s: after %d: %v", name, i, err)
			}
		}
		if err := test.add(limit); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		for range 100 {
			if err := test.add(nil); err != nil {
				t.Errorf("%s without a limit: %v", name, err)
			}
		}
	}
	if n := NewLimit(0); n.Check(MaxOps) != nil || n.Check(MaxOps+1) == nil {
		t.Error("the limit is not MaxOps")
	}
	if NewLimit(3).Room(5) != 3 || NewLimit(3).Room(2) != 2 || (*Limit)(nil).Room(5) != 5 {
		t.Error("room")
	}
}

// A few bytes of a file ask for a group of many ranks.
func TestListedRanks(t *testing.T) {
	l := NewLimit(0)
	for range workload.MaxListed / workload.MaxRanks {
		if err := l.List(workload.MaxRanks); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.List(1); err == nil || !strings.Contains(err.Error(), "more than 8388608 ranks together: give the files") {
		t.Errorf("one more: %v", err)
	}
	if err := (*Limit)(nil).List(1 << 40); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
