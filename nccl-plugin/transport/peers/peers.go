// SPDX-License-Identifier: Apache-2.0

// Package peers watches the processes at the other ends of connections, for every
// datapath: those that are connected, and those who may still connect.
package peers

import (
	"errors"
	"time"

	"github.com/ddlemu/ddlemu/shaper/state"
)

const (
	// Period is how often the peers' liveness is looked at. It is off the hot path and
	// costs one system call per peer.
	Period = 200 * time.Millisecond
	// Patience is how long a listen still waits for its peer after some rank has left
	// the job, which may be another one that was done.
	Patience = 10 * time.Second
)

// Tenant is one participant, told from the next one in its slot.
type Tenant struct {
	Slot    int
	Tenancy int64
}

// Expected is what a listen knows of those who may connect to it: nobody tells it
// which rank will.
type Expected struct {
	died, left int       // in the job, when the listen began
	since      time.Time // when a rank was first seen to have left since
	gone       error
}

// Expect begins to expect a peer of me.
func Expect(f *state.File, me *state.Participant) Expected {
	f.Reap() // who died before is no reason to give up
	died, left := me.Job().Gone()
	return Expected{died: died, left: left}
}

// Gone is why nobody will connect, nil as long as somebody may.
func (p *Expected) Gone() error { return p.gone }

// Look notices that nobody will connect any more.
func (p *Expected) Look(f *state.File, me *state.Participant) {
	died, left := me.Job().Gone()
	switch {
	case p.gone != nil:
	case died > p.died:
		p.gone = errors.New("a rank of the job died before it connected")
	case left > p.left:
		if p.since.IsZero() {
			p.since = time.Now()
		}
		if alone(f, me) || time.Since(p.since) > Patience {
			p.gone = errors.New("a rank left the job before it connected")
		}
	}
}

// alone says whether no other rank of the job is left.
func alone(f *state.File, me *state.Participant) bool {
	for _, p := range f.Participants() {
		if p.Job == me.Job().Index() && p.Slot != me.Slot() && p.Alive {
			return false
		}
	}
	return true
}

// Alive says which tenants live, asking the kernel once for each.
func Alive(f *state.File) func(Tenant) bool {
	known := map[Tenant]bool{}
	return func(t Tenant) bool {
		ok, seen := known[t]
		if !seen {
			ok = f.Lives(t.Slot, t.Tenancy)
			known[t] = ok
		}
		return ok
	}
}

// Watch calls look every Period until done is closed, and tells the fabric of the
// participants that died.
func Watch(f *state.File, done <-chan struct{}, look func()) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		look()
		f.Reap()
	}
}
