// SPDX-License-Identifier: Apache-2.0

// Package daemon is the process that keeps a fabric of the kernel datapath: it makes
// the namespaces, shapes, follows changes, and removes everything when the fabric is
// taken down. It alone needs privileges; changes reach it through the fabric's file.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/sockets"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// How often the daemon looks whether the fabric has changed or is down, and brings
// its counters up to date.
const (
	followEvery = 20 * time.Millisecond
	countEvery  = 100 * time.Millisecond
)

// Plan is the plan of a fabric that is up in dir.
func Plan(dir string, f *fabric.Fabric, name string) (*netns.Plan, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find folder %s: %w", dir, err)
	}
	subnet, err := netip.ParsePrefix(f.Config.Subnet)
	if err != nil {
		return nil, fmt.Errorf("fabric %s has no subnet: %w", name, err)
	}
	return netns.NewPlan(abs, name, f.Config.Nodes, f.Config.NICsPerNode, subnet)
}

// Run makes what the fabric in file needs, calls ready, and keeps it until the
// fabric is taken down or ctx is done. It leaves nothing behind but the fabric's
// file, which it marks as taken down.
func Run(ctx context.Context, dir *state.Dir, file *state.File, ready func()) (err error) {
	if err := file.Serve(); err != nil {
		return err
	}
	fab, err := live.Fabric(file)
	if err != nil {
		return err
	}
	p, err := Plan(dir.Path, fab, file.Name())
	if err != nil {
		return err
	}
	if name := nodes.FindExisting(p); name != "" {
		file.TakeDown() // and nothing is removed that another one made
		return fmt.Errorf("network namespace %s is there already: if a fabric left it, `ddlemu gc` removes it, otherwise give the fabric another name", name)
	}
	defer func() {
		file.TakeDown()
		err = errors.Join(err, Remove(dir, p))
	}()
	if err := dir.WriteHosts(file.Name(), p.Hosts()); err != nil {
		return err
	}
	if err := nodes.Create(ctx, p, options(fab)); err != nil {
		return err
	}
	s, kind, err := shapers.Start(fab.Config.Shaper, nodes.Network{File: file, Fabric: fab, Plan: p})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	file.Event("shaper " + kind)
	file.SetFollowed(0, true)
	t := file.Fixed().Transport
	served, err := sockets.Serve(dir.DaemonPath(file.Name()), sockets.Options{Plan: p, Owner: dir.UID(), SendBuffer: int(t.SendBuffer), Window: int(t.Window)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, served.Close()) }()
	ready()
	return follow(ctx, file, s)
}

// Remove removes what the fabric of p has outside of its file, whoever made it.
func Remove(dir *state.Dir, p *netns.Plan) error {
	err := nodes.Remove(p)
	for _, path := range []string{dir.HostsPath(p.Fabric), dir.DaemonPath(p.Fabric)} {
		if e := os.Remove(path); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Bytes of the headers of IPv4 and TCP, and of TCP's timestamps in them.
const (
	tcpHeader  = 20 + 20
	timestamps = 12
)

// options are the NICs of a fabric: packets of the link's MTU, left whole up to one
// segment of the link model, and TCP with the headers and buffers of its transport.
func options(f *fabric.Fabric) nodes.Options {
	c := &f.Config
	o := nodes.Options{MTU: c.Link.MTU, Timestamps: c.Link.Header >= tcpHeader+timestamps}
	if c.Transport.Kind == configs.TCP {
		o.SendBuffer, o.Window = uint64(c.Transport.SendBuffer), uint64(c.Transport.Window)
	}
	p, err := link.NewParams(fabric.Spec(f.Config.Link), f.TimeScale())
	if err == nil && p.NsDen != 0 {
		o.MaxGSO = int(p.Segment)
	}
	return o
}

// notInForce says that the links are not what the fabric's file says, so that no job
// on it is VALID, and why if that is news.
func notInForce(file *state.File, err error, news bool) {
	if news {
		file.Event(fmt.Sprintf("a change could not be put into force: %v", err))
	}
	for _, j := range file.Jobs() {
		j.Invalidate(state.NotShaped)
	}
}

// follow keeps the shaper to what the fabric's file says.
func follow(ctx context.Context, file *state.File, s shapers.Shaper) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	// A change that came while the shaper started is made once more.
	changes, counted, again, failed := file.Changes(), time.Now(), true, false
	for !file.Down() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// Twice for each change: a hop counts it before it is in force.
		if c := file.Changes(); c != changes || again {
			changes, again = c, c != changes
			err := s.Follow()
			if err != nil {
				notInForce(file, err, !failed)
			}
			// It is tried again until it is in force, or changed once more.
			failed, again = err != nil, again || err != nil
			if err != nil || !again {
				file.SetFollowed(changes, err == nil)
			}
		}
		if time.Since(counted) >= countEvery {
			counted = time.Now()
			ended := file.Unmarked()
			if err := s.Count(); err != nil {
				return fmt.Errorf("read counters: %w", err)
			}
			file.MarkEnds(ended)
			if file.Removed() {
				return nil // nobody can take it down any more
			}
		}
	}
	return s.Count()
}
