// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs"
)

// LeastDatagram is the least payload of a Stream's datagrams, in bytes: the number of
// each is in it.
const LeastDatagram = 8

// Stream is datagrams that one NIC sends to another.
type Stream struct {
	Src, Dst int           // NICs, of different nodes
	Size     int           // payload of each, in bytes; LeastDatagram or more
	Burst    int           // datagrams handed over at once, 1 or more
	Window   int           // datagrams sent and not received yet, at most
	Spacing  time.Duration // between two bursts at least, on the clock
	Most     int           // datagrams; 0 for no bound
}

// Packets is what became of a stream's datagrams, by their numbers. Times are in ns of
// one monotonic clock, not divided by the time scale.
type Packets struct {
	Sent    []int64 // before the call that sent it
	Arrived []int64 // when it was at the receiving NIC; 0 if it never was
	Seen    []int64 // when this process had it; 0 likewise
}

// PacketRunner sends datagrams between the nodes of a fabric on the kernel datapath.
type PacketRunner interface {
	Watch
	// Send sends all streams at once, for d on the clock or until each has sent its most,
	// and waits for what is in flight, at most tail longer.
	Send(ctx context.Context, streams []Stream, d, tail time.Duration) ([]Packets, error)
	// Late is what the shaper itself has against being on time with what was sent last; ""
	// if nothing, or if it does not record that.
	Late() string
}

// packets is the traffic of a PacketRunner: datagrams without congestion control, of
// which only so many are in flight that they fill the path, and wait for it a little.
type packets struct {
	*measurement
	sender  PacketRunner
	size    int // payload of a datagram that fills a packet, in bytes
	payload int // what that counts for: the payload of the link model's packet, in bytes
}

const (
	ipv4UDP      = 20 + 8 // bytes of headers
	maxDatagrams = 64     // that Linux fits at once (UDP_MAX_SEGMENTS)
	maxDatagram  = 65535 - ipv4UDP

	// waiting is how long what waits at a sender lasts, in ns, while this process has no
	// processor; maxWaiting bounds that in bytes, waitingUnlimited is it where no rate is
	// asked for.
	waiting          = 150e6
	maxWaiting       = 32 << 20
	waitingUnlimited = 4 << 20

	minPackets = 256 // of a stream, for a rate

	minPacketStream = 250 * time.Millisecond
	// Ways that are measured at once ask together for little of what one thread carries.
	packetGroupRate = 0.05
)

// MeasurePackets measures the fabric on the kernel datapath that m describes and run
// sends over.
func MeasurePackets(ctx context.Context, m *Model, run PacketRunner, o Options) (*Report, error) {
	l := m.fab.Config.Link
	x := &measurement{Model: m, Options: o, run: run, least: minPacketStream, parallelRate: packetGroupRate}
	p := &packets{x, run, l.MTU - ipv4UDP, l.MTU - l.Header}
	x.how = p
	r, err := x.measure(ctx)
	if err == nil {
		p.noteTraits()
	}
	return r, err
}

// stream fills a path of which it gets rate, in bytes of payload per ns.
func (x *packets) stream(path *pathSpec, rate float64) Stream {
	s := Stream{Src: path.src, Dst: path.dst, Size: x.size, Burst: x.burst(path)}
	window := float64(waitingUnlimited)
	if !math.IsInf(rate, 1) {
		window = rate*float64(x.longest(path)) + min(rate*waiting, maxWaiting)
	}
	s.Window = max(int(window)/x.payload, 2*s.Burst)
	return s
}

// burst is how many datagrams are handed over at once: together, with their headers, less
// than a segment, which is what a NIC fits whole.
func (x *packets) burst(path *pathSpec) int {
	const ethernet = 14
	return max(min((path.segment-1-ipv4UDP-ethernet)/x.size, maxDatagrams, maxDatagram/x.size), 1)
}

// longest is what a packet is in flight at most, but for a few, without what it waits:
// real ns.
func (m *Model) longest(path *pathSpec) int64 {
	return int64(path.latency)*int64(m.scale) + m.spread(path)
}

// tail is how long after the last packet was sent all should have come.
func (x *packets) tail(path *pathSpec, s *Stream, rate float64) time.Duration {
	d := 200*time.Millisecond + time.Duration(2*x.longest(path))
	if !math.IsInf(rate, 1) {
		d += time.Duration(2 * float64(s.Window*x.payload) / rate)
	}
	return d
}

