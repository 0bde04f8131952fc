// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import "github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"

// look tells connections whose peer died, or whose fabric is gone, and listens that
// nobody will connect to.
func (e *Endpoint) look() {
	down, alive := e.fabric.Down(), peers.Alive(e.fabric)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		switch {
		case down:
			C.ddlemu_conn_set_dead(c.c, 2)
		case !alive(c.peer):
			C.ddlemu_conn_set_dead(c.c, 1)
		}
	}
	for _, l := range e.listens {
		l.Peers.Look(e.fabric, e.me)
	}
}
