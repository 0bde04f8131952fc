// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/kernel/internal/bpf"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// Shaper is htb or netem: HTBs on the NICs of the nodes and on the ports of the switch, which a bridge connects. Its
// methods are called by one goroutine.
type Shaper struct {
	nodes.Network
	senders   *Senders
	receivers *receivers
	programs  *bpf.Programs // for htb: they lose and count packets. netem does that itself
	segmenter segmenter
}

// StartHTB starts the shaper htb on w. Qdiscs enforce rates, queue limits and equal shares. BPF programs lose packets
// and count. There is no latency.
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

// start adds the qdiscs and the bridge. queue returns the queue in front of a port for the packets of a link.
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
	if err := s.segmenter.follow(w, hops); err != nil {
		return nil, err
	}
	if err := nodes.ConnectBridge(w.Plan); err != nil {
		return nil, err
	}
	return s, nil
}

// htbQueue returns the queue in front of a port for the packets of link l.
func htbQueue(port, l link.Spec) (qdisc, error) {
	if err := CheckHTB(l); err != nil {
		return qdisc{}, err
	}
	return bfifo(queueLimit(port)), nil
}

// CheckHTB returns an error if l has a property that the shaper htb does not support: latency or jitter.
func CheckHTB(l link.Spec) error {
	if l.Latency != 0 || l.Jitter.Kind != link.NoJitter && l.Jitter.Value != 0 {
		what := fmt.Sprintf("latency of %v", l.Latency)
		if l.Latency == 0 {
			what = fmt.Sprintf("jitter of %v", l.Jitter.Value)
		}
		return fmt.Errorf("%w: htb delays nothing, and a %s is asked for: bring the fabric up with --set shaper=wire",
			ErrUnavailable, what)
	}
	return nil
}

// Follow applies changed parameters.
func (s *Shaper) Follow() error {
	hops := s.File.Hops()
	errs := []error{s.segmenter.follow(s.Network, hops), s.senders.Follow(hops), s.receivers.follow(hops)}
	if s.programs != nil {
		errs = append(errs, s.programs.Follow())
	}
	return errors.Join(errs...)
}

// Count updates the counters in the fabric's file.
func (s *Shaper) Count() error {
	if s.programs != nil {
		// A packet passes the programs before the queues, so the programs do not count the queues' drops.
		drop := func(hop int, drops uint64) { s.File.Count(hop, link.Counters{Drops: drops}) }
		return errors.Join(s.programs.Count(), s.receivers.countDrops(drop))
	}
	hops := s.File.Hops()
	add := func(hop int, bytes, packets, drops uint64) {
		s.File.Count(hop, counters(hops[hop].Spec, s.Fabric.TimeScale(), bytes, packets, drops))
	}
	return errors.Join(s.senders.count(add), s.receivers.count(add))
}

// counters converts the kernel's count of frames to a hop's counters. It assumes that every packet has the headers that
// s states.
func counters(s link.Spec, timeScale int, bytes, packets, drops uint64) link.Counters {
	headers := packets * uint64(ethernet+s.Header)
	c := link.Counters{
		LineBytes: bytes + packets*uint64(s.Framing) - min(packets*ethernet, bytes),
		Bytes:     bytes - min(bytes, headers),
		Segments:  packets, Drops: drops,
	}
	if p, err := link.NewParams(s, timeScale); err == nil && p.NsDen != 0 {
		c.BusyNs = int64(float64(c.LineBytes)*float64(p.NsNum)/float64(p.NsDen)) + int64(packets)
	}
	return c
}

// Tap is the tap in the programs; nil for netem, which has none.
func (s *Shaper) Tap() tap.Source {
	if s.programs == nil {
		return nil
	}
	return s.programs.Tap()
}

// Close detaches the programs. The qdiscs are deleted with the namespaces.
func (s *Shaper) Close() error {
	if s.programs == nil {
		return nil
	}
	return s.programs.Close()
}
