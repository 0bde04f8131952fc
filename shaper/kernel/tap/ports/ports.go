// SPDX-License-Identifier: Apache-2.0

// Package ports reads packets at the ports of a fabric's switch by a packet socket (AF_PACKET), for shapers that have
// no eBPF programs. It sees the packets as the nodes send them, before the shaper: which of them the shaper drops, and
// when the others arrive, it does not see.
package ports

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// Source is a tap.Source at the ports of a switch.
type Source struct{ network nodes.Network }

// NewSource returns the source of the fabric of w.
func NewSource(w nodes.Network) *Source { return &Source{w} }

// Kind is the kind of a packet socket.
func (*Source) Kind() tap.Kind { return tap.Socket }

const (
	// bufferSize is the size of the socket's buffer in bytes: for packets that arrive while the daemon does not run.
	bufferSize = 32 << 20
	pollEvery  = 10 * time.Millisecond
	etherLen   = 14
)

// Open opens the socket in the namespace of the switch.
func (s *Source) Open(snap int) (tap.Reader, error) {
	r := &reader{fabric: s.network.Fabric, nics: map[int]int{}}
	if err := r.SetSnap(snap); err != nil {
		return nil, err
	}
	err := netns.Do(s.network.Plan.Switch, func() error {
		for _, n := range s.network.Plan.Nodes {
			for _, nic := range n.NICs {
				i, err := net.InterfaceByName(nic.Port)
				if err != nil {
					return fmt.Errorf("find port %s: %w", nic.Port, err)
				}
				r.nics[i.Index] = nic.Number
			}
		}
		return r.open()
	})
	if err != nil {
		return nil, fmt.Errorf("open a packet socket on the switch: %w", err)
	}
	return r, nil
}

// reader is the open socket.
type reader struct {
	file *os.File
	conn interface {
		Read(func(uintptr) bool) error
	}
	fabric *fabric.Fabric
	nics   map[int]int // by interface index
	snap   atomic.Int32
	missed uint64
	clock  int64 // CLOCK_MONOTONIC less CLOCK_REALTIME, ns
	buffer [tap.MaxSnap]byte
	oob    [128]byte
}

// open opens the socket in the thread's namespace.
func (r *reader) open() error {
	// Without a protocol, no packet arrives before the options are set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	r.file = os.NewFile(uintptr(fd), "packets")
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"PACKET_IGNORE_OUTGOING", unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
		{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferSize},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return errors.Join(fmt.Errorf("set %s: %w", o.name, err), r.file.Close())
		}
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all}); err != nil {
		return errors.Join(fmt.Errorf("bind: %w", err), r.file.Close())
	}
	raw, err := r.file.SyscallConn()
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	r.conn, r.clock = raw, state.Now()-time.Now().UnixNano()
	return nil
}

// Read reads a packet that a node sends over a link.
func (r *reader) Read(to *tap.Record) error {
	for {
		if err := r.file.SetReadDeadline(time.Now().Add(pollEvery)); err != nil {
			return fmt.Errorf("read packets: %w", err)
		}
		var n, oobn int
		var from unix.Sockaddr
		var err error
		werr := r.conn.Read(func(fd uintptr) bool {
			n, oobn, _, from, err = unix.Recvmsg(int(fd), r.buffer[:r.snap.Load()], r.oob[:],
				unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case errors.Is(werr, os.ErrDeadlineExceeded):
			return tap.ErrNone
		case werr != nil || err != nil:
			return fmt.Errorf("read packets: %w", errors.Join(werr, err))
		}
		if r.describe(to, n, from, r.oob[:oobn]) {
			return nil
		}
	}
}

// describe fills the record of a packet. It returns false if no link carries the packet. A broadcast is on the first
// link of its NIC.
func (r *reader) describe(to *tap.Record, length int, from unix.Sockaddr, oob []byte) bool {
	at, ok := from.(*unix.SockaddrLinklayer)
	if !ok || length < etherLen {
		return false
	}
	src, ok := r.nics[at.Ifindex]
	if !ok {
		return false
	}
	dst := netns.NICOfMAC(r.buffer[:6])
	if r.buffer[0]&1 == 1 {
		dst = r.anyPeer(src)
	}
	if dst < 0 || dst >= r.fabric.NICs() || r.fabric.NodeOfNIC(dst) == r.fabric.NodeOfNIC(src) {
		return false
	}
	*to = tap.Record{Enqueued: r.arrival(oob), Hop: uint32(r.fabric.Link(src, dst)), Length: uint32(length),
		Fate: tap.Seen, Data: r.buffer[:min(length, int(r.snap.Load()))]}
	return true
}

// anyPeer is the first NIC of another node.
func (r *reader) anyPeer(src int) int {
	for n := range r.fabric.NICs() {
		if r.fabric.NodeOfNIC(n) != r.fabric.NodeOfNIC(src) {
			return n
		}
	}
	return -1
}

// arrival is when the packet came, by the kernel's time stamp.
func (r *reader) arrival(oob []byte) int64 {
	all, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range all {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
				s, ns := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
				return int64(s)*int64(time.Second) + int64(ns) + r.clock
			}
		}
	}
	return state.Now()
}

// Missed returns how many packets did not fit into the socket's buffer. Their links are not known.
func (r *reader) Missed() (map[uint32]uint64, error) {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var st *unix.TpacketStats
	if cerr := raw.Control(func(fd uintptr) {
		st, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	}); cerr != nil || err != nil {
		return nil, fmt.Errorf("read the packet socket's counters: %w", errors.Join(cerr, err))
	}
	r.missed += uint64(st.Drops) // reading clears it
	return map[uint32]uint64{tap.NoHop: r.missed}, nil
}

// SetSnap changes how many bytes of each packet are read. The addresses at its begin are always needed.
func (r *reader) SetSnap(snap int) error {
	r.snap.Store(int32(max(snap, etherLen)))
	return nil
}

// Close closes the socket.
func (r *reader) Close() error { return r.file.Close() }
