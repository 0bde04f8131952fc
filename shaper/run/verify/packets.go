// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs"
)

// LeastDatagram is the minimum payload of a Stream's datagrams in bytes: each carries its number.
const LeastDatagram = 8

// Stream is a series of datagrams from one NIC to another.
type Stream struct {
	Src, Dst int           // NICs of different nodes
	Size     int           // payload of each in bytes, LeastDatagram or more
	Burst    int           // datagrams passed to the kernel at once, 1 or more
	Window   int           // maximum of datagrams in flight
	Spacing  time.Duration // minimum real time between two bursts
	Most     int           // maximum number of datagrams; 0 for no limit
}

// Packets has the times of a stream's datagrams, by number: ns of one monotonic clock, real time.
type Packets struct {
	Sent    []int64 // before the call that sends it
	Arrived []int64 // at the receiving NIC; 0 if it never arrived
	Seen    []int64 // by this process; 0 if never
}

// PacketRunner sends datagrams between the nodes of a fabric on the kernel datapath.
type PacketRunner interface {
	Watch
	// Send sends all streams at once, for d or until each has sent Most datagrams, and then waits for datagrams in
	// flight, at most tail.
	Send(ctx context.Context, streams []Stream, d, tail time.Duration) ([]Packets, error)
	// Late describes how late the shaper was with the last streams; "" if it was in time or does not record that.
	Late() string
}

// packets is the traffic of a PacketRunner: datagrams without congestion control. The number in flight is limited to
// what fills the path and a short queue.
type packets struct {
	*measurement
	sender  PacketRunner
	size    int // payload of a datagram that fills a packet, in bytes
	payload int // payload of a packet in the link model, in bytes
}

const (
	ipv4UDP      = 20 + 8 // bytes of headers
	maxDatagrams = 64     // per system call (Linux: UDP_MAX_SEGMENTS)
	maxDatagram  = 65535 - ipv4UDP

	// senderQueueNs is the time for which the sender's queue lasts while this process is not running, maxSenderQueue
	// the largest queue in bytes, and unlimitedSenderQueue the queue in bytes if no rate is asked for.
	senderQueueNs        = 150e6
	maxSenderQueue       = 32 << 20
	unlimitedSenderQueue = 4 << 20

	minPackets = 256 // of a stream, for a rate

	minPacketStream = 250 * time.Millisecond
	// Of packets: the maximum sum of the rates of paths that are measured at once, see groupRate.
	packetGroupRate = 0.05
)

// MeasurePackets measures the fabric on the kernel datapath that m describes. run sends the packets.
func MeasurePackets(ctx context.Context, m *Model, run PacketRunner, o Options) (*Report, error) {
	l := m.fab.Config.Link
	x := &measurement{Model: m, Options: o, run: run, least: minPacketStream, parallelRate: packetGroupRate,
		tries: maxTries}
	p := &packets{x, run, l.MTU - ipv4UDP, l.MTU - l.Header}
	x.how = p
	r, err := x.measure(ctx)
	if err == nil {
		p.noteTraits()
	}
	return r, err
}

// stream is a stream that fills a path with rate, in bytes of payload per ns.
func (x *packets) stream(path *pathSpec, rate float64) Stream {
	s := Stream{Src: path.src, Dst: path.dst, Size: x.size, Burst: x.burst(path)}
	window := float64(unlimitedSenderQueue)
	if !math.IsInf(rate, 1) {
		window = rate*float64(x.longest(path)) + min(rate*senderQueueNs, maxSenderQueue)
	}
	s.Window = max(int(window)/x.payload, 2*s.Burst)
	return s
}

// burst is the number of datagrams that are passed to the kernel at once. With their headers they must be smaller than
// a segment, because a NIC moves a segment as a whole.
func (x *packets) burst(path *pathSpec) int {
	const ethernet = 14
	return max(min((path.segment-1-ipv4UDP-ethernet)/x.size, maxDatagrams, maxDatagram/x.size), 1)
}

