// SPDX-License-Identifier: Apache-2.0

// Package join lets the ranks of a bench run in several containers of one host, which share only the folder of
// fabrics. The bench runs in the container that is node 0. In each of the others `ddlemu join` starts the ranks of
// one node, which the bench asks for. They speak by a unix socket in the folder. Over it the bench passes the pipes
// of each rank, so ranks in other containers answer as those beside the bench do.
package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// socketName is the bench's socket in the folder of fabrics, while it waits for nodes.
const socketName = "join.sock"

// Kinds of messages, and their senders.
const (
	hello   = "hello"   // a node: Node, Version
	welcome = "welcome" // the bench
	refused = "refused" // the bench, to hello: Text
	start   = "start"   // the bench, with the descriptors of the rank: Start, Rank, Args, Env
	started = "started" // a node: Start, PID, or Text if it could not
	kill    = "kill"    // the bench: Start
	exited  = "exited"  // a node: Start, Text
	ended   = "ended"   // the bench, as its last message: Text, "" if it has succeeded
)

// message is a packet of the socket. Which fields it has depends on the kind.
type message struct {
	Kind    string   `json:"kind"`
	Node    int      `json:"node,omitempty"`
	Version string   `json:"version,omitempty"`
	Rank    int      `json:"rank,omitempty"`
	Start   int      `json:"start,omitempty"` // which start of this node it is about, from 1: a rank may start again
	PID     int      `json:"pid,omitempty"`
	Args    []string `json:"args,omitempty"`
	Env     []string `json:"env,omitempty"`
	Text    string   `json:"text,omitempty"`
}

const (
	// mostBytes is the size of the largest message: Linux accepts no larger packet by default.
	mostBytes = 212992
	// mostFiles are the standard files of a rank, and its log.
	mostFiles = 4
)

// send sends a message with files, which stay open.
func send(c *net.UnixConn, m message, files ...*os.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(text, rights, nil); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// receive waits for the next message. The caller closes its files.
func receive(c *net.UnixConn) (m message, files []*os.File, err error) {
	text, rights := make([]byte, mostBytes), make([]byte, unix.CmsgSpace(mostFiles*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return m, nil, err
	}
	if oobn > 0 {
		fds, err := state.Descriptors(rights[:oobn], mostFiles)
		if err != nil {
			return m, nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "of a rank"))
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("the message is cut")
	} else {
		err = json.Unmarshal(text[:n], &m)
	}
	if err != nil {
		closeAll(files)
		return m, nil, fmt.Errorf("read a message: %w", err)
	}
	return m, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
