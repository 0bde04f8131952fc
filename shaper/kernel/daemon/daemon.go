// SPDX-License-Identifier: Apache-2.0

// Package daemon is the process that runs a fabric of the kernel datapath. It creates the namespaces, starts the
// shaper, applies changes of links, and removes everything when the fabric is taken down. It is the only process that
// needs privileges for that: other processes request changes through the fabric's file.
//
// Start and CleanUp start a daemon and end the work of one, for the commands that bring fabrics up and take them down.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/sockets"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap/ports"
)

// The daemon's periods.
const (
	followEvery = 20 * time.Millisecond  // it checks whether the fabric has changed or is down
	countEvery  = 100 * time.Millisecond // it updates the counters in the fabric's file
	orphanEvery = time.Second            // it looks whether anybody is left who can use the fabric
)

// Plan returns the plan of the fabric called name in the folder dir.
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

// Run creates the fabric in file, calls ready, and serves the fabric until it is taken down or ctx is done. Then it
// removes everything except the fabric's file, which it marks as taken down.
func Run(ctx context.Context, dir *state.Dir, file *state.File, ready func()) (err error) {
	if err := file.Serve(); err != nil {
		return err
	}
	fab, err := fabricfile.Read(file)
	if err != nil {
		return err
	}
	p, err := Plan(dir.Path, fab, file.Name())
	if err != nil {
		return err
	}
	if name := nodes.FindExisting(p); name != "" {
		file.TakeDown() // nothing else: the namespaces are another fabric's
		return fmt.Errorf(
			"network namespace %s exists already: if a fabric left it, `ddlemu gc` removes it, otherwise give the "+
				"fabric another name", name)
	}
	defer func() {
		file.TakeDown()
		err = errors.Join(err, Remove(dir, p))
	}()
	if err := dir.WriteHosts(file.Name(), p.Hosts()); err != nil {
		return err
	}
	if err := nodes.Create(ctx, p, nodeOptions(fab)); err != nil {
		return err
	}
	w := nodes.Network{File: file, Fabric: fab, Plan: p}
	s, kind, err := shapers.Start(fab.Config.Shaper, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	file.Event("shaper " + kind)
	file.SetFollowed(0, true)
	t := file.Fixed().Transport
	hub := tap.NewHub(tapOf(s, w), func(err error) { file.Event(fmt.Sprintf("capture: %v", err)) })
	server, err := sockets.Serve(dir.DaemonPath(file.Name()), sockets.Options{
		Plan: p, Owner: dir.UID(), SendBuffer: int(t.SendBuffer), Window: int(t.Window), Other: hub.Serve,
	})
	if err != nil {
		return err
	}
	defer func() {
		hub.Close()
		err = errors.Join(err, server.Close())
	}()
	ready()
	return serve(ctx, file, s)
}

// tapOf returns where captures read packets: the shaper's eBPF programs, or a packet socket if it has none.
func tapOf(s shapers.Shaper, w nodes.Network) tap.Source {
	if t := s.Tap(); t != nil {
		return t
	}
	return ports.NewSource(w)
}

// Remove removes all of the fabric of p except its file: namespaces, hosts file and socket of the daemon. It works for
// a fabric whose daemon was killed too.
func Remove(dir *state.Dir, p *netns.Plan) error {
	err := nodes.Remove(p)
	for _, path := range []string{dir.HostsPath(p.Fabric), dir.DaemonPath(p.Fabric)} {
		if e := os.Remove(path); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Bytes of the headers of IPv4 and TCP, and of TCP's timestamp option.
const (
	tcpHeader  = 20 + 20
	timestamps = 12
)

// nodeOptions returns the settings of the fabric's nodes: the MTU of its links, unsegmented packets (GSO) of at most
// one segment of the link model, and TCP with the headers and buffers of its transport.
func nodeOptions(f *fabric.Fabric) nodes.Options {
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

// invalidateJobs marks all jobs INVALID, because the links differ from the fabric's file. If isNew, it also records the
// cause as an event of the fabric.
func invalidateJobs(file *state.File, err error, isNew bool) {
	if isNew {
		file.Event(fmt.Sprintf("a change could not be put into force: %v", err))
	}
	for _, j := range file.Jobs() {
		j.Invalidate(state.NotShaped)
	}
}

// isOrphaned reports whether the command that made the fabric for its own job was killed, and no rank of it is left.
// Fabrics that a user brought up are kept.
func isOrphaned(file *state.File) bool {
	return strings.HasPrefix(file.Name(), state.JobPrefix) && !file.InUse() && file.LiveRanks() == 0
}

// orphanWatch finds out whether a fabric is orphaned.
type orphanWatch struct {
	looked   time.Time
	orphaned bool
}

// found looks every orphanEvery, and reports whether the fabric was orphaned twice: a rank may have been about to join.
func (w *orphanWatch) found(file *state.File) bool {
	if time.Since(w.looked) < orphanEvery {
		return false
	}
	was := w.orphaned
	w.looked, w.orphaned = time.Now(), isOrphaned(file)
	return was && w.orphaned
}

// serve applies changes of the fabric's file and updates its counters until the fabric is taken down, it is orphaned or
// ctx is done.
func serve(ctx context.Context, file *state.File, s shapers.Shaper) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	// A change may have come while the shaper started, so Follow is called at least once.
	changes, counted, again, failed := file.Changes(), time.Now(), true, false
	orphan := orphanWatch{looked: time.Now()}
	for !file.Down() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// Follow is called twice for each change: the file counts a change before its parameters are in force.
		if c := file.Changes(); c != changes || again {
			changes, again = c, c != changes
			err := s.Follow()
			if err != nil {
				invalidateJobs(file, err, !failed)
			}
			// After a failure, it is called again until it succeeds.
			failed, again = err != nil, again || err != nil
			if err != nil || !again {
				file.SetFollowed(changes, err == nil)
			}
		}
		if orphan.found(file) {
			return nil
		}
		if time.Since(counted) >= countEvery {
			counted = time.Now()
			ended := file.AwaitingSnapshot()
			if err := s.Count(); err != nil {
				return fmt.Errorf("read counters: %w", err)
			}
			file.TakeEndSnapshots(ended)
			if file.Removed() {
				return nil // nobody can mark the file as taken down any more
			}
		}
	}
	return s.Count()
}
