// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// What the tests need of packages that import this one. above_test.go sets them.
var (
	ThreeNodes func(testing.TB) Spec // a fabric of three nodes with two NICs each, and its description
	UseAbove   func(*File)           // reads the fabric back and changes it
)

// CheckFile is checkFile for above_test.go.
var CheckFile = checkFile

// childEnv names what a copy of the test binary does as another process, instead
// of the tests.
const childEnv = "DDLEMU_STATE_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		if err := children[mode](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// children are the things that another process does, by name. The first argument
// is mostly the folder of the fabrics, the second the fabric's name.
var children map[string]func(args []string) error

func init() {
	children = map[string]func([]string) error{
		"member": memberChild, "fork": forkChild, "change": changeChild, "read": readChild, "count": countChild,
		"churn": churnChild, "create": createChild, "event": eventChild, "full": fullChild, "clock": clockChild,
		"hold": holdChild,
	}
}

// withFlows creates a fabric that has a file of flows, and maps that file.
func withFlows(t testing.TB, s Spec) (*File, *Flows) {
	t.Helper()
	d := newDir(t)
	f := create(t, d, s)
	flows, err := d.OpenFlows(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flows.Close() })
	return f, flows
}

// process is another process that speaks in lines.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// start runs a child. It is killed at the end of the test.
func start(t testing.TB, mode string, args ...string) *process {
	t.Helper()
	p, err := launch(mode, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	p.t = t
	t.Cleanup(func() { p.kill() })
	return p
}

func launch(mode string, attr *syscall.SysProcAttr, args ...string) (*process, error) {
	if attr == nil {
		attr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	p := &process{cmd: exec.Command("/proc/self/exe", args...), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+mode, "GORACE=atexit_sleep_ms=0")
	p.cmd.SysProcAttr = attr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	go func() {
		defer out.Close()
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	return p, nil
}

// line is the child's next line.
func (p *process) line() string {
	p.t.Helper()
	select {
	case s, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("child %d ended early", p.cmd.Process.Pid)
		}
		return s
	case <-time.After(20 * time.Second):
		p.t.Fatalf("child %d says nothing", p.cmd.Process.Pid)
	}
	return ""
}

// ask sends a line and returns the answer.
func (p *process) ask(line string) string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	return p.line()
}

// kill ends the child by SIGKILL and waits for it.
func (p *process) kill() {
	// It may have ended by itself, or have been waited for.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// finish closes the child's input and waits for it to end by itself.
func (p *process) finish() {
	p.t.Helper()
	p.in.Close()
	for s := range p.lines {
		p.t.Errorf("child: %s", s)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

// input is what the parent sends to this child, line by line.
var input = bufio.NewScanner(os.Stdin)

// newDir is an empty folder of fabrics in memory. Whatever a test leaves there but
// fabrics is an error.
func newDir(t testing.TB) *Dir {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "ddlemu-state-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(path, ".*"))
		if len(files) > 0 {
			t.Errorf("left behind: %v", files)
		}
		os.RemoveAll(path)
	})
	d, err := OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// family is a link of which every field follows from n, 0 to 999, so that a
// mixture of two shows.
func family(n int) link.Spec {
	return link.Spec{
		Bandwidth: uint64(n+1) * 1e9, Latency: time.Duration(n) * time.Microsecond, MTU: uint32(1500 + n),
		Header:  uint32(40 + n%3),
		Framing: uint32(n), QueueBytes: uint64(n) << 10, Jitter: link.Jitter{Kind: link.JitterKind(n % 4),
			Value: time.Duration(n)},
		Loss: link.Loss{P: float64(n) / 1000}, QueuePolicy: link.Policy(n % 2), Down: n%5 == 0,
	}
}

// inFamily is n if s is family(n), else an error.
func inFamily(s link.Spec) (int, error) {
	if n := int(s.MTU) - 1500; n >= 0 && s == family(n) {
		return n, nil
	}
	return 0, fmt.Errorf("a mixture: %+v", s)
}

// twoNodes is a fabric of two nodes with 6 hops, all as family(1).
func twoNodes(name string) Spec {
	s := Spec{
		Name: name, Profile: "test", Nodes: 2, GPUsPerNode: 1, NICsPerNode: 1, TimeScale: 1, Seed: 1,
		Transport: link.Transport{Kind: link.TCP, SendBuffer: 4 << 20, Window: 6 << 20, RTO: 200e6, DownTimeout: 1e9},
		Config:    []byte("name: test\n"),
	}
	for i := range uint32(2) {
		s.Hops = append(s.Hops, HopSpec{link.TxPort, i, i, family(1)}, HopSpec{link.RxPort, i, i, family(1)})
	}
	s.Hops = append(s.Hops, HopSpec{link.Link, 0, 1, family(1)}, HopSpec{link.Link, 1, 0, family(1)})
	s.Paths = []PathSpec{
		{0, 1, []link.PathHop{{Hop: 0, Private: false}, {Hop: 4, Private: true}, {Hop: 3, Private: false}}},
		{1, 0, []link.PathHop{{Hop: 2, Private: false}, {Hop: 5, Private: true}, {Hop: 1, Private: false}}},
	}
	return s
}

// create brings up a fabric for a test.
func create(t testing.TB, d *Dir, s Spec) *File {
	t.Helper()
	f, err := d.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // the test may have closed it
	return f
}

// newFile is a fabric of two nodes in a folder of its own.
func newFile(t testing.TB) *File {
	t.Helper()
	return create(t, newDir(t), twoNodes("t"))
}

// openChild opens the fabric of a child's arguments.
func openChild(args []string) (*File, error) {
	d, err := OpenDir(args[0], os.Getuid(), false)
	if err != nil {
		return nil, err
	}
	return d.Open(args[1])
}

// joined is a job and this process's part in it.
func joined(t testing.TB, f *File, key uint64) (Job, *Participant) {
	t.Helper()
	j, err := f.JoinJob(key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Join(j, Rank{World: 1, Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return j, p
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits for something that happens in another process.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after 10 s: %s", what)
		}
	}
}
