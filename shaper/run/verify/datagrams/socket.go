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
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// socketBuffer is the size of each socket's buffer in bytes. A window fits, with the memory that the kernel adds to
// each packet.
const socketBuffer = 256 << 20

// open opens the two sockets of a stream.
func (r *Runner) open(s verify.Stream) (*flow, error) {
	f := &flow{Stream: s, tag: r.tag, start: r.start, buf: make([]byte, s.Burst*s.Size)}
	r.tag++
	var err error
	src, srcAddr := r.nic(s.Src)
	dst, dstAddr := r.nic(s.Dst)
	if f.to, err = netns.ListenUDP(dst.Namespace, dstAddr); err != nil {
		return nil, err
	}
	if f.from, err = netns.DialUDP(src.Namespace, srcAddr, f.to.LocalAddr().(*net.UDPAddr)); err != nil {
		return nil, errors.Join(err, f.to.Close())
	}
	options := []option{{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer}}
	if s.Burst > 1 {
		options = append(options, option{"UDP_SEGMENT", unix.SOL_UDP, unix.UDP_SEGMENT, s.Size})
	}
	err = errors.Join(setOptions(f.from, options...), setOptions(f.to,
		option{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer},
		option{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
		option{"UDP_GRO", unix.SOL_UDP, unix.UDP_GRO, 1}))
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// nic returns the node of NIC n and the NIC's address.
func (r *Runner) nic(n int) (*netns.Node, netip.Addr) {
	node := &r.plan.Nodes[r.fabric.NodeOfNIC(n)]
	return node, node.NICs[n%len(node.NICs)].Addr4
}

type option struct {
	name              string
	level, opt, value int
}

func setOptions(c *net.UDPConn, options ...option) error {
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

// parseControl parses the control messages of a read: when the data arrived at the NIC, in ns of the wall clock, or 0
// if unknown. If the data is several datagrams (GRO), size is the bytes of each but the last, otherwise 0.
func parseControl(control []byte) (arrived int64, size int) {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
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
		control = rest
	}
	return arrived, size
}
