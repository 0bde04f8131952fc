// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// starting is a rank that has no communicator yet.
func starting(rank, world int, joined time.Duration) state.ParticipantStatus {
	return state.ParticipantStatus{Rank: rank, World: world, Joined: int64(joined), Alive: true, Starting: true}
}

func started(rank, world int) state.ParticipantStatus {
	p := starting(rank, world, 0)
	p.Starting = false
	return p
}

// A rank that is lost while others start, and that is not replaced, ends the job after a while.
func TestStartWatch(t *testing.T) {
	const end = " waits for it in ncclCommInitRank, where NCCL waits for ever"
	died := losses{died: 1, diedRank: 1}
	for name, tc := range map[string]struct {
		losses losses
		ranks  []state.ParticipantStatus
		after  time.Duration // of the loss, which is seen at 10 s
		want   string
	}{
		"nothing is lost": {losses{}, []state.ParticipantStatus{starting(0, 2, 0)}, time.Hour, ""},
		"a rank died": {died, []state.ParticipantStatus{starting(0, 2, 0)}, 5 * time.Second,
			"rank 1 died, and rank 0" + end},
		"just now":          {died, []state.ParticipantStatus{starting(0, 2, 0)}, 4 * time.Second, ""},
		"others have begun": {died, []state.ParticipantStatus{started(0, 2)}, time.Hour, ""},
		"one of them has not": {died, []state.ParticipantStatus{started(0, 3), starting(2, 3, 0)}, time.Hour,
			"rank 1 died, and rank 2" + end},
		"all have gone":  {died, nil, time.Hour, ""},
		"it is replaced": {died, []state.ParticipantStatus{starting(0, 2, 0), starting(1, 2, 11*time.Second)}, time.Hour, ""},
		"a later rank":   {died, []state.ParticipantStatus{starting(0, 2, 20*time.Second)}, 69 * time.Second, ""},
		"a later rank waits": {died, []state.ParticipantStatus{starting(0, 2, 20*time.Second)}, 70 * time.Second,
			"rank 1 died, and rank 0" + end},
		"a rank failed": {losses{failed: 1, failedRank: 3}, []state.ParticipantStatus{starting(0, 4, 0)}, 5 * time.Second,
			"rank 3 failed, and rank 0" + end},
		"a rank that nobody starts": {losses{absent: true, absentRank: 1}, []state.ParticipantStatus{starting(0, 2, 0)}, 5 * time.Second,
			"rank 1 is not there, and no program is left that could start it, and rank 0" + end},
		"no plugin": {losses{notEmulated: true}, []state.ParticipantStatus{starting(0, 2, 0)}, 5 * time.Second,
			"the plugin of a rank did not start, and rank 0" + end},
		"an unknown number of ranks": {died, []state.ParticipantStatus{starting(0, 0, 0)}, 5 * time.Second,
			"rank 1 died, and rank 0" + end},
		"the same, replaced": {died, []state.ParticipantStatus{starting(0, 0, 0), starting(1, 0, 0)}, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w startWatch
			seen := int64(10 * time.Second)
			if why := w.look(seen, tc.losses, tc.ranks); why != "" {
				t.Errorf("at once: %s", why)
			}
			if got := w.look(seen+int64(tc.after), tc.losses, tc.ranks); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Each further loss begins the patience again.
func TestStartWatchSeesFurtherLosses(t *testing.T) {
	var w startWatch
	ranks := []state.ParticipantStatus{starting(0, 3, 0)}
	for second := range int64(20) {
		l := losses{died: 1 + int(second)/4, diedRank: 1}
		if why := w.look(second*int64(time.Second), l, ranks); why != "" {
			t.Fatalf("%d s: %s", second, why)
		}
	}
}

// Ranks that have begun, and jobs without a loss, are never ended.
func TestPropertyStartWatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w startWatch
		world := rapid.IntRange(0, 4).Draw(t, "world")
		loses := rapid.Bool().Draw(t, "loses")
		now := int64(0)
		for range rapid.IntRange(1, 10).Draw(t, "looks") {
			now += rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passed")
			var l losses
			if loses {
				l = losses{died: rapid.IntRange(0, 2).Draw(t, "died"), notEmulated: rapid.Bool().Draw(t, "plugin")}
			}
			var ranks []state.ParticipantStatus
			for r := range rapid.IntRange(0, 4).Draw(t, "ranks") {
				p := starting(r, world, time.Duration(rapid.Int64Range(0, now+1).Draw(t, "joined")))
				p.Starting = !loses || rapid.Bool().Draw(t, "starting")
				ranks = append(ranks, p)
			}
			why := w.look(now, l, ranks)
			if why == "" {
				continue
			}
			waits := false
			for _, r := range ranks {
				waits = waits || r.Starting && strings.Contains(why, fmt.Sprintf("and rank %d waits", r.Rank))
			}
			if !loses || !waits || now-w.at < int64(startPatience) {
				t.Fatalf("%s: losses %+v, ranks %+v", why, l, ranks)
			}
		}
	})
}

// While no rank starts, the watch only reads memory: it does not look for dead processes, which costs system calls.
func TestStartsAreQuiet(t *testing.T) {
	j, err := Start(t.Context(), folder(t), twoNodes(t), "run")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	a, b := startRank(t, j, 0), startRank(t, j, 1)
	var s starts
	if why := s.look(j, 1); why != "" || len(s.watches) != 1 || s.quiet != 0 {
		t.Fatalf("%q, %d watches, quiet since %d", why, len(s.watches), s.quiet)
	}
	a.ask("connect")
	b.ask("connect")
	b.kill()
	for now := range int64(3) {
		if why := s.look(j, 2+now); why != "" || s.quiet != 2 || len(j.file.Participants()) != 2 {
			t.Fatalf("%q, quiet since %d, %d participants", why, s.quiet, len(j.file.Participants()))
		}
	}
	startRank(t, j, 1) // takes the place of the one that died
	if why := s.look(j, 9); why != "" || s.quiet != 0 || len(j.file.Participants()) != 2 {
		t.Errorf("%q, quiet since %d, %d participants", why, s.quiet, len(j.file.Participants()))
	}
	for _, w := range s.watches {
		if w.at != 2 {
			t.Errorf("the death was seen at %d; it could have been at 2", w.at)
		}
	}
}
