// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Floor is how long a packet takes that is asked to take no time: a latency below
// that cannot be had from this shaper.
type Floor struct {
	P50, P99 time.Duration
	Packets  uint64 // measured
}

// What Floor sends: single packets, so that each one has to wake up the thread.
const (
	floorPackets = 500
	floorGap     = time.Millisecond
	floorSubnet  = "10.77.0.0/16" // seen in namespaces of its own alone
)

// MeasureFloor measures the floor on this host, now, in two namespaces of its own that
// are gone afterwards. It takes a second, and needs the rights that a fabric of the
// kernel datapath needs.
func MeasureFloor(ctx context.Context) (f Floor, err error) {
	folder, err := os.MkdirTemp("", "ddlemu-floor-")
	if err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fab, err := unshaped()
	if err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	file, err := floorFile(folder, fab)
	if err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p, err := netns.NewPlan(folder, file.Name(), fab.Config.Nodes, fab.Config.NICsPerNode, netip.MustParsePrefix(floorSubnet))
	if err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	defer func() { err = errors.Join(err, nodes.Remove(p)) }()
	if err := nodes.Create(ctx, p, nodes.Options{MTU: fab.Config.Link.MTU}); err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	w, err := Start(file, fab, p)
	if err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	if err := errors.Join(datagrams(ctx, p), w.Close()); err != nil {
		return Floor{}, fmt.Errorf("measure the wire: %w", err)
	}
	return floorOf(&w.cells[fab.Link(0, 1)])
}

// unshaped is a fabric of two nodes that asks for nothing.
func unshaped() (*fabric.Fabric, error) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		return nil, err
	}
	c.Link.Bandwidth, c.Link.Latency = units.Unlimited, 0
	c.Nodes, c.NICsPerNode, c.Datapath, c.Subnet = 2, 1, configs.Kernel, floorSubnet
	return fabric.New(c)
}

func floorFile(folder string, fab *fabric.Fabric) (*state.File, error) {
	dir, err := state.OpenDir(folder, os.Getuid(), false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	spec, err := live.Spec(fab, "floor")
	if err != nil {
		return nil, err
	}
	return dir.Create(spec)
}

// datagrams sends packets from node 0 to node 1, one by one.
func datagrams(ctx context.Context, p *netns.Plan) error {
	var to, from *net.UDPConn
	err := netns.Do(p.Nodes[1].Namespace, func() (err error) {
		to, err = net.ListenUDP("udp4", &net.UDPAddr{IP: p.Nodes[1].NICs[0].Addr4.AsSlice()})
		return err
	})
	if err != nil {
		return err
	}
	defer to.Close()
	err = netns.Do(p.Nodes[0].Namespace, func() (err error) {
		from, err = net.DialUDP("udp4", nil, to.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		return err
	}
	defer from.Close()
	tick := time.NewTicker(floorGap)
	defer tick.Stop()
	for range floorPackets {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := from.Write(make([]byte, 64)); err != nil {
			return err
		}
	}
	time.Sleep(10 * floorGap) // for the last ones
	return nil
}

// floorOf is what the packets of a link took.
func floorOf(c *state.Cell) (Floor, error) {
	k := &c.Size[0]
	var h histogram
	for i, n := range k.Late {
		h[i].Store(n)
	}
	f := Floor{}
	f.P50, f.Packets = h.quantile(0.5)
	f.P99, _ = h.quantile(0.99)
	if f.Packets < floorPackets/2 {
		return f, fmt.Errorf("measure the wire: only %d of %d packets came through: look for other load on this host, and try again", f.Packets, floorPackets)
	}
	return f, nil
}
