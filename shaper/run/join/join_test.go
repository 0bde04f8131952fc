// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// long is more than anything here takes.
const long = time.Minute

func fabrics(t *testing.T) *state.Dir {
	t.Helper()
	dir, err := state.OpenDir(filepath.Join(t.TempDir(), "fabrics"), os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// member is node 1 with a shell instead of ddlemu-rank.
func member(dir *state.Dir) Member {
	return Member{Dir: dir.Path, Node: 1, Version: "v1", Rank: "/bin/sh", Wait: long}
}

// await returns the nodes 1 to last that join a bench, and the errors of members.
func await(t *testing.T, dir *state.Dir, last int, members ...Member) (*Nodes, <-chan error) {
	t.Helper()
	errs := make(chan error, len(members))
	for _, m := range members {
		go func() { errs <- m.Serve(t.Context()) }()
	}
	n, err := Await(t.Context(), dir, last, "v1", long, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(nil) })
	return n, errs
}

// shell starts a script as a rank of node 1, and returns what it reads from and writes to.
func shell(t *testing.T, n *Nodes, script string) (c bench.Child, stdin, stdout, log *os.File) {
	t.Helper()
	var r, w [3]*os.File
	for i := range r {
		var err error
		if r[i], w[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r[i].Close(); w[i].Close() })
	}
	c, err := n.Starter(1)(bench.Command{Rank: 7, Args: []string{"-c", script}, Env: []string{"WORD=of the bench"},
		Stdin: r[0], Stdout: w[1], Stderr: os.Stderr, Log: w[2]})
	if err != nil {
		t.Fatal(err)
	}
	w[1].Close()
	w[2].Close()
	return c, w[0], r[1], r[2]
}

// A rank on another node reads and writes as one beside the bench, has the bench's environment and its node's folder,
// and its status is known.
func TestRank(t *testing.T) {
	dir := fabrics(t)
	n, errs := await(t, dir, 1, member(dir))
	c, stdin, stdout, log := shell(t, n, `read line; echo "$line $WORD $DDLEMU_DIR"; echo noted >&3; exit 3`)
	if c.PID() == 0 {
		t.Error("the process id is 0")
	}
	if _, err := stdin.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stdout)
	if want := "hello of the bench " + dir.Path + "\n"; err != nil || string(said) != want {
		t.Errorf("%v: it says %q, want %q", err, said, want)
	}
	if noted, err := io.ReadAll(log); err != nil || string(noted) != "noted\n" {
		t.Errorf("%v: its log is %q", err, noted)
	}
	if status := c.Wait(); status != "exit status 3" {
		t.Errorf("its status is %q", status)
	}
	n.Close(nil)
	if err := <-errs; err != nil {
		t.Errorf("the node ends with %v", err)
	}
	if left, err := os.ReadDir(dir.Path); err != nil || len(left) > 0 {
		t.Errorf("%v: %v is left", err, left)
	}
}

// A rank that is killed, whose bench vanishes, or whose node leaves, has ended.
func TestRankIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*Nodes, bench.Child, context.CancelFunc)
		status string // of the rank, for the bench
		node   string // error of the node
	}{
		"killed": {func(n *Nodes, c bench.Child, _ context.CancelFunc) { c.Kill() }, "signal: killed", ""},
		"bench": {func(n *Nodes, _ bench.Child, _ context.CancelFunc) { n.nodes[1].conn.Close() }, "node 1 has left",
			"failed"},
		"node": {func(_ *Nodes, _ bench.Child, cancel context.CancelFunc) { cancel() }, "node 1 has left", "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fabrics(t)
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 1)
			go func() { errs <- member(dir).Serve(ctx) }()
			n, _ := await(t, dir, 1)
			rank, _, stdout, _ := shell(t, n, "exec sleep 600")
			c.end(n, rank, cancel)
			if status := rank.Wait(); !strings.Contains(status, c.status) {
				t.Errorf("the status is %q, want %q", status, c.status)
			}
			if _, err := io.ReadAll(stdout); err != nil { // ends when the rank has
				t.Error(err)
			}
			n.Close(nil)
			err := <-errs
			if (err == nil) != (c.node == "") || err != nil && !strings.Contains(err.Error(), c.node) {
				t.Errorf("the node ends with %v, want %q", err, c.node)
			}
			cancel()
		})
	}
}

// A rank that cannot be started is an error with the reason.
func TestRankDoesNotStart(t *testing.T) {
	dir := fabrics(t)
	m := member(dir)
	m.Rank = "/no/such/program"
	n, _ := await(t, dir, 1, m)
	_, err := n.Starter(1)(bench.Command{Stdin: os.Stdin, Stdout: os.Stderr, Stderr: os.Stderr})
	if err == nil || !strings.Contains(err.Error(), "node 1: ") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	if _, err := n.Starter(2)(bench.Command{}); err == nil {
		t.Error("a rank starts on a node that has not joined")
	}
}

