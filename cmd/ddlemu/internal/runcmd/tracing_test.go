// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"testing"
	"time"
)

// A stall is told once, and again if something went on in between.
func TestStallWatch(t *testing.T) {
	begin := time.Now()
	w := stallWatch{after: 3 * time.Second, since: begin}
	for second, step := range []struct {
		records uint64
		want    bool
	}{
		{0, false}, {0, false}, {0, false}, {0, false}, {0, false}, // no rank has joined
		{5, false}, {6, false}, {6, false}, {6, false}, {6, true}, {6, false}, {6, false},
		{7, false}, {7, false}, {7, false}, {7, true}, {7, false},
	} {
		if got := w.update(step.records, begin.Add(time.Duration(second)*time.Second)); got != step.want {
			t.Errorf("second %d, %d records: %v", second, step.records, got)
		}
	}
}
