// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/kernel/bpf"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Shaper is htb or netem: trees on both sides of the kernel's own bridge. Its methods
// are called by one goroutine.
type Shaper struct {
	nodes.Network
	senders   *Senders
	receivers *receivers
	programs  *bpf.Programs // nil where the qdiscs count and lose
	single    single
}

// StartHTB starts the shaper htb: rates, queues and equal shares by qdiscs, loss and
// counters by BPF, no latency.
func StartHTB(w nodes.Network) (*Shaper, error) {
	s, err := start(w, htbQueue)
	if err != nil {
		return nil, err
	}
	if s.programs, err = bpf.Load(w, false); err != nil {
		return nil, err
	}
	return s, nil
}

func start(w nodes.Network, queue func(port, link link.Spec) (qdisc, error)) (*Shaper, error) {
	hops := w.File.Hops()
	s := &Shaper{Network: w}
	var err error
	if s.senders, err = NewSenders(w.Fabric, w.Plan, hops); err != nil {
		return nil, err
	}
	if s.receivers, err = newReceivers(w.Fabric, w.Plan, hops, queue); err != nil {
		return nil, err
	}
	if err := s.single.follow(w, hops); err != nil {
		return nil, err
	}
	if err := nodes.ConnectBridge(w.Plan); err != nil {
		return nil, err
	}
	return s, nil
}

// htbQueue is the queue of a link that adds nothing but its rate.
func htbQueue(port, l link.Spec) (qdisc, error) {
	if err := CheckHTB(l); err != nil {
		return qdisc{}, err
	}
	return bfifo(bound(port)), nil
}

// CheckHTB is nil if the shaper htb can do what a link asks for, or what it cannot.
func CheckHTB(l link.Spec) error {
	if l.Latency != 0 || l.Jitter.Kind != link.NoJitter && l.Jitter.Value != 0 {
		what := fmt.Sprintf("latency of %v", l.Latency)
		if l.Latency == 0 {
			what = fmt.Sprintf("jitter of %v", l.Jitter.Value)
		}
		return fmt.Errorf("%w: htb delays nothing, and a %s is asked for: bring the fabric up with --shaper wire", ErrUnavailable, what)
	}
	return nil
}

// Follow puts changed parameters into force.
func (s *Shaper) Follow() error {
	hops := s.File.Hops()
	errs := []error{s.single.follow(s.Network, hops), s.senders.Follow(hops), s.receivers.follow(hops)}
	if s.programs != nil {
		errs = append(errs, s.programs.Follow())
	}
	return errors.Join(errs...)
}

// Count brings the counters in the fabric's file up to date.
func (s *Shaper) Count() error {
	if s.programs != nil {
		// These come before the queues, so what a queue drops they cannot see.
		drop := func(hop int, drops uint64) { s.File.Count(hop, link.Counters{Drops: drops}) }
		return errors.Join(s.programs.Count(), s.receivers.countDrops(drop))
	}
	hops := s.File.Hops()
	add := func(hop int, bytes, packets, drops uint64) {
		s.File.Count(hop, counters(hops[hop].Spec, s.Fabric.TimeScale(), bytes, packets, drops))
	}
	return errors.Join(s.senders.count(add), s.receivers.count(add))
}

// counters is what a hop has carried by the kernel's count of frames. The payload is
// taken to be what is behind the headers that s states.
func counters(s link.Spec, timeScale int, bytes, packets, drops uint64) link.Counters {
	headers := packets * uint64(ethernet+s.Header)
	c := link.Counters{
		Wire:     bytes + packets*uint64(s.Framing) - min(packets*ethernet, bytes),
		Bytes:    bytes - min(bytes, headers),
		Segments: packets, Drops: drops,
	}
	if p, err := link.NewParams(s, timeScale); err == nil && p.NsDen != 0 {
		c.BusyNs = int64(float64(c.Wire)*float64(p.NsNum)/float64(p.NsDen)) + int64(packets)
	}
	return c
}

// Close ends the programs. All else goes with the namespaces.
func (s *Shaper) Close() error {
	if s.programs == nil {
		return nil
	}
	return s.programs.Close()
}
