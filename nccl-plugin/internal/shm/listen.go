// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

const handleMagic = 0x316c646868656c64 // "dlehhdl1"

// NewEndpoint listens for peers in the fabric's folder, and watches them. It joins the fabric's
// virtual clock, or what there is of the time of its node on a real one, which a process does once. paths is nil if
// all flows between two NICs have the path of the fabric's file.
func NewEndpoint(f *state.File, me *state.Participant, r state.Rank, paths FlowPath) (*Endpoint, error) {
	clock, err := joinClock(f, me, r)
	if err != nil {
		return nil, err
	}
	node, err := joinNode(f, me, r)
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(f, me, r, paths, clock, true)
	if err != nil {
		leaveClock(clock, node, me.Job())
		return nil, err
	}
	e.node = node
	return e, nil
}

// Another makes an endpoint of another participant of this process. The process remains one
// part of the clock: the ends of both are its own. It is closed before e.
func (e *Endpoint) Another(me *state.Participant, r state.Rank) (*Endpoint, error) {
	return newEndpoint(e.Fabric, me, r, e.paths, e.clock, false)
}

func newEndpoint(f *state.File, me *state.Participant, r state.Rank, paths FlowPath, clock *virtualClock,
	joined bool) (*Endpoint, error) {
	e := &Endpoint{paths: paths, clock: clock, joined: joined}
	e.Endpoint = transport.New(f, me, r, handleMagic, e.dial)
	err := inDir(f.Dir(), func(dir string) (err error) {
		path := filepath.Join(dir, state.SocketName(f.Name(), me.Slot()))
		os.Remove(path)
		if e.sock, err = net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path}); err != nil {
			return err
		}
		e.sock.SetUnlinkOnClose(false)
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if e.sock != nil {
			e.sock.Close()
		}
		return nil, fmt.Errorf("listen for peers in %s: %w", f.Dir(), err)
	}
	e.Running.Go(func() { transport.Serve(e.Done, e.sock.AcceptUnix, e.answer, refuse) })
	e.Watch(e.CheckPeers)
	return e, nil
}
