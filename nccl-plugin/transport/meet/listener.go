// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"fmt"
	"math/rand/v2"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Listener is one listen, to which connections C come. Its fields and methods are
// used under its owner's lock.
type Listener[C any] struct {
	Nonce uint64
	NIC   int
	Ready []C            // connected by a peer, not yet accepted
	Peers peers.Expected // who may still connect
}

// Listen begins a listen on a NIC of the participant me.
func Listen[C any](f *state.File, me *state.Participant, nic int) Listener[C] {
	// A generator that the kernel seeded: nobody can foretell the nonce.
	return Listener[C]{Nonce: rand.Uint64(), NIC: nic, Peers: peers.Expect(f, me)}
}

// Accept takes the connection that came first, if there is one. It fails when none
// will come any more.
func (l *Listener[C]) Accept(f *state.File) (c C, ok bool, err error) {
	if len(l.Ready) > 0 {
		c, l.Ready = l.Ready[0], l.Ready[1:]
		return c, true, nil
	}
	if f.Down() {
		return c, false, fmt.Errorf("fabric %s was taken down", f.Name())
	}
	return c, false, l.Peers.Gone()
}
