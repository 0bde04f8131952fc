// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// When a rank has left the job, the listener waits for Patience: another rank that lives
// may be the one that connects. It gives up at once when no other rank remains.
func TestListenerGivesUp(t *testing.T) {
	c, err := configs.Profile("loopback")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, f, "listener")
	job, err := file.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	var ranks [3]*state.Participant
	for i := range ranks {
		if ranks[i], err = file.Join(job, state.Rank{Rank: i, Node: i % 2, World: 3}); err != nil {
			t.Fatal(err)
		}
		defer ranks[i].Leave()
	}
	l := newListener(file, ranks[1], 0)
	if l.checkPeers(file, ranks[1]); l.unwanted != nil || !l.leftSince.IsZero() {
		t.Fatalf("gave up although no rank left: %v", l.unwanted)
	}
	ranks[0].Leave()
	if l.checkPeers(file, ranks[1]); l.unwanted != nil || l.leftSince.IsZero() {
		t.Fatalf("gave up at once: %v", l.unwanted)
	}
	patient := *l
	l.leftSince = l.leftSince.Add(-Patience)
	if l.checkPeers(file, ranks[1]); l.unwanted == nil {
		t.Error("still waits after its patience")
	}
	ranks[2].Leave()
	if patient.checkPeers(file, ranks[1]); patient.unwanted == nil {
		t.Error("still waits although no other rank remains")
	}
}
