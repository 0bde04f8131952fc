// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// answerTimeout is how long a client waits for the daemon. The daemon makes a socket in well under a millisecond, but a
// request may wait behind clients that send nothing.
const answerTimeout = 2 * requestTimeout

// Open requests a socket from the daemon of the fabric called name in the folder dir. It returns the descriptor, which
// is non-blocking and close-on-exec, and the NIC's address, to which the caller binds it. Safe for concurrent use.
func Open(dir, name string, r Request) (fd int, addr netip.Addr, err error) {
	fd, addr, err = open(dir, name, r)
	if err != nil {
		return -1, netip.Addr{}, fmt.Errorf("get a socket on NIC %d from the daemon of fabric %s: %w", r.NIC, name, err)
	}
	return fd, addr, nil
}

// Ask sends a request of another kind than for a socket to a daemon, see Options.Other. It returns nil if the daemon
// has accepted it.
func Ask(c *net.UnixConn, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	b := make([]byte, answerHeader+maxRefusal)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	a, err := parseAnswer(b[:n])
	if err == nil && a.refusal != "" {
		err = errors.New(a.refusal)
	}
	return err
}

func open(dir, name string, r Request) (int, netip.Addr, error) {
	c, err := state.DialSocket(dir, os.Getuid(), state.DaemonSocket(name))
	if err != nil {
		return -1, netip.Addr{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := c.Write(r.marshal()); err != nil {
		return -1, netip.Addr{}, err
	}
	b, oob := make([]byte, answerHeader+maxRefusal), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	a, err := parseAnswer(b[:n])
	switch {
	case err != nil:
		return -1, netip.Addr{}, err
	case a.refusal != "":
		return -1, netip.Addr{}, errors.New(a.refusal)
	case flags&unix.MSG_CTRUNC != 0:
		return -1, netip.Addr{}, errors.New("this process has no file descriptor left: raise its limit (ulimit -n)")
	}
	fd, err := state.OneDescriptor(oob[:oobn])
	return fd, a.addr, err
}
