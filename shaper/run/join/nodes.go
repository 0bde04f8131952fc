// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// answerTimeout is how long a node may take for an answer that needs no work.
const answerTimeout = 10 * time.Second

// ErrLate is the error of a bench whose nodes, or of a node whose bench, did not come in time.
var ErrLate = errors.New("nobody came")

// Nodes are the nodes of a bench that have joined it. It is safe for concurrent use.
type Nodes struct{ nodes map[int]*node }

// node is a container that has joined.
type node struct {
	number int
	conn   *net.UnixConn
	gone   chan struct{} // closed when the node has gone

	mu       sync.Mutex
	starts   int
	children map[int]*child // by start
}

// child is a rank of a node. It is a [bench.Child].
type child struct {
	node       *node
	start, pid int
	answer     chan message // one, to start
	status     chan string  // one, when it has ended
}

// Await waits in the folder of fabrics until nodes 1 to last have joined, for the time wait at most. version is the
// version of this program, which the programs of the nodes must have too. waiting is called with the nodes it waits
// for, whenever they change.
func Await(ctx context.Context, dir *state.Dir, last int, version string, wait time.Duration,
	waiting func(string)) (*Nodes, error) {
	listener, err := listen(dir)
	if err != nil {
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	defer os.Remove(filepath.Join(dir.Path, socketName))
	defer listener.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, wait, ErrLate)
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	n := &Nodes{nodes: map[int]*node{}}
	for len(n.nodes) < last {
		waiting(n.missing(last))
		c, err := listener.AcceptUnix()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			if errors.Is(err, ErrLate) {
				err = fmt.Errorf("%w within %v to be %s: run `ddlemu join --node N` in another container, with the "+
					"same DDLEMU_DIR", err, wait, n.missing(last))
			}
			n.Close(err)
			return nil, err
		}
		n.admit(c, last, version)
	}
	return n, nil
}

// listen makes the socket. One that a killed bench has left is replaced.
func listen(dir *state.Dir) (l *net.UnixListener, err error) {
	if c, err := state.DialSocket(dir.Path, dir.UID(), socketName); err == nil {
		c.Close()
		return nil, fmt.Errorf("another bench waits for nodes in %s", dir.Path)
	} else if errors.Is(err, unix.ECONNREFUSED) {
		os.Remove(filepath.Join(dir.Path, socketName))
	}
	err = state.InDir(dir.Path, dir.UID(), func(short string) error {
		l, err = net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(short, socketName)})
		return err
	})
	if err == nil {
		l.SetUnlinkOnClose(false) // the short path is good only within InDir
	}
	return l, err
}

// missing names the nodes that have not joined yet.
func (n *Nodes) missing(last int) string {
	var names []string
	for i := 1; i <= last; i++ {
		if n.nodes[i] == nil {
			names = append(names, fmt.Sprintf("node%d", i))
		}
	}
	return strings.Join(names, ", ")
}

// admit reads which node has connected, and refuses a node that the bench cannot have.
func (n *Nodes) admit(c *net.UnixConn, last int, version string) {
	c.SetDeadline(time.Now().Add(answerTimeout))
	m, files, err := receive(c)
	closeAll(files)
	why := ""
	switch {
	case err != nil || m.Kind != hello: // it was asked only whether this bench is there
		c.Close()
		return
	case m.Version != version:
		why = fmt.Sprintf("it is ddlemu %s, and the bench is %s: use the same image", m.Version, version)
	case m.Node < 1 || m.Node > last:
		why = fmt.Sprintf("the bench has nodes 0 to %d, and runs on node 0 itself", last)
	case n.nodes[m.Node] != nil:
		why = "another container has joined as this node"
	}
	if why != "" {
		_ = send(c, message{Kind: refused, Text: why})
		c.Close()
		return
	}
	if send(c, message{Kind: welcome}) != nil {
		c.Close()
		return
	}
	c.SetDeadline(time.Time{})
	joined := &node{number: m.Node, conn: c, gone: make(chan struct{}), children: map[int]*child{}}
	n.nodes[m.Node] = joined
	go joined.listen()
}

// Starter returns what starts a rank on a node that has joined.
func (n *Nodes) Starter(number int) bench.Starter {
	return func(c bench.Command) (bench.Child, error) {
		joined := n.nodes[number]
		if joined == nil {
			return nil, fmt.Errorf("node %d has not joined", number)
		}
		return joined.start(c)
	}
}

// Close ends the connections. err is what the bench failed with.
func (n *Nodes) Close(err error) {
	m := message{Kind: ended}
	if err != nil {
		m.Text = err.Error()
	}
	for _, joined := range n.nodes {
		_ = send(joined.conn, m) // a node that has gone needs no answer
		joined.conn.Close()
	}
}

func (n *node) start(c bench.Command) (bench.Child, error) {
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	if c.Log != nil {
		files = append(files, c.Log)
	}
	k := n.add()
	m := message{Kind: start, Start: k.start, Rank: c.Rank, Args: c.Args, Env: c.Env}
	if err := send(n.conn, m, files...); err != nil {
		n.take(k.start)
		return nil, fmt.Errorf("node %d: %w", n.number, err)
	}
	return n.answered(k)
}

// answered waits for the node's answer to a start.
func (n *node) answered(k *child) (bench.Child, error) {
	var m message
	select {
	case m = <-k.answer:
	case <-n.gone:
		select {
		case m = <-k.answer: // the node has answered and left
		default:
			return nil, n.goneError()
		}
	case <-time.After(answerTimeout):
		n.take(k.start) // its answer comes too late
		k.Kill()
		return nil, fmt.Errorf("node %d does not answer", n.number)
	}
	if m.Text != "" {
		n.take(k.start)
		return nil, fmt.Errorf("node %d: %s", n.number, m.Text)
	}
	k.pid = m.PID
	return k, nil
}

// add adds a rank that is about to be started.
func (n *node) add() *child {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starts++
	k := &child{node: n, start: n.starts, answer: make(chan message, 1), status: make(chan string, 1)}
	n.children[k.start] = k
	return k
}

// take removes a rank and returns it, nil if nobody waits for it any more.
func (n *node) take(start int) *child {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.children[start]
	delete(n.children, start)
	return k
}

func (n *node) goneError() error {
	return fmt.Errorf("node %d has left: its `ddlemu join` has ended", n.number)
}

// listen passes on what the node says, until it has gone.
func (n *node) listen() {
	for {
		m, files, err := receive(n.conn)
		closeAll(files)
		if err != nil {
			break
		}
		switch m.Kind {
		case started:
			n.answer(m)
		case exited:
			n.end(m.Start, m.Text)
		}
	}
	close(n.gone)
	n.mu.Lock()
	starts := slices.Collect(maps.Keys(n.children))
	n.mu.Unlock()
	for _, start := range starts {
		n.end(start, n.goneError().Error())
	}
}

// answer passes an answer on to the caller that waits for it. One that comes too late is nobody's.
func (n *node) answer(m message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.children[m.Start]; k != nil {
		select {
		case k.answer <- m:
		default: // it has one already
		}
	}
}

// end tells a rank's status to the caller that waits for it.
func (n *node) end(start int, status string) {
	if k := n.take(start); k != nil {
		k.status <- status
	}
}

// PID is the number of the process in its container.
func (k *child) PID() int { return k.pid }

// Wait waits until the rank has ended, or its container has left.
func (k *child) Wait() string { return <-k.status }

// Kill kills the rank.
func (k *child) Kill() { _ = send(k.node.conn, message{Kind: kill, Start: k.start}) }
