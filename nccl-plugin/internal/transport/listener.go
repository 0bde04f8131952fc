// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Patience is how long a listener still waits for its peer after some rank has left the
// job: that rank may be another one, which had finished.
const Patience = 10 * time.Second

// Listener is one listen of NCCL. Nobody says which rank will connect to it. Its fields
// are used under the endpoint's lock.
type Listener struct {
	NIC   int // number in the fabric
	nonce uint64
	// Listened is how many connections this rank had listened for before.
	Listened uint32
	ready    []Conn // made by a peer and not accepted yet

	died, left int       // ranks of the job that were gone when the listener was opened
	leftSince  time.Time // when a rank was first seen to have left since then
	unwanted   error     // why nobody will connect any more; nil while somebody may
}

func newListener(f *state.File, me *state.Participant, nic int) *Listener {
	f.Reap() // a rank that died before is no reason to give up
	died, left := me.Job().Gone()
	// A generator that the kernel seeded: the nonce cannot be predicted.
	return &Listener{NIC: nic, nonce: rand.Uint64(), died: died, left: left}
}

// accept returns the connection that was made first, nil if there is none. It fails when
// there will be none any more.
func (l *Listener) accept(f *state.File) (Conn, error) {
	if len(l.ready) > 0 {
		c := l.ready[0]
		l.ready = l.ready[1:]
		return c, nil
	}
	if f.Down() {
		return nil, fmt.Errorf("fabric %s was taken down", f.Name())
	}
	return nil, l.unwanted
}

// checkPeers notices that nobody will connect any more.
func (l *Listener) checkPeers(f *state.File, me *state.Participant) {
	died, left := me.Job().Gone()
	switch {
	case l.unwanted != nil:
	case died > l.died:
		l.unwanted = errors.New("a rank of the job died before it connected")
	case left > l.left:
		if l.leftSince.IsZero() {
			l.leftSince = time.Now()
		}
		if isAlone(f, me) || time.Since(l.leftSince) > Patience {
			l.unwanted = errors.New("a rank left the job before it connected")
		}
	}
}

// isAlone says whether no other rank of the job remains.
func isAlone(f *state.File, me *state.Participant) bool {
	return !slices.ContainsFunc(f.Participants(),
		func(p state.ParticipantStatus) bool {
			return p.Job == me.Job().Index() && p.Slot != me.Slot() && p.Alive
		})
}
