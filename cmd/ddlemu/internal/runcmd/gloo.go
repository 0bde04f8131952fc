// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// glooEnv names the abstract Unix socket at which a rank says that its default group is of gloo
// (cuda/torch/ddlemu_torch/_gloo.py).
const glooEnv = "DDLEMU_TORCH_GLOO"

// errGloo is the error of a job of PyTorch whose messages did not go through NCCL.
var errGloo = fmt.Errorf("your job used gloo: %w: its messages crossed no emulated link: add --torch-alias gloo, "+
	"and NCCL carries them", errNoRank)

// glooListener hears whether a job used gloo. The kernel keeps what ranks say until somebody looks.
type glooListener struct{ conn *net.UnixConn }

// listenForGloo makes a socket. The caller closes it.
func listenForGloo() (*glooListener, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // the kernel selects a name
	if err != nil {
		return nil, fmt.Errorf("listen for ranks that use gloo: %w", err)
	}
	return &glooListener{conn}, nil
}

// variable leads ranks to the socket.
func (l *glooListener) variable() string {
	return glooEnv + "=" + strings.TrimPrefix(l.conn.LocalAddr().String(), "@")
}

// used says whether a rank has said so. It reads what has arrived, and waits for nothing: on a busy host a deadline
// could pass before the first look.
func (l *glooListener) used() (said bool) {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Read(int(fd), make([]byte, 1))
		said = err == nil && n > 0
		return true
	})
	return said && err == nil
}

func (l *glooListener) close() { _ = l.conn.Close() }
