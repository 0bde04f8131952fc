// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/internal/bpf"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// EDT is the shaper edt (earliest departure time): BPF programs compute when each packet leaves, and fq sends it at
// that time. Its methods are called by one goroutine.
type EDT struct {
	nodes.Network
	programs    *bpf.Programs
	participant *state.Participant // of the job that stands for all traffic; nil if lateness is not recorded
	segmenter   segmenter
}

// StartEDT starts the shaper edt on w.
func StartEDT(w nodes.Network) (_ *EDT, err error) {
	e := &EDT{Network: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	for _, n := range w.Plan.Nodes {
		for _, nic := range n.NICs {
			if err := errors.Join(addFQ(n.Namespace, nic.Name), addFQ(w.Plan.Switch, nic.Port)); err != nil {
				return nil, err
			}
		}
	}
	if e.programs, err = bpf.Load(w, true); err != nil {
		return nil, err
	}
	if err := e.segmenter.follow(w, w.File.Hops()); err != nil {
		return nil, err
	}
	if err := e.join(); err != nil {
		return nil, err
	}
	// The bridge forwards broadcasts. The BPF programs forward everything else from port to port.
	return e, nodes.ConnectBridge(w.Plan)
}

// Attributes of fq (linux/pkt_sched.h).
const (
	fqPacketLimit = 1
	fqFlowLimit   = 2
	fqTimerSlack  = 13
	fqHorizon     = 14
)

// addFQ adds an fq to an interface. It sends each packet at the packet's departure time. Its limits are so high that it
// drops nothing, and that no latency is beyond its horizon.
func addFQ(ns, dev string) error {
	h, err := nodes.OpenNetlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s of %s: %w", dev, ns, err)
	}
	var opt []byte
	for _, a := range []struct {
		kind  int
		value uint32
	}{{fqPacketLimit, manyPackets}, {fqFlowLimit, manyPackets}, {fqTimerSlack, 1}, {fqHorizon, math.MaxUint32}} {
		opt = append(opt, nl.NewRtAttr(a.kind, binary.NativeEndian.AppendUint32(nil, a.value)).Serialize()...)
	}
	err = netns.Do(ns, func() error {
		return qdisc{"fq", opt}.set(l.Attrs().Index, netlink.HANDLE_ROOT, rootHandle, false)
	})
	if err != nil {
		return fmt.Errorf("%s of %s: %w", dev, ns, err)
	}
	return nil
}

// join joins the job that stands for all traffic. Lateness is recorded there.
func (e *EDT) join() error {
	if !e.programs.RecordsLateness() {
		e.File.Event("edt: lateness is not recorded: the fabric has too many links")
		return nil
	}
	job, err := e.File.JoinJob(state.TrafficKey)
	if err != nil {
		return err
	}
	e.participant, err = e.File.Join(job, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank})
	return err
}

// Follow applies changed parameters. Packets that have a departure time keep it.
func (e *EDT) Follow() error {
	return errors.Join(e.segmenter.follow(e.Network, e.File.Hops()), e.programs.Follow())
}

// Count updates the counters in the fabric's file.
func (e *EDT) Count() error {
	err := e.programs.Count()
	if e.participant == nil || err != nil {
		return err
	}
	return e.programs.RecordLateness(e.participant.Job().LinkStats())
}

// Tap is the tap in the programs.
func (e *EDT) Tap() tap.Source { return e.programs.Tap() }

// Close detaches the programs. The qdiscs are deleted with the namespaces.
func (e *EDT) Close() error {
	if e.participant != nil {
		e.participant.Leave()
	}
	if e.programs == nil {
		return nil
	}
	return e.programs.Close()
}