// The nodes end with what the bench has failed with.
func TestBenchFails(t *testing.T) {
	dir := fabrics(t)
	n, errs := await(t, dir, 1, member(dir))
	n.Close(errors.New("2 wrong elements"))
	var failed *FailedError
	if err := <-errs; !errors.As(err, &failed) || failed.Why != "2 wrong elements" {
		t.Errorf("%v", err)
	}
}

// A node that the bench cannot have is refused with the reason, and the bench goes on waiting.
func TestRefused(t *testing.T) {
	dir := fabrics(t)
	for _, c := range []struct {
		node          int
		version, want string
	}{
		{1, "v2", "it is ddlemu v2, and the bench is v1"},
		{0, "v1", "the bench has nodes 0 to 2"},
		{3, "v1", "the bench has nodes 0 to 2"},
		{2, "v1", "another container has joined as this node"},
	} {
		second := member(dir)
		second.Node = 2
		ctx, cancel := context.WithTimeout(t.Context(), long)
		go second.Serve(ctx)
		refused := make(chan error, 1)
		joined := make(chan struct{})
		go func() {
			<-joined
			m := member(dir)
			m.Node, m.Version = c.node, c.version
			refused <- m.Serve(ctx)
			m.Node, m.Version = 1, "v1"
			m.Serve(ctx)
		}()
		told := 0
		n, err := Await(ctx, dir, 2, "v1", long, func(missing string) {
			if told++; told == 2 {
				close(joined)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-refused; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("node %d, %s: %v, want %q", c.node, c.version, err, c.want)
		}
		n.Close(nil)
		cancel()
	}
}

// Who waits for nobody is told what to do.
func TestLate(t *testing.T) {
	dir := fabrics(t)
	_, err := Await(t.Context(), dir, 2, "v1", time.Millisecond, func(string) {})
	if !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "to be node1, node2: run `ddlemu join") {
		t.Errorf("%v", err)
	}
	m := member(dir)
	m.Wait = time.Millisecond
	if err := m.Serve(t.Context()); !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "--join") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Await(ctx, dir, 1, "v1", long, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The socket of a bench that was killed is replaced. That of a bench that waits is not.
func TestSocketIsThere(t *testing.T) {
	dir := fabrics(t)
	path := filepath.Join(dir.Path, socketName)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Await(t.Context(), dir, 1, "v1", long, func(string) {}); err == nil ||
		!strings.Contains(err.Error(), "another bench waits for nodes") {
		t.Errorf("%v", err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	await(t, dir, 1, member(dir))
}

// An answer that comes after its rank was given up is not taken for that of the next rank, nor of the same rank started
// again.
func TestLateAnswer(t *testing.T) {
	dir := fabrics(t)
	errs := make(chan error, 1)
	go func() { errs <- answerLate(dir) }()
	n, err := Await(t.Context(), dir, 1, "v1", long, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(nil)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	start := func(rank int) (bench.Child, error) {
		return n.Starter(1)(bench.Command{Rank: rank, Stdin: null, Stdout: null, Stderr: null})
	}
	if _, err := start(7); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Fatalf("a rank without an answer: %v", err)
	}
	for i, rank := range []int{8, 7} {
		c, err := start(rank)
		if err != nil {
			t.Fatal(err)
		}
		if c.PID() != 200+i {
			t.Errorf("rank %d is process %d, want %d", rank, c.PID(), 200+i)
		}
		if status := c.Wait(); status != "of its own" {
			t.Errorf("rank %d ended with %q", rank, status)
		}
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

// answerLate is a node that answers its first start when the bench has given it up and starts another.
func answerLate(dir *state.Dir) error {
	c, err := Member{Dir: dir.Path, Node: 1, Version: "v1", Wait: long}.connect(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	var first message
	for starts := 0; starts < 3; {
		m, files, err := receive(c)
		closeAll(files)
		if err != nil {
			return err
		}
		if m.Kind != start {
			continue
		}
		if starts++; starts == 1 {
			first = m
			continue
		}
		for _, answer := range []message{
			{Kind: started, Start: first.Start, Rank: first.Rank, PID: 100},
			{Kind: exited, Start: first.Start, Rank: first.Rank, Text: "of the first"},
			{Kind: started, Start: m.Start, Rank: m.Rank, PID: 198 + starts},
			{Kind: exited, Start: m.Start, Rank: m.Rank, Text: "of its own"},
		} {
			if err := send(c, answer); err != nil {
				return err
			}
		}
	}
	return nil
}
