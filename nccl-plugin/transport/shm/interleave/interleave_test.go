// SPDX-License-Identifier: Apache-2.0

package interleave

import (
	"strings"
	"testing"
)

// In every order of the steps, no message is lost, changed, reordered, delivered
// twice or before it is due; no call fails while its peer lives and can do its part;
// and nobody waits for ever.
func TestEveryInterleaving(t *testing.T) {
	for _, rdma := range []bool{false, true} {
		for _, m := range []machine{
			{messages: 3},
			{messages: 3, crash: true},
			{messages: 2, abort: true, crash: true},
			{messages: 2, down: true, crash: true},
			{messages: 2, helper: bySender},
			{messages: 2, helper: byReceiver},
		} {
			if testing.Short() && m.messages == 3 {
				m.messages = 2
			}
			m.rdma = rdma
			t.Run(m.String(), func(t *testing.T) {
				states, way := m.explore()
				if way != "" {
					t.Fatal(way)
				}
				t.Logf("%d states", states)
			})
		}
	}
}

// Each mistake in the protocol is found, in the surroundings where it shows.
func TestMistakesAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		machine
		want string
	}{
		"posted before its entry":                  {machine{messages: 2, bug: countBeforeEntry}, "read"},
		"written before the data":                  {machine{messages: 2, bug: countBeforeData}, "the cell of offset"},
		"consumed before the copy":                 {machine{messages: 3, bug: roomBeforeCopy}, "the cell of offset"},
		"the sender does not look for room":        {machine{messages: 3, bug: noRoom}, "the cell of offset"},
		"an entry used again too soon":             {machine{messages: 3, bug: reuseTooSoon}, "from an entry that holds message"},
		"reading what is not written yet":          {machine{messages: 2, rdma: true, bug: arrivedAlone}, "the cell of offset"},
		"completing what is not due":               {machine{messages: 2, bug: early}, "before it is due"},
		"a post during a step taken for seen":      {machine{messages: 2, rdma: true, bug: seenTooLate}, "waits for ever"},
		"any lock taken for a dead sender's":       {machine{messages: 2, helper: bySender, bug: anyLock}, "the receive of message"},
		"waiting for a dead sender's lock":         {machine{messages: 2, crash: true, bug: deadLock}, "waits for ever"},
		"looking twice whether the sender is gone": {machine{messages: 2, bug: looksTwice}, "the receive of message"},
		"waiting for a closed receiver's receives": {machine{messages: 2, rdma: true, abort: true, bug: closedReceiver}, "waits for ever"},
		"irecv waiting for a dead sender's lock":   {machine{messages: 3, sizes: [most]uint8{1, 0, 2}, crash: true, bug: fullForEver}, "waits for ever"},
		"the model never told of receives":         {machine{messages: 3, bug: receivesLeft}, "waits for ever"},
		"not looking whether the link is broken":   {machine{messages: 2, rdma: true, abort: true, down: true, bug: brokenUnseen}, "waits for ever"},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.machine
			states, way := m.explore()
			lines := strings.Split(way, "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, tc.want) {
				t.Errorf("after %d states: %q, want %q", states, last, tc.want)
			}
		})
	}
}

func (m *machine) String() string {
	out := []string{"tcp"}
	if m.rdma {
		out[0] = "rdma"
	}
	for _, o := range []struct {
		name string
		on   bool
	}{
		{"crash", m.crash}, {"abort", m.abort}, {"down", m.down},
		{"sender's helper", m.helper == bySender}, {"receiver's helper", m.helper == byReceiver},
	} {
		if o.on {
			out = append(out, o.name)
		}
	}
	return strings.Join(out, " ")
}
