// SPDX-License-Identifier: Apache-2.0

package interleave

const (
	most     = 3 // messages
	cells    = 2 // of the ring
	table    = 2 // entries of tx: DDLEMU_MAX_MESSAGES
	requests = 2 // DDLEMU_MAX_REQUESTS
)

// Message i takes sizes[i] cells. Usually: one longer than the ring, one without
// bytes, one more.
var usual = [most]uint8{3, 0, 1}

// end is the stream offset behind message i, begin the one of its first cell.
func (m *machine) end(i uint8) (n uint8) {
	for _, s := range m.sizes[:i+1] {
		n += s
	}
	return n
}

func (m *machine) begin(i uint8) uint8 { return m.end(i) - m.sizes[i] }

// The values of lock.
const (
	free uint8 = iota
	bySender
	byReceiver
)

// agent is one thread: where it is, and what it has in registers and in its own
// memory.
type agent struct {
	at      pc
	polling bool  // the call is test, not isend or irecv
	copied  uint8 // conn.copied_msgs
	off     uint8 // conn.copied_off
	reg     uint8 // what the last step loaded
	gone    bool  // the peer is seen to be dead or closed
	dead    bool  // conn.dead, set by watch
	crashed bool
	ended   bool // closed, or gave up with an error
	failed  bool
	turns   uint8 // a helper's, so far
}

// state is everything. It is comparable, so that it can be looked up.
type state struct {
	// ddlemu_flow.
	posted, written, txDone   uint8
	recvd, consumed, rxDone   uint8
	txClosed, rxClosed        bool
	lock                      uint8
	broken, never             bool // next == DDLEMU_NEVER
	seenPosted, seenRecvd     uint8
	cur                       uint8
	dueCount, sentCount       uint8
	arrived, oldest           uint8
	tx                        [table]uint8 // the message in each entry, plus 1
	ring                      [cells]uint8 // the stream offset in each cell, plus 1
	s, r, helper              agent
	clock                     uint8 // messages whose due time has passed
	down                      bool
	delivered                 uint8
	sentInFull, receivedInAll uint8 // messages, when the sender, the receiver closed
}
