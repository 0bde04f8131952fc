// SPDX-License-Identifier: Apache-2.0

// Package measure brings up a fabric of the kernel datapath inside a test, and measures
// what its links do: rate, delay and loss. Nothing but tests uses it.
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
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Fabric is a fabric that is up, not yet shaped.
type Fabric struct {
	nodes.Network
	dir    *state.Dir
	Shaper shapers.Shaper
}

// Start brings up a fabric named name in the folder dir, of the profile eth1 after
// change, with its NICs not connected, and starts a shaper on it.
func Start(dir, name string, change func(c *configs.Fabric), start func(nodes.Network) (shapers.Shaper, error)) (_ *Fabric, err error) {
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
	t := &Fabric{Network: nodes.Network{Fabric: fab}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.dir, err = state.OpenDir(dir, os.Getuid(), true); err != nil {
		return nil, err
	}
	spec, err := live.Spec(fab, name)
	if err != nil {
		return nil, err
	}
	if t.File, err = t.dir.Create(spec); err != nil {
		return nil, err
	}
	if t.Plan, err = netns.NewPlan(dir, name, c.Nodes, c.NICsPerNode, netip.MustParsePrefix(c.Subnet)); err != nil {
		return nil, err
	}
	p, err := link.NewParams(fabric.Spec(c.Link), fab.TimeScale())
	if err != nil {
		return nil, err
	}
	if err := nodes.Create(context.Background(), t.Plan, nodes.Options{MTU: c.Link.MTU, MaxGSO: int(p.Segment)}); err != nil {
		return nil, err
	}
	s, err := start(t.Network)
	if err != nil {
		return nil, err
	}
	t.Shaper = s
	return t, nil
}

// Close removes all that Start made.
func (t *Fabric) Close() error {
	var errs []error
	if t.Shaper != nil {
		errs = append(errs, t.Shaper.Close())
	}
	if t.Plan != nil {
		errs = append(errs, nodes.Remove(t.Plan))
	}
	if t.File != nil {
		t.File.TakeDown()
		errs = append(errs, t.File.Close())
	}
	if t.dir != nil {
		errs = append(errs, t.dir.Close())
	}
	return errors.Join(errs...)
}

// Shape changes all links, and puts that into force.
func (t *Fabric) Shape(p configs.LinkPatch) error {
	if _, err := live.Shape(t.File, "*", p); err != nil {
		return err
	}
	return t.Shaper.Follow()
}

// in calls f on a thread inside of a node.
func (t *Fabric) in(node int, f func(own net.IP) error) error {
	n := t.Plan.Nodes[node]
	return netns.Do(n.Namespace, func() error { return f(n.NICs[0].Addr4.AsSlice()) })
}

// Flow is a TCP connection over which one node sends as fast as it can.
type Flow struct {
	from, to net.Conn
}

// StartFlow starts a flow. The caller closes it.
func (t *Fabric) StartFlow(src, dst int) (*Flow, error) {
	var l *net.TCPListener
	if err := t.in(dst, func(own net.IP) (err error) { l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: own}); return err }); err != nil {
		return nil, err
	}
	defer l.Close()
	f := &Flow{}
	err := t.in(src, func(net.IP) (err error) {
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
		// Until Close.
		for block := make([]byte, 64<<10); err == nil; {
			_, err = f.from.Write(block)
		}
	}()
	return f, nil
}

// Close ends the flow.
func (f *Flow) Close() error { return errors.Join(f.from.Close(), f.to.Close()) }

// Rate is what arrives in so much time, in payload bits per second.
func (f *Flow) Rate(d time.Duration) (float64, error) {
	bytes, start := 0, time.Now()
	for block := make([]byte, 256<<10); time.Since(start) < d; {
		n, err := f.to.Read(block)
		if err != nil {
			return 0, fmt.Errorf("receive: %w", err)
		}
		bytes += n
	}
	return 8 * float64(bytes) / time.Since(start).Seconds(), nil
}

// Payload is the rate in bits per second at which TCP over IPv4, without
// timestamps, carries payload at a line rate.
func (t *Fabric) Payload(rate uint64) float64 {
	l := t.Fabric.Config.Link
	return float64(rate) * float64(l.MTU-l.Header) / float64(l.MTU+l.Framing)
}

// Datagrams sends n datagrams of size bytes, gap apart, and returns how long each took
// that came, in the order in which they came.
func (t *Fabric) Datagrams(src, dst, n, size int, gap time.Duration) ([]time.Duration, error) {
	var to, from *net.UDPConn
	err := t.in(dst, func(own net.IP) (err error) { to, err = net.ListenUDP("udp4", &net.UDPAddr{IP: own}); return err })
	if err != nil {
		return nil, err
	}
	defer to.Close()
	err = t.in(src, func(net.IP) (err error) {
		from, err = net.DialUDP("udp4", nil, to.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	return measure(from, to, n, size, gap)
}
