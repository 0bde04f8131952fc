// SPDX-License-Identifier: Apache-2.0

package ledger

// The layout of the file, as in ledger.h.
const (
	magic      = 0x31676c756d656464
	version    = 4
	recordSize = 64

	connectionsAt  = 4096 // where the table of connections begins
	maxConnections = 16384
	namesAt        = connectionsAt + maxConnections*64 // where the names begin
	namesSize      = 1 << 20
	recordsAt      = namesAt + namesSize // where the records begin
)

// Kind is what a record is about.
type Kind uint32

// The kinds of records.
const (
	Send     Kind = 1 // a message, noted by the sender
	Receive  Kind = 2 // a message, noted by the receiver
	TaskKind Kind = 3
	OpKind   Kind = 4

	KernelTask Kind = 5 // a task, as a kernel of the software CUDA knows it: its Comm is a number of this process
	RangeKind  Kind = 6
	KernelKind Kind = 7

	ChannelKind Kind = 8
)

// Unknown is a function, algorithm, protocol or type that has no number here.
const Unknown = 0xff

// Record is one end of a message. Times are ns of the fabric's clock, already multiplied by the
// time scale.
type Record struct {
	Number uint64 // 1 + the records before it
	Kind   Kind
	// Send: the longest time since the thread's post before, for which NCCL did not call although it had
	// requests. Receive: how late the bytes were visible. Both on a real clock only; at most the largest
	// value.
	Late   uint32
	Conn   uint32 // place in the table of connections; if there is none, it has no place
	Op     uint32 // the lower half of the number of its operation's record; 0: not known
	Msg    uint64 // number in its connection: both ends have the same
	Size   uint64 // bytes; of a receive that has not returned, its capacity
	Posted int64  // by this end
	// Send: when it is complete in the model. Receive: when the message is due. While Returned is 0: when test first
	// reported that the connection has failed, 0: it did not.
	Modelled int64
	Returned int64 // by NCCL's test; 0: it is not returned
}

// Task is a collective, or a send or receive of the program.
type Task struct {
	Number                      uint64
	Kind                        Kind
	Func, Algo, Proto, Datatype uint8  // NCCL's numbers, or Unknown
	Comm                        uint64 // NCCL's hash of the communicator
	Seq                         uint32 // of a collective: the calls of this function on this communicator before it
	Group                       uint32 // tasks of this process with the same number were planned together; 0: not known
	Count                       uint64 // elements
	// rank in the communicator: of a send or receive the other end, of a collective the root
	Peer        int32
	Ranks, Rank int32 // of the communicator; 0 and -1 if NCCL does not say
	Channels    uint32
	Begun       int64 // when NCCL had planned it
}

// Op is the part of a task that one connection carries.
type Op struct {
	Number         uint64
	Kind           Kind
	Task           uint32 // the lower half of the number of its task's record
	PID            int32  // of the process that has that record
	Rank, Peer     int32  // in the communicator
	Channel, Sends uint16
	Steps, Chunk   uint32 // messages; bytes of the largest
	Begun, Ended   int64  // by NCCL's progress thread; 0: it has not ended
	_              uint64
}

// RangeStyle is how a range was begun.
type RangeStyle uint32

// The styles of ranges.
const (
	Pushed  RangeStyle = iota // ranges of one thread and domain nest
	Started                   // they need not nest, and another thread may end it
	Mark                      // it takes no time
)

// RangeRecord is a range of the program, by NVTX, as it is in the file.
type RangeRecord struct {
	Number       uint64
	Kind         Kind
	Thread       uint32
	Name, Domain uint32 // where the names are among the names; 0: it has none
	Style        RangeStyle
	Depth        uint32
	Order        uint64
	Begun, Ended int64
	_            uint64
}

// Range is a range of the program, by NVTX.
type Range struct {
	Number       uint64
	Thread       uint32 // the kernel's number of the thread that began it
	Name, Domain string // "" if it has none
	Style        RangeStyle
	Depth        int    // open ranges of its thread and domain around it
	Order        uint64 // ranges of the process that were begun before it
	Begun, Ended int64  // 0: it has not ended
}

// Kernel is a kernel of NCCL that a stream of the software CUDA ran, or a host function that took time.
type Kernel struct {
	Number uint64
	Kind   Kind
	Stream uint32 // number of the process
	// The groups of its tasks: of those that NCCL's profiler reported, and of those that the kernel reported. 0: none.
	// A host function has neither.
	Group, KernelGroup uint32
	Launched           int64 // by the program; 0: a host function, of which that is not known
	Begun, Ended       int64 // 0: not yet
	_                  [2]uint64
}

// Channel is a channel of a task's kernel, as NCCL's profiler tells of it.
type Channel struct {
	Number             uint64
	Kind               Kind
	Task               uint32 // the lower half of the number of its task's record
	Channel            uint64
	Begun, Ended       int64  // when NCCL's progress thread has seen that; 0: not yet
	GPUBegun, GPUEnded uint64 // by the GPU's clock, ns; 0: NCCL does not say
	_                  uint64
}

func (c *Channel) isSane() bool {
	return c.Begun >= 0 && c.Begun <= maxTime && (c.Ended == 0 || c.Ended >= c.Begun && c.Ended <= maxTime) &&
		max(c.GPUBegun, c.GPUEnded) <= maxTime
}

func (k *Kernel) isSane() bool {
	for _, t := range []int64{k.Launched, k.Begun, k.Ended} {
		if t < 0 || t > maxTime {
			return false
		}
	}
	return k.Begun >= k.Launched || k.Begun == 0
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
	BegunRealtime                int64
	NCCL                         uint32 // version, 0: not known
	_                            uint32
	Names, LostRanges            uint64
	_                            uint64
	Next                         uint64 // records so far
	_                            [15]uint64
}

// Connection is one end of a connection.
type Connection struct {
	Flow     uint64 // as in records
	Sends    uint32 // 1: this process sends; 0: it receives
	Link     uint32 // the hop that is the link between the NICs
	Src, Dst uint32 // NICs of the fabric
	Order    uint64 // of connections at equal virtual times; 0 on a real clock
	Path     uint64 // what its path is drawn by, if each flow has its own: link.PathID
	_        [3]uint64
}

// Limits of a record. Beyond them it is damaged: NCCL cuts what it sends into far smaller messages, and a
// clock of nanoseconds that has run for 73 years is none.
const (
	maxSize = 1 << 34
	maxTime = 1 << 61
)
