// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// setup is what the ranks run, and on which fabric.
type setup struct {
	on      system
	profile string // of the fabric
	ranks   int
	nodes   int // 0: one for each rank
	seed    uint64
	args    []string // scenario and its arguments
	env     []string
	last    []string // more of it for the last rank alone
	wrap    []string // a command in front of each rank's own
	dir     string   // folder of a fabric that is up; "": make one
}

// world is a fabric and the ranks on it.
type world struct {
	t     *testing.T
	dir   string
	begin time.Time
	ranks []*rank
}

// rank is one process.
type rank struct {
	cmd   *exec.Cmd
	read  chan struct{} // closed when all its output has been read
	ended chan struct{}

	mu     sync.Mutex
	lines  []line
	err    error // of Wait, when ended is closed
	endsAt time.Time
}

type line struct {
	at   time.Time
	text string
}

// start brings up a fabric and starts the ranks on it. At the end of the test no rank remains.
func start(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{t: t, dir: s.dir, begin: time.Now()}
	if w.dir == "" {
		nodes := s.nodes
		if nodes == 0 {
			nodes = s.ranks
		}
		w.dir = folder(t)
		ddlemu(t, w.dir, "up", "--profile", s.profile, "--nodes", fmt.Sprint(nodes), "--set",
			fmt.Sprint("gpus_per_node=", s.ranks/nodes), "--no-measure", "--name", "soak", "--clock", s.on.clock)
	}
	t.Cleanup(w.end)
	id := filepath.Join(t.TempDir(), "id")
	for r := range s.ranks {
		w.ranks = append(w.ranks, w.run(s, id, r))
	}
	return w
}

// run starts rank number r.
func (w *world) run(s setup, id string, r int) *rank {
	w.t.Helper()
	words := append(append(append([]string{}, s.wrap...), program(w.t)), s.args...)
	p := &rank{cmd: exec.Command(words[0], words[1:]...), read: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(environment(w.dir), libraries(w.t, s.on.nccl),
		"NCCL_NET_PLUGIN=goemu", "NCCL_NET=goemu", "NCCL_SOCKET_IFNAME=lo", "DDLEMU_JOB=soak", "DDLEMU_FABRIC=soak",
		fmt.Sprintf("RANK=%d", r), fmt.Sprintf("WORLD_SIZE=%d", s.ranks), "ID_FILE="+id, fmt.Sprintf("SEED=%d", s.seed))
	p.cmd.Env = append(p.cmd.Env, s.env...)
	if r == s.ranks-1 {
		p.cmd.Env = append(p.cmd.Env, s.last...)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, in, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	in.Close()
	go p.readLines(out)
	go p.wait()
	return p
}

func (p *rank) readLines(out io.ReadCloser) {
	defer close(p.read)
	defer out.Close()
	for in := bufio.NewScanner(out); in.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, line{time.Now(), in.Text()})
		p.mu.Unlock()
	}
}

func (p *rank) wait() {
	err := p.cmd.Wait()
	p.mu.Lock()
	p.err, p.endsAt = err, time.Now()
	p.mu.Unlock()
	close(p.ended)
}

// printed returns when the rank printed a line that contains text.
func (p *rank) printed(text string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.Contains(l.text, text) {
			return l.at, true
		}
	}
	return time.Time{}, false
}

// status is the exit status of a rank that has ended, 128 + N after signal N.
func (p *rank) status() int {
	<-p.ended
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return 0
	case !errors.As(p.err, &exit):
		return -1
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// kill ends the rank and removes the files that NCCL made for it in /dev/shm: NCCL removes them
// only when all ranks are connected.
func (p *rank) kill() {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid)) // gone when it has ended
	_ = p.cmd.Process.Kill()                                                // the same
	<-p.ended
	for _, path := range regexp.MustCompile(`/dev/shm/nccl-\w+`).FindAllString(string(maps), -1) {
		os.Remove(path)
	}
}

func (p *rank) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// await waits until every rank has printed text.
func (w *world) await(text string) {
	w.t.Helper()
	const limit = 90 * time.Second
	for i, p := range w.ranks {
		for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			if _, ok := p.printed(text); ok {
				break
			}
			select {
			case <-p.ended:
				w.fatalf("rank %d ended with %d before it printed %q", i, p.status(), text)
			default:
			}
			if time.Since(begin) > limit {
				w.fatalf("rank %d has not printed %q for %v", i, text, limit)
			}
		}
	}
}

// finish waits until all ranks have ended, at most for limit.
func (w *world) finish(limit time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for i, p := range w.ranks {
		select {
		case <-p.ended:
		case <-timer.C:
			w.fatalf("rank %d hangs: not ended after %v", i, limit)
		}
	}
	w.readAll()
}

// readAll waits until the output of the ranks that have ended has been read.
func (w *world) readAll() {
	for _, p := range w.ranks {
		select {
		case <-p.ended:
		default:
			continue
		}
		select {
		case <-p.read:
		case <-time.After(time.Second): // a child of it has the other end of the pipe
		}
	}
}

// allRight waits for the ranks and checks that each found every value right.
func (w *world) allRight(limit time.Duration) {
	w.t.Helper()
	select {
	case <-w.anyFailure():
	case <-time.After(limit):
	}
	w.readAll()
	hangs := -1
	for i, p := range w.ranks {
		select {
		case <-p.ended:
			if s := p.status(); s != 0 {
				w.fatalf("rank %d ended with %d", i, s)
			}
		default:
			hangs = i
		}
	}
	if hangs >= 0 {
		w.fatalf("rank %d hangs: not ended after %v", hangs, limit)
	}
}

// anyFailure is closed when a rank has failed or all have ended: after a failure the
// others may wait for ever.
func (w *world) anyFailure() <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	for _, p := range w.ranks {
		all.Go(func() {
			if p.status() != 0 {
				once.Do(func() { close(done) })
			}
		})
	}
	go func() {
		all.Wait()
		once.Do(func() { close(done) })
	}()
	return done
}

// fatalf ends the test and logs what the ranks printed.
func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.log()
	w.t.Fatalf(format, args...)
}

// log shows the last lines of each rank.
func (w *world) log() {
	w.t.Helper()
	const most = 200
	for i, p := range w.ranks {
		p.mu.Lock()
		lines := p.lines[max(0, len(p.lines)-most):]
		var text strings.Builder
		for _, l := range lines {
			fmt.Fprintf(&text, "%8.3f %s\n", l.at.Sub(w.begin).Seconds(), l.text)
		}
		p.mu.Unlock()
		w.t.Logf("rank %d:\n%s", i, &text)
	}
}

// end kills the ranks.
func (w *world) end() {
	for _, p := range w.ranks {
		p.kill()
	}
}

// carried is the bytes that the links have carried.
func (w *world) carried() uint64 {
	w.t.Helper()
	var s struct {
		Links []struct {
			Bytes uint64 `json:"bytes"`
		} `json:"links"`
	}
	out := ddlemu(w.t, w.dir, "status", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		w.t.Fatalf("%v in\n%s", err, out)
	}
	bytes := uint64(0)
	for _, l := range s.Links {
		bytes += l.Bytes
	}
	return bytes
}
