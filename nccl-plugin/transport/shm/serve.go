// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// errNoDescriptor is told to a peer whose connection cannot be taken.
var errNoDescriptor = errors.New("it has no file descriptor left: raise its limit (ulimit -n)")

// serve answers the peers that connect. It keeps a descriptor in reserve, by which it
// can tell a peer when there is no other: the peer would wait.
func (e *Endpoint) serve() {
	reserve := spare()
	for {
		c, err := e.sock.AcceptUnix()
		if reserve >= 0 && (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) {
			unix.Close(reserve)
			c, err = e.sock.AcceptUnix()
			if reserve = spare(); err == nil && reserve < 0 {
				refuse(c, errNoDescriptor)
				reserve = spare()
				continue
			}
		}
		if err == nil {
			go e.answer(c)
			continue
		}
		select {
		case <-e.done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if reserve < 0 {
			reserve = spare()
		}
	}
}

// spare opens a descriptor that is good for nothing else, -1 if there is none.
func spare() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// refuse answers without having taken the descriptor that comes with the request.
func refuse(c *net.UnixConn, why error) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Read(make([]byte, answerSize)); err == nil {
		c.Write([]byte(why.Error()))
	}
}

func (e *Endpoint) answer(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(dialTimeout))
	answer := "ok"
	if err := e.take(c); err != nil {
		answer = err.Error()
	}
	c.Write([]byte(answer[:min(len(answer), answerSize)]))
}
