// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// glooEnv names the abstract Unix socket at which a rank says that it uses gloo
// (cuda/torch/ddlemu_torch/_gloo.py).
const glooEnv = "DDLEMU_TORCH_GLOO"

// errGloo is the error of a job of PyTorch whose messages did not go through NCCL.
var errGloo = fmt.Errorf("your job used gloo: %w: its messages crossed no emulated link: add --torch-alias gloo, "+
	"and NCCL carries them", errNoRank)

// errGlooDirect is the error of a job that has made gloo's class itself.
var errGlooDirect = fmt.Errorf("your job used gloo: %w: the program made ProcessGroupGloo itself, which --torch-alias "+
	"does not reach, and its messages crossed no emulated link: make the group with "+
	"ddlemu_torch.create_group(store, rank, size, timeout), and NCCL carries them", errNoRank)

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

// noRank returns why no rank took part. It reads what ranks have said, and waits for nothing: on a busy host a deadline
// could pass before the first look.
func (l *glooListener) noRank() error {
	why := errNoNCCL
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return why
	}
	_ = raw.Read(func(fd uintptr) bool {
		said := make([]byte, 16)
		for n, err := unix.Read(int(fd), said); err == nil && n > 0; n, err = unix.Read(int(fd), said) {
			if string(said[:n]) == "direct" {
				why = errGlooDirect
				return true
			}
			why = errGloo
		}
		return true
	})
	return why
}

func (l *glooListener) close() { _ = l.conn.Close() }
