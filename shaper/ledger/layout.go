// SPDX-License-Identifier: Apache-2.0

package ledger

// The layout of the file, as in ledger.h.
const (
	magic      = 0x31676c756d656464
	version    = 1
	recordSize = 64

	connectionsAt  = 4096 // where the table of connections begins
	maxConnections = 16384
	recordsAt      = connectionsAt + maxConnections*64 // where the records begin
)

// Kind is what a record is about.
type Kind uint32

// The kinds of records.
const (
	Sent     Kind = 1 // a send that test has returned
	Received Kind = 2 // a receive that test has returned
)

// Record is one entry. Times are ns of the fabric's clock, already multiplied by the time scale.
type Record struct {
	Number    uint64 // 1 + the records before it
	Kind      Kind
	Late      uint32 // ns; received: how late the bytes were visible; at most the largest value
	Flow, Msg uint64 // the connection, and the message's number in it: both ends have the same
	Size      uint64 // bytes
	Posted    int64  // by this end
	Modelled  int64  // sent: when the model says that the send is complete; received: when the message is due
	Returned  int64  // by NCCL's test
}

// header is the begin of the file.
type header struct {
	Magic                        uint64
	Version, RecordSize          uint32
	Capacity                     uint64 // records, a power of two
	FabricID                     uint64
	Job, Rank, Node, World       uint32
	PID, VirtualClock            uint32
	TimeScale, Begun             int64
	Connections, LostConnections uint64
	_                            [5]uint64
	Next                         uint64 // records so far
	_                            [15]uint64
}

// Connection is one end of a connection.
type Connection struct {
	Flow     uint64 // as in records
	Sends    uint32 // 1: this process sends; 0: it receives
	Link     uint32 // the hop that is the link between the NICs
	Src, Dst uint32 // NICs of the fabric
	_        [5]uint64
}
