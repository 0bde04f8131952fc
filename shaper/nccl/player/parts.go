// SPDX-License-Identifier: Apache-2.0

package player

import "fmt"

// Part is what time on the critical path of a call was spent for.
type Part int

// The parts.
const (
	Calling  Part = iota // the host's thread made the call
	Launch               // the kernel was launched
	LL                   // steps of a kernel, by the protocol
	LL128                //
	Simple               //
	Send                 // Simple of sends and receives
	NVLSCopy             // NVLS: copies between a rank's data and the buffers
	NVLSHead             // NVLS: the reduction and the broadcast of a head
	// Links between the GPUs of a node.
	LocalSerialize // the bytes of the message itself occupied a link
	LocalQueue     // others did, or earlier messages of the same connection
	LocalLatency
	// The same for what NVSwitches reduce and broadcast.
	NVLSSerialize
	NVLSQueue
	NVLSLatency
	// Between nodes.
	Proxy       // the proxies' threads and the hosts at the ends of a message: work, and the wait for a thread at work
	NIC         // the latency of NICs besides the latency of their links
	Serialize   // the bytes of the message itself occupied a link
	Queue       // others did, or earlier messages of the same connection
	Latency     // of links; the latency of acknowledgements and of clear-to-send too
	Losses      // until lost packets were sent again
	Window      // tcp: the send buffer, the receive window or the congestion window was full
	Computing   // of a job
	Unexplained // no cause is known: always 0, or the model has a mistake
	partCount
)

var partNames = [partCount]string{
	Calling: "call", Launch: "launch", LL: "LL", LL128: "LL128", Simple: "Simple", Send: "send",
	NVLSCopy: "NVLS copy", NVLSHead: "NVLS head",
	LocalSerialize: "NVLink bytes", LocalQueue: "NVLink queue", LocalLatency: "NVLink latency",
	NVLSSerialize: "NVLS bytes", NVLSQueue: "NVLS queue", NVLSLatency: "NVLS latency",
	Proxy: "proxy", NIC: "NIC", Serialize: "network bytes", Queue: "network queue", Latency: "network latency",
	Losses: "losses", Window: "window", Computing: "compute", Unexplained: "unexplained",
}

// String is the name of a part in tables.
func (p Part) String() string {
	if p < 0 || p >= partCount {
		return fmt.Sprintf("part %d", int(p))
	}
	return partNames[p]
}

// Spent is the time of each part, in ns.
type Spent [partCount]int64

// Sum is the time of all parts.
func (s *Spent) Sum() (ns int64) {
	for _, n := range s {
		ns += n
	}
	return ns
}
