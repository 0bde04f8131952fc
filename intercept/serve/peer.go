// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// established is the kernel's TCP_ESTABLISHED, of include/net/tcp_states.h.
const established = 1

// userOf returns the user of the process at the other end of a TCP connection on this host. ok is false unless the
// kernel is certain about it:
//
//   - The other end is connected. The kernel has forgotten whose a socket was that is closed (in TIME_WAIT, or before
//     Linux 6.17 since its process has closed it), and says user 0, which would be root.
//   - It has an inode, so a process holds it.
//   - This end is still connected after the kernel has answered. The kernel finds the other end by its addresses. As
//     long as this end is connected, no other socket can have had them.
func userOf(c net.Conn) (uid int, ok bool) {
	local, remote := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	peer, err := askKernel(remote, local)
	if err != nil || !peer.isHeld(remote, local) || !isConnected(c) {
		return 0, false
	}
	return int(peer.uid), true
}

// isHeld reports whether a socket has these addresses, is connected, and is held by a process.
func (s *socket) isHeld(local, remote netip.AddrPort) bool {
	return s.local == local && s.remote == remote && s.state == established && s.inode != 0
}

// addressOf is the address of a TCP socket, of IPv4 also if the socket is one of IPv6.
func addressOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	addr := tcp.AddrPort()
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
}

// isConnected reports whether neither end of a connection has closed it.
func isConnected(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	var ierr error
	if err := raw.Control(func(fd uintptr) {
		info,
			ierr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return false
	}
	return ierr == nil && info.State == established
}

// socket is what the kernel says about a TCP socket.
type socket struct {
	local, remote netip.AddrPort
	state         uint8
	uid, inode    uint32
}

// askKernel asks the kernel (sock_diag, inet_diag) for the TCP socket with these addresses.
func askKernel(local, remote netip.AddrPort) (*socket, error) {
	if !local.IsValid() || !remote.IsValid() || local.Addr().Is4() != remote.Addr().Is4() {
		return nil, errors.New("no two addresses of TCP on this host")
	}
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0) // without NLM_F_DUMP, which would match ports only
	req.AddRawData(diagRequest(local, remote))
	answers, err := req.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the kernel for a socket: %w", err)
	case len(answers) != 1:
		return nil, fmt.Errorf("the kernel knows %d such sockets", len(answers))
	}
	return parseSocket(answers[0])
}

// Layout of struct inet_diag_req_v2 and struct inet_diag_msg, of include/uapi/linux/inet_diag.h. Both have a struct
// inet_diag_sockid: ports and addresses in network order, then the interface and the cookie.
const (
	diagRequestSize = 8 + diagIDSize
	diagAnswerSize  = 4 + diagIDSize + 20
	diagIDSize      = 48
	diagCookie      = 40 // offset in the ID
	diagUID         = 4 + diagIDSize + 12
	diagInode       = 4 + diagIDSize + 16
)

func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, diagRequestSize)
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if local.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	id := b[8:]
	binary.BigEndian.PutUint16(id[0:], local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[diagCookie:], ^uint64(0)) // INET_DIAG_NOCOOKIE twice: none is known
	return b
}

func parseSocket(b []byte) (*socket, error) {
	if len(b) < diagAnswerSize {
		return nil, fmt.Errorf("the kernel's answer has %d bytes, want %d", len(b), diagAnswerSize)
	}
	id := b[4:]
	address := func(at int) netip.Addr {
		if b[0] == unix.AF_INET {
			return netip.AddrFrom4([4]byte(id[at:]))
		}
		return netip.AddrFrom16([16]byte(id[at:])).Unmap()
	}
	return &socket{
		local:  netip.AddrPortFrom(address(4), binary.BigEndian.Uint16(id[0:])),
		remote: netip.AddrPortFrom(address(20), binary.BigEndian.Uint16(id[2:])),
		state:  b[1],
		uid:    binary.NativeEndian.Uint32(b[diagUID:]),
		inode:  binary.NativeEndian.Uint32(b[diagInode:]),
	}, nil
}