// rateTime is until a stream has sent a few packets.
func (x *packets) rateTime(paths []pathSpec) time.Duration {
	d := x.least
	for i := range paths {
		if path := &paths[i]; !math.IsInf(path.payload, 1) {
			d = max(d, time.Duration(float64(minPackets*x.payload)/path.payload))
		}
	}
	return d
}

// rateOf measures the rates of paths that share no hop.
func (x *packets) rateOf(ctx context.Context, paths []pathSpec, d time.Duration) error {
	d = max(min(d, maxStream), x.rateTime(paths))
	var streams []Stream
	tail := time.Duration(0)
	for i := range paths {
		path := &paths[i]
		s := x.stream(path, path.payload)
		streams, tail = append(streams, s), max(tail, x.tail(path, &s, path.payload))
	}
	came, err := x.sender.Send(ctx, streams, d, tail)
	if err != nil {
		return err
	}
	for i := range paths {
		path := &paths[i]
		l, f := x.link(path)
		l.Rate = x.rate(path, &came[i])
		f.rate(path.name, &l.Rate)
		loss, bursts := x.losses(path, &came[i])
		if !x.drops() { // what a full queue drops is nobody's to say
			f.loss(path.name, loss, bursts)
		}
		if loss.Got > 0 || loss.Asked > 0 {
			l.Loss = loss
		}
		if l.Rate.Model < 0.99*l.Rate.Asked {
			x.short++
		}
	}
	return nil
}

func (x *packets) rate(path *pathSpec, p *Packets) Rate {
	r := Rate{Limit: 100 * maxRateOff, Connections: 1, Message: x.payload, Messages: p.came()}
	model := x.through(path)
	r.Got = x.bps(p.rate(model/float64(x.payload)) * float64(x.payload))
	if math.IsInf(path.payload, 1) {
		return r
	}
	r.Asked, r.Model = x.bps(path.payload), x.bps(model)
	r.Error = off(r.Got, r.Model)
	return r
}

// through is what comes through of packets that are sent as fast as a path fits them, in
// bytes of payload per ns: each hop fits what it can, and loses of that what it is to.
func (m *Model) through(path *pathSpec) float64 {
	rate := math.Inf(1)
	for _, hop := range path.hops {
		rate = min(rate, m.capacity(hop)) * (1 - configs.Loss(m.fab.Hops[hop].Spec.Loss).Mean())
	}
	return rate
}

// losses compares the datagrams that did not come with those that were not to; bursts is
// by what factor their number varies more than that of independent ones.
func (x *packets) losses(path *pathSpec, p *Packets) (l *Loss, bursts float64) {
	l, bursts = &Loss{Packets: uint64(len(p.Sent)), Got: uint64(len(p.Sent) - p.came())}, 1
	kept := 1.0
	for _, hop := range path.hops {
		spec := x.fab.Hops[hop].Spec.Loss
		kept *= 1 - configs.Loss(spec).Mean()
		bursts = max(bursts, cluster(spec))
	}
	l.Asked = float64(l.Packets) * (1 - kept)
	return l, bursts
}

// came is how many datagrams came.
func (p *Packets) came() int {
	n := 0
	for _, at := range p.Arrived {
		if at != 0 {
			n++
		}
	}
	return n
}

// rate is how many datagrams came per ns, without the first quarter, in which queues
// fill; 0 if there were too few. asked is how many should.
func (p *Packets) rate(asked float64) float64 {
	var at []int64
	for _, t := range p.Arrived {
		if t != 0 {
			at = append(at, t)
		}
	}
	if len(at) < minSamples {
		return 0
	}
	from, to := steady(at[len(at)/4:], asked)
	return float64(p.between(from, to)) / float64(max(to-from, 1))
}

// steady are two times of arrivals, which are sorted, between which to take a rate: of one
// in the first and one in the last third that were as little late as any against asked
// arrivals per ns. Some that are late, of which those behind show that nothing was lost,
// are no lower rate.
func steady(at []int64, asked float64) (from, to int64) {
	late := func(i int) float64 { return float64(at[i]-at[0]) - float64(i)/asked }
	third := len(at) / 3
	i, j := 0, len(at)-1
	for n := range third {
		if late(n) < late(i) {
			i = n
		}
		if last := len(at) - 1 - n; late(last) < late(j) {
			j = last
		}
	}
	return at[i], at[j]
}

// between is how many came after from, up to a time.
func (p *Packets) between(from, to int64) int {
	n := 0
	for _, t := range p.Arrived {
		if t > from && t <= to {
			n++
		}
	}
	return n
}
