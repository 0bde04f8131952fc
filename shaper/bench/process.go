// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stderrLines is how many of a rank's last lines are kept for an error.
const stderrLines = 20

// event is a line from a rank, or its end.
type event struct {
	rank   int
	line   string
	exited bool
	status string // with exited: "" after exit status 0
}

// process is one rank's process.
type process struct {
	rank   int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *tail
	gone   chan struct{} // closed when it has ended and been waited for
}

// startProcess starts a rank's process; lines and at last its end go to events. The caller's thread must outlive the
// process, which dies with it.
func startProcess(rank int, path string, args, env []string, user *syscall.Credential, stderr io.Writer, events chan<- event) (*process, error) {
	p := &process{rank: rank, cmd: exec.Command(path, args...), gone: make(chan struct{})}
	p.stderr = &tail{rank: rank, out: stderr}
	p.cmd.Env = env
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second // a child of a plugin may hold the descriptor
	// Out of the terminal's process group, so that an interrupt reaches the bench alone, which ends its ranks in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to rank %d: %w", rank, err)
	}
	p.stdin = stdin
	lines, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe from rank %d: %w", rank, err)
	}
	p.cmd.Stdout = out
	err = p.cmd.Start()
	out.Close()
	if err != nil {
		lines.Close()
		return nil, fmt.Errorf("start rank %d: %w", rank, err)
	}
	go p.watch(lines, events)
	return p, nil
}

// watch passes on what the process says, then its end.
func (p *process) watch(lines *os.File, events chan<- event) {
	defer close(p.gone)
	defer lines.Close()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		events <- event{rank: p.rank, line: scanner.Text()}
	}
	if err := scanner.Err(); err != nil { // a line without end: it would fill memory
		events <- event{rank: p.rank, line: "a line that is too long"}
		_, _ = io.Copy(io.Discard, lines)
	}
	status := ""
	if err := p.cmd.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		status = err.Error()
	}
	p.stderr.flush()
	events <- event{rank: p.rank, exited: true, status: status}
}

// send writes a command. A process that is gone is noticed by its end, not here.
func (p *process) send(command string) { _, _ = io.WriteString(p.stdin, command+"\n") }

// kill ends the process, by its own handle (a pidfd), never by a number that may be another's.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// tail passes a rank's standard error on line by line with the rank before it, and keeps the last lines.
type tail struct {
	rank int
	out  io.Writer // nil to drop

	mu      sync.Mutex
	partial []byte
	last    []string
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, text...)
	for {
		line, rest, found := bytes.Cut(t.partial, []byte{'\n'})
		if !found {
			break
		}
		t.line(string(line))
		t.partial = append([]byte(nil), rest...)
	}
	if len(t.partial) > 64<<10 { // not text
		t.line(string(t.partial))
		t.partial = nil
	}
	return len(text), nil
}

func (t *tail) line(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	if t.out != nil {
		fmt.Fprintf(t.out, "rank %d: %s\n", t.rank, line)
	}
	t.last = append(t.last, line)
	if len(t.last) > stderrLines {
		t.last = t.last[1:]
	}
}

// flush ends a line that has no end.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.line(string(t.partial))
		t.partial = nil
	}
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.last)
}
