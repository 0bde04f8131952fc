// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// answerTime is how long the daemon has to answer. It makes a socket in well under a
// millisecond, but on a crowded host, or behind clients that say nothing, it takes its
// time.
const answerTime = 2 * patience

// Open asks the daemon of fabric name in the folder dir for a socket, and returns
// its descriptor, which is non-blocking and closed on exec, and the address of the
// NIC, for the caller to bind it to. Safe for concurrent use.
func Open(dir, name string, r Request) (fd int, addr netip.Addr, err error) {
	fd, addr, err = open(dir, name, r)
	if err != nil {
		return -1, netip.Addr{}, fmt.Errorf("get a socket on NIC %d from the daemon of fabric %s: %w", r.NIC, name, err)
	}
	return fd, addr, nil
}

func open(dir, name string, r Request) (int, netip.Addr, error) {
	c, err := state.DialSocket(dir, state.DaemonSocket(name))
	if err != nil {
		return -1, netip.Addr{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(answerTime))
	if _, err := c.Write(r.put()); err != nil {
		return -1, netip.Addr{}, err
	}
	b, oob := make([]byte, answerHeader+maxText), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	a, err := parseAnswer(b[:n])
	switch {
	case err != nil:
		return -1, netip.Addr{}, err
	case a.why != "":
		return -1, netip.Addr{}, errors.New(a.why)
	case flags&unix.MSG_CTRUNC != 0:
		return -1, netip.Addr{}, errors.New("this process has no file descriptor left: raise its limit (ulimit -n)")
	}
	fd, err := state.OneDescriptor(oob[:oobn])
	return fd, a.addr, err
}
