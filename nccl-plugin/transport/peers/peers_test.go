// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/state/statetest"
)

// Another rank that is alive may be the one that connects, so it is given time.
func TestThoseWhoAreLeftAreWaitedFor(t *testing.T) {
	c, err := configs.Profile("loopback")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, f, "peers")
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
	l := Expect(file, ranks[1])
	if l.Look(file, ranks[1]); l.Gone() != nil || !l.since.IsZero() {
		t.Fatalf("gave up although nobody left: %v", l.Gone())
	}
	ranks[0].Leave()
	if l.Look(file, ranks[1]); l.Gone() != nil || l.since.IsZero() {
		t.Fatalf("gave up at once: %v", l.Gone())
	}
	patient := l
	l.since = l.since.Add(-Patience)
	if l.Look(file, ranks[1]); l.Gone() == nil {
		t.Error("still waits after its patience")
	}
	ranks[2].Leave()
	if patient.Look(file, ranks[1]); patient.Gone() == nil {
		t.Error("still waits although nobody else is left")
	}
}
