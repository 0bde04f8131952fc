// SPDX-License-Identifier: Apache-2.0

// Package measure measures the links of a fabric of the kernel datapath for tests: rate, delay and loss. It can also
// bring a fabric up without the ddlemu command.
package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
)

// Running is a fabric that is up. Those that Start did not bring up have only Fabric and Plan.
type Running struct {
	nodes.Network
	dir    *state.Dir
	Shaper shapers.Shaper
}

// Start brings up a fabric called name in the folder dir and calls start to start its shaper. The fabric has the
// profile eth1, changed by change.
func Start(dir, name string, change func(c *configs.Fabric),
	start func(nodes.Network) (shapers.Shaper, error)) (_ *Running, err error) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		return nil, err
	}
	c.Datapath, c.Subnet = configs.Kernel, "10.77.0.0/16"
	change(c)
	fab, err := fabric.New(c)
	if err != nil {
		return nil, err
	}
	m := &Running{Network: nodes.Network{Fabric: fab}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.dir, err = state.OpenDir(dir, os.Getuid(), true); err != nil {
		return nil, err
	}
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		return nil, err
	}
	if m.File, err = m.dir.Create(spec); err != nil {
		return nil, err
	}
	if m.Plan, err = netns.NewPlan(dir, name, c.Nodes, c.NICsPerNode, netip.MustParsePrefix(c.Subnet)); err != nil {
		return nil, err
	}
	p, err := link.NewParams(fabric.Spec(c.Link), fab.TimeScale())
	if err != nil {
		return nil, err
	}
	if err := nodes.Create(context.Background(), m.Plan,
		nodes.Options{MTU: c.Link.MTU, MaxGSO: int(p.Segment)}); err != nil {
		return nil, err
	}
	s, err := start(m.Network)
	if err != nil {
		return nil, err
	}
	m.Shaper = s
	return m, nil
}

// Close removes all that Start created.
func (m *Running) Close() error {
	var errs []error
	if m.Shaper != nil {
		errs = append(errs, m.Shaper.Close())
	}
	if m.Plan != nil {
		errs = append(errs, nodes.Remove(m.Plan))
	}
	if m.File != nil {
		m.File.TakeDown()
		errs = append(errs, m.File.Close())
	}
	if m.dir != nil {
		errs = append(errs, m.dir.Close())
	}
	return errors.Join(errs...)
}

// Shape changes all links and applies the change.
func (m *Running) Shape(p configs.LinkPatch) error {
	if _, err := fabricfile.Shape(m.File, "*", p); err != nil {
		return err
	}
	return m.Shaper.Follow()
}

// in calls f on a thread in the namespace of a node, with the node's address.
func (m *Running) in(node int, f func(addr net.IP) error) error {
	n := m.Plan.Nodes[node]
	return netns.Do(n.Namespace, func() error { return f(n.NICs[0].Addr4.AsSlice()) })
}

// Flow is a TCP connection over which one node sends as fast as it can.
type Flow struct {
	from, to net.Conn
}

// StartFlow starts a flow. The caller closes it.
func (m *Running) StartFlow(src, dst int) (*Flow, error) {
	var l *net.TCPListener
	if err := m.in(dst,
		func(addr net.IP) (err error) {
			l,
				err = net.ListenTCP("tcp4", &net.TCPAddr{IP: addr})
			return err
		}); err != nil {
		return nil, err
	}
	defer l.Close()
	f := &Flow{}
	err := m.in(src, func(net.IP) (err error) {
		f.from, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
		return err
	})
	if err != nil {
		return nil, err
	}
	if f.to, err = l.Accept(); err != nil {
		f.from.Close()
		return nil, err
	}
	go func() {
		// Write fails after Close.
		for block := make([]byte, 64<<10); err == nil; {
			_, err = f.from.Write(block)
		}
	}()
	return f, nil
}

// Close ends the flow.
func (f *Flow) Close() error { return errors.Join(f.from.Close(), f.to.Close()) }

// Rate receives for a time and returns the rate in payload bits per second. What has come before does not count: after a
// stop of the receiver that would be too high a rate.
func (f *Flow) Rate(d time.Duration) (float64, error) {
	block := make([]byte, 256<<10)
	start, err := f.discard(block, d)
	if err != nil {
		return 0, err
	}
	bytes := 0
	for time.Since(start) < d {
		n, err := f.to.Read(block)
		if err != nil {
			return 0, fmt.Errorf("receive: %w", err)
		}
		bytes += n
	}
	return 8 * float64(bytes) / time.Since(start).Seconds(), nil
}

// discard reads until all that has come is read, at most for a time. It returns when the last read began: what comes
// later, also while this program is stopped, is not more than the rate times the time since then.
func (f *Flow) discard(block []byte, most time.Duration) (last time.Time, err error) {
	for start := time.Now(); ; {
		last = time.Now()
		n, err := f.to.Read(block)
		if err != nil {
			return last, fmt.Errorf("receive: %w", err)
		}
		if n < len(block) || time.Since(start) > most {
			return last, nil
		}
	}
}

// Payload returns the rate of payload in bits per second that TCP over IPv4, without timestamps, has at a line rate.
func (m *Running) Payload(rate uint64) float64 {
	l := m.Fabric.Config.Link
	return float64(rate) * float64(l.MTU-l.Header) / float64(l.MTU+l.Framing)
}

// Datagrams sends n datagrams of size bytes at intervals of gap. It returns the time of flight of each that arrives, in
// order of arrival.
func (m *Running) Datagrams(src, dst, n, size int, gap time.Duration) ([]time.Duration, error) {
	from, to := &m.Plan.Nodes[src], &m.Plan.Nodes[dst]
	receiver, err := netns.ListenUDP(to.Namespace, to.NICs[0].Addr4)
	if err != nil {
		return nil, err
	}
	defer receiver.Close()
	sender, err := netns.DialUDP(from.Namespace, from.NICs[0].Addr4, receiver.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	return measure(sender, receiver, n, size, gap)
}
