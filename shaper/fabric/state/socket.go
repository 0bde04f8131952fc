// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DialSocket connects to a unix socket of packets in a folder of fabrics of user uid.
func DialSocket(dir string, uid int, name string) (c *net.UnixConn, err error) {
	err = InDir(dir, uid, func(short string) (err error) {
		c, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(short, name)})
		return err
	})
	return c, err
}

// PeerUser is the user ID of the process at the other end of a unix socket.
func PeerUser(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred,
			err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil {
		return -1, cerr
	}
	if err != nil {
		return -1, fmt.Errorf("read the peer's user: %w", err)
	}
	return int(cred.Uid), nil
}

// OneDescriptor returns the descriptor that came with a message, by its control data. It
// fails unless there is exactly one; then no descriptor stays open.
func OneDescriptor(oob []byte) (fd int, err error) {
	fds, err := Descriptors(oob, 1)
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// Descriptors returns the descriptors that came with a message, by its control data. It fails
// unless there are 1 to most of them; then no descriptor stays open.
func Descriptors(oob []byte, most int) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return nil, errors.New("the message carries no descriptor")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) == 0 || len(fds) > most {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("the message carries %d descriptors, not 1 to %d", len(fds), most)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds, nil
}
