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
	"strings"
	"sync"
	"syscall"
	"time"
)

// event is a line from a rank, or its exit.
type event struct {
	rank   int
	line   string
	exited bool
	status string // if exited: "" for exit status 0
}

// process is the process of one rank.
type process struct {
	rank   int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *lineWriter
	gone   chan struct{} // closed when it has ended and was waited for
}

// startProcess starts a rank's process. Its lines go to events, then its exit. The caller's thread must live longer
// than the process, because the kernel kills the process with it.
func startProcess(rank int, path string, args, env []string, user *syscall.Credential, stderr io.Writer,
	events chan<- event) (*process, error) {
	p := &process{rank: rank, cmd: exec.Command(path, args...), gone: make(chan struct{})}
	p.stderr = &lineWriter{rank: rank, out: stderr}
	p.cmd.Env = env
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second // a child of a plugin may keep the descriptor open
	// A separate process group: an interrupt from the terminal reaches the bench alone, which ends its ranks in order.
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

// watch passes on the lines of the process, then its exit.
func (p *process) watch(lines *os.File, events chan<- event) {
	defer close(p.gone)
	defer lines.Close()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		events <- event{rank: p.rank, line: scanner.Text()}
	}
	if err := scanner.Err(); err != nil { // the line is too long
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

// send writes a command. If the process has ended, its exit event reports that.
func (p *process) send(command string) { _, _ = io.WriteString(p.stdin, command+"\n") }

// kill kills the process by its pidfd, because its number may have been reused.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// lineWriter copies a rank's standard error line by line, with the rank in front.
type lineWriter struct {
	rank int
	out  io.Writer // nil to discard

	mu        sync.Mutex
	partial   []byte
	noNetwork string // why the rank has no emulated network, "" if it has not said so
}

// noNetworkPrefix begins the line in which the plugin says why it does not start. NCCL knows only that it has no
// network.
const noNetworkPrefix = "ddlemu: traffic of this rank will NOT be emulated: "

// reason is why the rank has no emulated network, "" if it has not said so.
func (w *lineWriter) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.noNetwork
}

func (w *lineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial = append(w.partial, text...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte{'\n'})
		if !found {
			break
		}
		w.line(string(line))
		w.partial = append([]byte(nil), rest...)
	}
	if len(w.partial) > 64<<10 { // probably not text
		w.line(string(w.partial))
		w.partial = nil
	}
	return len(text), nil
}

func (w *lineWriter) line(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	if reason, ok := strings.CutPrefix(line, noNetworkPrefix); ok {
		w.noNetwork = reason
	}
	if w.out != nil {
		fmt.Fprintf(w.out, "rank %d: %s\n", w.rank, line)
	}
}

// flush writes the last line if it has no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.partial) > 0 {
		w.line(string(w.partial))
		w.partial = nil
	}
}
