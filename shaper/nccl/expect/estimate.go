// SPDX-License-Identifier: Apache-2.0

package expect

import "github.com/ddlemu/ddlemu/shaper/engine/link"

// Estimate is the model's expectation for one call. Times are stated ns.
type Estimate struct {
	// Time is the mean time of Decision.Iterations calls back to back, from the common start to the end of the last
	// call on the last rank.
	Time float64
	// RankTime is the same until the end of the last call on each rank. nccl-tests prints the mean of these.
	RankTime []float64
	// First is the time of the first call, with an idle fabric.
	First float64
	// Bound is the time for which one call occupies the busiest hop. In the long run no schedule of these messages is
	// faster.
	Bound float64

	Channels int       // used by the call
	Traffic  []Traffic // of one call
	Loads    []Load    // of one call

	// Spread is the possible deviation of Time in either direction, as a fraction. It covers all tested orders of flows
	// that are ready at the same instant, and, with random jitter or loss, spreadSigma standard deviations. Time is the
	// mean of these simulations. If a simulation takes long, there are only two. Events that occur in none of them,
	// such as a rare loss, are not covered.
	Spread float64

	Limit Limit

	// Extrapolated says that the calls were long or many, so only some of them were simulated.
	Extrapolated bool

	played    float64 // Time before the maximum with Bound
	pieces    uint64  // messages and segments of one call
	transport *link.Transport
}

// LimitedBy is what limits the rate of calls.
type LimitedBy uint8

// What can limit calls.
const (
	ByNothing LimitedBy = iota // the call takes no time
	ByLatency                  // chains of actions and messages, each of which waits for the one before
	BySteps                    // the actions of a kernel on one channel: what they take beside their bytes
	ByChannel                  // the actions of a kernel on one channel, most of the time for moving bytes
	ByLaunch                   // the launch of a kernel
	ByThread                   // the host's thread that makes the calls
	ByHop                      // the bytes on a hop
	ByHost                     // the worker of a NIC for messages at the first or the last hop of their paths
)

// Limit is what limits the rate of calls, and for which share of a call's time it is at work.
type Limit struct {
	By            LimitedBy
	Share         float64
	Hop           int // of ByHop and ByHost
	Rank, Channel int // of BySteps and ByChannel
	// PeerChannels is the most channels that the sends of a rank to another one use; 0 in a collective with kernels of
	// its own.
	PeerChannels int
}

// Load is the load of one call on one hop.
type Load struct {
	Hop      int // number
	Messages uint64
	Bytes    uint64  // payload
	Line     uint64  // line bytes without retransmissions
	BusyNs   float64 // time for which the hop is occupied
	HostNs   float64 // time for which the worker of the NIC at the hop, an end of the paths, is busy
}

// Traffic is the payload of one call over one connection between nodes or, if nodes cost time, GPUs.
type Traffic struct {
	Conn
	Messages, Bytes uint64
}

// Add adds n messages of so many bytes to the load of a hop with these parameters.
func (l *Load) Add(p *link.Params, bytes, n uint64) {
	packets := max((bytes+uint64(p.Payload)-1)/uint64(p.Payload), 1)
	line := n * (bytes + packets*uint64(p.PerPacket))
	l.Messages += n
	l.Bytes += n * bytes
	l.Line += line
	if p.NsDen != 0 {
		l.BusyNs += float64(line) * float64(p.NsNum) / float64(p.NsDen)
	}
}

// busiest is the connection with the most bytes.
func (e *Estimate) busiest() Traffic {
	var most Traffic
	for _, t := range e.Traffic {
		if t.Bytes > most.Bytes {
			most = t
		}
	}
	return most
}
