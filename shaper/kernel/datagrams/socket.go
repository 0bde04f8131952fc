// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/verify"
)

// buffer of each socket, in bytes: more than a window, with what the kernel counts on top.
const buffer = 256 << 20

// open opens the sockets of a stream on its nodes.
func (w *Runner) open(s verify.Stream) (*flow, error) {
	f := &flow{Stream: s, tag: w.tag, zero: w.zero, buf: make([]byte, s.Burst*s.Size)}
	w.tag++
	var err error
	if f.to, err = w.listen(s.Dst); err != nil {
		return nil, err
	}
	if f.from, err = w.dial(s.Src, f.to.LocalAddr().(*net.UDPAddr)); err != nil {
		return nil, errors.Join(err, f.to.Close())
	}
	options := []option{{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer}}
	if s.Burst > 1 {
		options = append(options, option{"UDP_SEGMENT", unix.SOL_UDP, unix.UDP_SEGMENT, s.Size})
	}
	err = errors.Join(set(f.from, options...), set(f.to,
		option{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer},
		option{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
		option{"UDP_GRO", unix.SOL_UDP, unix.UDP_GRO, 1}))
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (w *Runner) nic(n int) (*netns.Node, netip.Addr) {
	node := &w.plan.Nodes[w.fabric.NodeOfNIC(n)]
	return node, node.NICs[n%len(node.NICs)].Addr4
}

// listen opens a socket on the node of a NIC, with the NIC's address.
func (w *Runner) listen(nic int) (c *net.UDPConn, err error) {
	node, addr := w.nic(nic)
	err = netns.Do(node.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	return c, err
}

// dial opens one that sends to an address.
func (w *Runner) dial(nic int, to *net.UDPAddr) (c *net.UDPConn, err error) {
	node, addr := w.nic(nic)
	err = netns.Do(node.Namespace, func() (err error) {
		c, err = net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)), to)
		return err
	})
	return c, err
}

type option struct {
	name              string
	level, opt, value int
}

func set(c *net.UDPConn, options ...option) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var errs []error
	err = raw.Control(func(fd uintptr) {
		for _, o := range options {
			if err := unix.SetsockoptInt(int(fd), o.level, o.opt, o.value); err != nil {
				errs = append(errs, fmt.Errorf("set %s: %w", o.name, err))
			}
		}
	})
	return errors.Join(append(errs, err)...)
}

// read is what the kernel says beside a datagram: when it came to the NIC, in ns of the
// wall clock, 0 if it does not say, and, of several in one, the size of each but the last;
// 0 if it is one.
func read(notes []byte) (arrived int64, size int) {
	for len(notes) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(notes)
		if err != nil {
			break
		}
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(data) >= 16: // struct timespec
			word := binary.NativeEndian.Uint64
			arrived = int64(word(data))*1e9 + int64(word(data[8:]))
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			size = int(int32(binary.NativeEndian.Uint32(data)))
		}
		notes = rest
	}
	return arrived, size
}
