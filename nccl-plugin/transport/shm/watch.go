// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import (
	"errors"
	"time"
)

const (
	// watchPeriod is how often the peers' liveness is looked at. It is off the hot
	// path and costs one system call per peer.
	watchPeriod = 200 * time.Millisecond
	// patience is how long a listen still waits for its peer after some rank has left
	// the job, which may be another one that was done.
	patience = 10 * time.Second
)

// peers is what a listen knows of those who may connect to it: nobody tells it which
// rank will.
type peers struct {
	died, left int       // in the job, when the listen began
	since      time.Time // when a rank was first seen to have left since
	gone       error     // why nobody will connect
}

func (e *Endpoint) peersNow() peers {
	e.fabric.Reap() // who died before is no reason to give up
	died, left := e.me.Job().Gone()
	return peers{died: died, left: left}
}

// look notices that nobody will connect any more.
func (p *peers) look(e *Endpoint) {
	died, left := e.me.Job().Gone()
	switch {
	case p.gone != nil:
	case died > p.died:
		p.gone = errors.New("a rank of the job died before it connected")
	case left > p.left:
		if p.since.IsZero() {
			p.since = time.Now()
		}
		if e.alone() || time.Since(p.since) > patience {
			p.gone = errors.New("a rank left the job before it connected")
		}
	}
}

// alone says whether no other rank of the job is left.
func (e *Endpoint) alone() bool {
	for _, p := range e.fabric.Participants() {
		if p.Job == e.me.Job().Index() && p.Slot != e.me.Slot() && p.Alive {
			return false
		}
	}
	return true
}

// watch tells connections whose peer died, or whose fabric is gone, and listens that
// nobody will connect to.
func (e *Endpoint) watch() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-tick.C:
		}
		e.mu.Lock()
		e.look()
		e.mu.Unlock()
		e.fabric.Reap()
	}
}

// tenant is one participant, told from the next one in its slot.
type tenant struct {
	slot    int
	tenancy int64
}

func (e *Endpoint) look() {
	down, alive := e.fabric.Down(), map[tenant]bool{}
	for _, c := range e.conns {
		if down {
			C.ddlemu_conn_set_dead(c.c, 2)
			continue
		}
		ok, seen := alive[c.peer]
		if !seen {
			ok = e.fabric.Lives(c.peer.slot, c.peer.tenancy)
			alive[c.peer] = ok
		}
		if !ok {
			C.ddlemu_conn_set_dead(c.c, 1)
		}
	}
	for _, l := range e.listens {
		l.peers.look(e)
	}
}
