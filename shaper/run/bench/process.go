// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
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

// Command is the command of a rank, ready to start.
type Command struct {
	Rank                  int
	Path                  string // of ddlemu-rank
	Args, Env             []string
	User                  *syscall.Credential // nil for this process's user
	Stdin, Stdout, Stderr *os.File
	// Log, which is nil if NCCL has no log of ours, is to be file descriptor LogDescriptor of a command that is started
	// elsewhere.
	Log *os.File
}

// LogDescriptor is the descriptor of Command.Log: the first one after the standard ones.
const LogDescriptor = 3

// Child is a command that was started.
type Child interface {
	PID() int     // where it runs
	Wait() string // waits until it has ended; "" for exit status 0
	Kill()
}

// Starter starts a command. It does not keep the files.
type Starter func(Command) (Child, error)

// local is a Child of this process.
type local struct{ cmd *exec.Cmd }

func (l local) PID() int { return l.cmd.Process.Pid }

func (l local) Wait() string {
	if err := l.cmd.Wait(); err != nil {
		return err.Error()
	}
	return ""
}

// Kill kills the process by its pidfd, because its number may have been reused.
func (l local) Kill() { _ = l.cmd.Process.Kill() }

// startHere is the Starter of processes of this one. The caller's thread must live longer than the process, because the
// kernel kills the process with it.
func startHere(c Command) (Child, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	// A separate process group: an interrupt from the terminal reaches the bench alone, which ends its ranks in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.User}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return local{cmd}, nil
}

// process is the process of one rank.
type process struct {
	rank   int
	child  Child
	stdin  io.WriteCloser
	stderr *lineWriter
	gone   chan struct{} // closed when it has ended and was waited for
}

// stderrDelay is how long the standard error of a process that has ended is read: a child of a plugin may keep the
// descriptor open.
const stderrDelay = time.Second

// startProcess starts a rank's process by start. Its lines go to events, then its exit.
func startProcess(command Command, start Starter, stderr io.Writer, events chan<- event) (*process, error) {
	p := &process{rank: command.Rank, gone: make(chan struct{})}
	p.stderr = &lineWriter{rank: p.rank, out: stderr}
	var mine, its [3]*os.File // standard input, output and error
	for i := range mine {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(mine, its)
			return nil, fmt.Errorf("make the pipes of rank %d: %w", p.rank, err)
		}
		mine[i], its[i] = r, w
		if i == 0 {
			mine[i], its[i] = w, r
		}
	}
	command.Stdin, command.Stdout, command.Stderr = its[0], its[1], its[2]
	child, err := start(command)
	if err != nil {
		closeAll(mine, its)
		return nil, fmt.Errorf("start rank %d: %w", p.rank, err)
	}
	closeAll(its)
	p.child, p.stdin = child, mine[0]
	go p.watch(mine[1], mine[2], events)
	return p, nil
}

func closeAll(files ...[3]*os.File) {
	for _, three := range files {
		for _, f := range three {
			f.Close() // nil is no error that matters
		}
	}
}

// watch passes on the lines of the process, then its exit.
func (p *process) watch(lines, errorOutput *os.File, events chan<- event) {
	defer close(p.gone)
	defer lines.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(p.stderr, errorOutput)
	}()
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		events <- event{rank: p.rank, line: scanner.Text()}
	}
	if err := scanner.Err(); err != nil { // the line is too long
		events <- event{rank: p.rank, line: "a line that is too long"}
		_, _ = io.Copy(io.Discard, lines)
	}
	status := p.child.Wait()
	select {
	case <-copied:
	case <-time.After(stderrDelay):
	}
	errorOutput.Close() // ends the copy
	<-copied
	p.stderr.flush()
	events <- event{rank: p.rank, exited: true, status: status}
}

// send writes a command. If the process has ended, its exit event reports that.
func (p *process) send(command string) { _, _ = io.WriteString(p.stdin, command+"\n") }

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
