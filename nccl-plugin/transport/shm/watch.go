// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import (
	"time"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
)

// watch tells connections whose peer died, or whose fabric is gone, and listens that
// nobody will connect to.
func (e *Endpoint) watch() {
	tick := time.NewTicker(peers.Period)
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

func (e *Endpoint) look() {
	down, alive := e.fabric.Down(), peers.Alive(e.fabric)
	for _, c := range e.conns {
		switch {
		case down:
			C.ddlemu_conn_set_dead(c.c, 2)
		case !alive(c.peer):
			C.ddlemu_conn_set_dead(c.c, 1)
		}
	}
	for _, l := range e.listens {
		l.peers.Look(e.fabric, e.me)
	}
}
