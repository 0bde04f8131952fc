// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/ddlemu/ddlemu/shaper/kernel/bpf"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// EDT is the shaper edt: BPF computes when each packet is to leave, and fq sends it
// then. Its methods are called by one goroutine.
type EDT struct {
	nodes.Network
	programs *bpf.Programs
	part     *state.Participant // in the job that stands for all traffic; nil if lateness is not recorded
	single   single
}

// StartEDT starts the shaper edt.
func StartEDT(w nodes.Network) (_ *EDT, err error) {
	e := &EDT{Network: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	for _, n := range w.Plan.Nodes {
		for _, nic := range n.NICs {
			if err := errors.Join(keepTimes(n.Namespace, nic.Name), keepTimes(w.Plan.Switch, nic.Port)); err != nil {
				return nil, err
			}
		}
	}
	if e.programs, err = bpf.Load(w, true); err != nil {
		return nil, err
	}
	if err := e.single.follow(w, w.File.Hops()); err != nil {
		return nil, err
	}
	if err := e.join(); err != nil {
		return nil, err
	}
	// For broadcasts; all else goes from port to port by BPF.
	return e, nodes.ConnectBridge(w.Plan)
}

// Attributes of fq (linux/pkt_sched.h).
const (
	fqPacketLimit = 1
	fqFlowLimit   = 2
	fqTimerSlack  = 13
	fqHorizon     = 14
)

// keepTimes puts an fq at an interface: it sends each packet at the time that it
// carries. It holds as many as TCP lets there be, for as long as any link is.
func keepTimes(ns, dev string) error {
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
		return qdisc{"fq", opt}.set(l.Attrs().Index, netlink.HANDLE_ROOT, root, false)
	})
	if err != nil {
		return fmt.Errorf("%s of %s: %w", dev, ns, err)
	}
	return nil
}

// join makes the job that stands for all traffic.
func (e *EDT) join() error {
	if !e.programs.Verifies() {
		e.File.Event("edt: latency not verified: too many links to record each")
		return nil
	}
	job, err := e.File.JoinJob(state.TrafficKey)
	if err != nil {
		return err
	}
	e.part, err = e.File.Join(job, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank})
	return err
}

// Follow puts changed parameters into force. Packets under way keep their times.
func (e *EDT) Follow() error {
	return errors.Join(e.single.follow(e.Network, e.File.Hops()), e.programs.Follow())
}

// Count brings the counters in the fabric's file up to date.
func (e *EDT) Count() error {
	err := e.programs.Count()
	if e.part == nil || err != nil {
		return err
	}
	return e.programs.Judge(e.part.Job().Cells())
}

// Close ends the programs. All else goes with the namespaces.
func (e *EDT) Close() error {
	if e.part != nil {
		e.part.Leave()
	}
	if e.programs == nil {
		return nil
	}
	return e.programs.Close()
}
