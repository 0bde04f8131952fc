// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

const (
	// socketBuffer is the size of the socket's buffer in bytes. It holds what arrives while the thread does not run: at
	// least 100 ms at 10 Gb/s.
	socketBuffer = 256 << 20
	batchSize    = 32 // packets that one system call reads at most
	controlSize  = 96 // bytes of control messages: a timestamp of 32, auxiliary data of 40
)

// socket is a packet socket (AF_PACKET) on all ports of a switch. It reads the packets that the nodes send, but not
// those that are written to the nodes.
type socket struct {
	fd    int
	nics  map[int32]int               // by interface index
	to    []unix.RawSockaddrLinklayer // address for writing, by NIC
	slots [batchSize]*packet          // read fills their buffers
	names [batchSize]unix.RawSockaddrLinklayer
	ctl   [batchSize][controlSize]byte
	iovs  [batchSize]unix.Iovec
	msgs  [batchSize]mmsghdr
}

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   uint32
}

// openSocket opens the socket in the namespace of p's switch.
func openSocket(p *netns.Plan) (*socket, error) {
	s := &socket{fd: -1, nics: map[int32]int{}}
	h, err := nodes.OpenNetlink(p.Switch)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the switch's ports: %w", err)
	}
	byName := map[string]netlink.Link{}
	for _, l := range links {
		byName[l.Attrs().Name] = l
	}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			l := byName[nic.Port]
			if l == nil {
				return nil, fmt.Errorf("the switch has no port %s", nic.Port)
			}
			index := int32(l.Attrs().Index)
			s.nics[index] = nic.Number
			s.to = append(s.to, unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Ifindex: index, Halen: 6})
		}
	}
	if err := netns.Do(p.Switch, s.open); err != nil {
		return nil, fmt.Errorf("open a packet socket on the switch: %w", err)
	}
	for i := range s.msgs {
		h := &s.msgs[i].hdr
		h.Name, h.Iov, h.Control = (*byte)(unsafe.Pointer(&s.names[i])), &s.iovs[i], &s.ctl[i][0]
		h.SetIovlen(1)
	}
	return s, nil
}

// open opens the socket in the thread's namespace.
func (s *socket) open() error {
	// Without a protocol, no packet arrives before the options are set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"PACKET_VNET_HDR", unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{"PACKET_IGNORE_OUTGOING", unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{"PACKET_AUXDATA", unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
		{"PACKET_QDISC_BYPASS", unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1},
		{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
		{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer},
		{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			unix.Close(fd)
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	all := [2]byte{}
	binary.BigEndian.PutUint16(all[:], unix.ETH_P_ALL)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(all[:])}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("bind: %w", err)
	}
	s.fd = fd
	return nil
}

// read reads the packets that have arrived, at most a batch, and returns their number. Packet i is in slot i. The
// caller may keep it by setting the slot to nil.
func (s *socket) read(o *pool) (int, error) {
	for i := range s.msgs {
		if s.slots[i] == nil {
			if s.slots[i] = o.get(largeBuffer); s.slots[i] == nil {
				return 0, nil // the packets in flight use all memory
			}
			s.iovs[i].Base = &s.slots[i].buf[0]
			s.iovs[i].SetLen(largeBuffer)
		}
		h := &s.msgs[i].hdr
		h.Namelen, h.Flags = unix.SizeofSockaddrLinklayer, 0
		h.SetControllen(controlSize)
	}
	// The call does not block, so it need not tell Go's scheduler, as unix.Syscall does.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[0])), batchSize,
		unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	}
	return 0, fmt.Errorf("read packets: %w", errno)
}

// control parses the control messages of message i: when it arrived, in ns of the wall clock, or 0 if unknown, and
// whether it had a VLAN tag, which the kernel has removed from the data.
func (s *socket) control(i int) (arrived int64, tagged bool) {
	ctl := s.ctl[i][:s.msgs[i].hdr.Controllen]
	for len(ctl) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&ctl[0]))
		n := int(h.Len)
		if n < unix.SizeofCmsghdr || n > len(ctl) {
			break
		}
		data := unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0))
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS &&
			n >= unix.CmsgLen(int(unsafe.Sizeof(unix.Timespec{}))):
			arrived = (*unix.Timespec)(data).Nano()
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA &&
			n >= unix.CmsgLen(int(unsafe.Sizeof(unix.TpacketAuxdata{}))):
			tagged = (*unix.TpacketAuxdata)(data).Status&unix.TP_STATUS_VLAN_VALID != 0
		}
		ctl = ctl[min(unix.CmsgSpace(n-unix.CmsgLen(0)), len(ctl)):]
	}
	return arrived, tagged
}

// message returns the NIC that sent message i of the last read, or -1 if the message is not from a NIC, and its
// length in bytes, or 0 if it did not fit the buffer.
func (s *socket) message(i int) (nic, n int) {
	m := &s.msgs[i]
	nic, ok := s.nics[s.names[i].Ifindex]
	if !ok {
		return -1, 0
	}
	if m.hdr.Flags&unix.MSG_TRUNC != 0 {
		return nic, 0
	}
	return nic, int(m.n)
}

// write writes a packet to its destination.
func (s *socket) write(p *packet) error {
	to := &s.to[p.dst]
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&p.buf[0])),
		uintptr(len(p.buf)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(to)), unix.SizeofSockaddrLinklayer)
	runtime.KeepAlive(p)
	if errno != 0 {
		return errno
	}
	return nil
}

// overruns returns how many packets were dropped since the last call because the socket's buffer was full.
func (s *socket) overruns() (uint64, error) {
	st, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("read the packet socket's counters: %w", err)
	}
	return uint64(st.Drops), nil
}
