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
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/temporary"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Floor is the time that a packet takes over a link without latency and without rate limit. This shaper cannot
// provide a shorter latency.
type Floor struct {
	P50, P99 time.Duration
	Packets  uint64 // measured
}

// The packets that MeasureFloor sends. The gap is so long that each packet has to wake the thread.
const (
	floorPackets = 500
	floorGap     = time.Millisecond
	floorSubnet  = "10.77.0.0/16" // of namespaces that are not connected to the host
	floorPrefix  = "ddlemu-floor-"
	floorFabric  = "floor"
)

// MeasureFloor measures the floor on this host under its present load. It creates a fabric of two nodes and removes
// it. It takes one second and needs the privileges of the kernel datapath.
func MeasureFloor(ctx context.Context) (Floor, error) {
	f, err := measureFloor(ctx)
	if err != nil {
		return f, fmt.Errorf("measure the floor of the shaper wire: %w", err)
	}
	return f, nil
}

func measureFloor(ctx context.Context) (f Floor, err error) {
	folder, lock, err := temporary.Make(floorPrefix)
	if err != nil {
		return Floor{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder), lock.Close()) }()
	fab, err := newFloorFabric()
	if err != nil {
		return Floor{}, err
	}
	file, err := newFloorFile(folder, fab)
	if err != nil {
		return Floor{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p, err := netns.NewPlan(folder, file.Name(), fab.Config.Nodes, fab.Config.NICsPerNode,
		netip.MustParsePrefix(floorSubnet))
	if err != nil {
		return Floor{}, err
	}
	defer func() { err = errors.Join(err, nodes.Remove(p)) }()
	if err := nodes.Create(ctx, p, nodes.Options{MTU: fab.Config.Link.MTU}); err != nil {
		return Floor{}, err
	}
	w, err := Start(file, fab, p)
	if err != nil {
		return Floor{}, err
	}
	if err := errors.Join(sendDatagrams(ctx, p), w.Close()); err != nil {
		return Floor{}, err
	}
	return floorOf(&w.stats[fab.Link(0, 1)])
}

// LeftFloors returns the folders of measurements that were killed. Each has the file of a fabric, whose namespaces may
// be left too.
func LeftFloors() ([]string, error) {
	return temporary.Left(floorPrefix, temporary.IsFile(floorFabric+state.Suffix))
}

// newFloorFabric returns a fabric of two nodes whose links have neither latency nor a rate limit.
func newFloorFabric() (*fabric.Fabric, error) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		return nil, err
	}
	c.Link.Bandwidth, c.Link.Latency = units.Unlimited, 0
	c.Nodes, c.NICsPerNode, c.Datapath, c.Subnet = 2, 1, configs.Kernel, floorSubnet
	return fabric.New(c)
}

func newFloorFile(folder string, fab *fabric.Fabric) (*state.File, error) {
	dir, err := state.OpenDir(folder, os.Getuid(), false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	spec, err := fabricfile.Describe(fab, floorFabric)
	if err != nil {
		return nil, err
	}
	return dir.Create(spec)
}

// sendDatagrams sends packets from node 0 to node 1 at intervals of floorGap.
func sendDatagrams(ctx context.Context, p *netns.Plan) error {
	to, err := netns.ListenUDP(p.Nodes[1].Namespace, p.Nodes[1].NICs[0].Addr4)
	if err != nil {
		return err
	}
	defer to.Close()
	from, err := netns.DialUDP(p.Nodes[0].Namespace, p.Nodes[0].NICs[0].Addr4, to.LocalAddr().(*net.UDPAddr))
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
	time.Sleep(10 * floorGap) // the last packets arrive
	return nil
}

// floorOf returns the quantiles of the times that a link's packets took.
func floorOf(c *state.LinkStats) (Floor, error) {
	k := &c.Size[0]
	var h histogram
	for i, n := range k.Late {
		h[i].Store(n)
	}
	f := Floor{}
	f.P50, f.Packets = h.quantile(0.5)
	f.P99, _ = h.quantile(0.99)
	if f.Packets < floorPackets/2 {
		return f, fmt.Errorf("only %d of %d packets arrived: look for other load on this host, and try again",
			f.Packets, floorPackets)
	}
	return f, nil
}