// longest is an upper bound in ns, real time, of the time that all but a few packets are in flight, queueing excluded.
func (m *Model) longest(path *pathSpec) int64 {
	return int64(path.latency)*int64(m.scale) + m.spread(path)
}

// tail is the time after the last packet was sent within which all must arrive.
func (x *packets) tail(path *pathSpec, s *Stream, rate float64) time.Duration {
	d := 200*time.Millisecond + time.Duration(2*x.longest(path))
	if !math.IsInf(rate, 1) {
		d += time.Duration(2 * float64(s.Window*x.payload) / rate)
	}
	return d
}

// rateTime is the time until a stream has sent minPackets packets.
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
	traces, err := x.sender.Send(ctx, streams, d, tail)
	if err != nil {
		return err
	}
	for i := range paths {
		path := &paths[i]
		l, f := x.link(path)
		l.Rate = x.rate(path, &traces[i])
		f.rate(path.name, &l.Rate)
		loss, bursts := x.losses(path, &traces[i])
		if !x.drops() { // the model does not tell what a full queue drops
			f.loss(path.name, loss, bursts)
		}
		if loss.Got > 0 || loss.Asked > 0 {
			l.Loss = loss
		}
		if l.Rate.Model < 0.99*l.Rate.Asked {
			x.belowRate++
		}
	}
	return nil
}

func (x *packets) rate(path *pathSpec, p *Packets) Rate {
	r := Rate{Limit: 100 * maxRateOff, Connections: 1, Message: x.payload, Messages: p.received()}
	model := x.carriedRate(path)
	r.Got = x.bps(p.rate(model/float64(x.payload)) * float64(x.payload))
	if math.IsInf(path.payload, 1) {
		return r
	}
	r.Asked, r.Model = x.bps(path.payload), x.bps(model)
	r.Error = deviation(r.Got, r.Model)
	return r
}

// carriedRate is the rate that a path carries if packets are sent as fast as possible, in bytes of payload per ns: each
// hop carries at most its capacity, and loses the fraction that it is asked to lose.
func (m *Model) carriedRate(path *pathSpec) float64 {
	rate := math.Inf(1)
	for _, hop := range path.hops {
		rate = min(rate, m.capacity(hop)) * (1 - configs.Loss(m.fab.Hops[hop].Spec.Loss).Mean())
	}
	return rate
}

// losses compares the lost datagrams with the losses asked for. bursts is the factor by which the variance of their
// number exceeds the variance of independent losses.
func (x *packets) losses(path *pathSpec, p *Packets) (l *Loss, bursts float64) {
	l, bursts = &Loss{Packets: uint64(len(p.Sent)), Got: uint64(len(p.Sent) - p.received())}, 1
	kept := 1.0
	for _, hop := range path.hops {
		spec := x.fab.Hops[hop].Spec.Loss
		kept *= 1 - configs.Loss(spec).Mean()
		bursts = max(bursts, cluster(spec))
	}
	l.Asked = float64(l.Packets) * (1 - kept)
	return l, bursts
}

// received is the number of datagrams that arrived.
func (p *Packets) received() int {
	n := 0
	for _, at := range p.Arrived {
		if at != 0 {
			n++
		}
	}
	return n
}

// rate is the number of datagrams that arrived per ns, without the first quarter, in which queues fill; 0 if too few
// arrived. asked is the expected rate.
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

// steady returns two of the sorted arrival times at, between which the rate is measured: the least late arrival of the
// first third and the least late of the last third, against arrivals at the expected rate per ns. Single late arrivals
// therefore do not lower the rate if later ones caught up.
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

// between is the number of arrivals after from, up to to.
func (p *Packets) between(from, to int64) int {
	n := 0
	for _, t := range p.Arrived {
		if t > from && t <= to {
			n++
		}
	}
	return n
}
