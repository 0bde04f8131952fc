// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Member is one program of a Group.
type Member struct {
	Name string
	Cmd  *exec.Cmd // not started; Group.Run starts it

	status  int
	err     error
	running bool
}

// Group runs the programs of one job. It forwards signals to all members. When a member fails, it stops the others.
type Group struct {
	Members []*Member
	Signals <-chan os.Signal // forwarded to all members
	Grace   time.Duration    // from SIGTERM, or from a forwarded signal, to SIGKILL
	Logf    func(format string, args ...any)
	// OnInterrupt is called before the first signal is forwarded that asks the members to end; nil for nothing.
	OnInterrupt func()

	ended       chan *Member
	interrupted bool // a signal that ends programs was forwarded
	failed      *Member
	kill        <-chan time.Time // SIGKILL is sent then
}

// outputDelay is how long Run waits for the output of a member that has ended, if processes that it started keep the
// output open.
const outputDelay = 2 * time.Second

// Run starts all members and waits for them. It returns the exit status of the first member that failed, as a shell
// reports it. The error says why a member could not be started or its output not be written.
func (g *Group) Run() (status int, err error) {
	g.ended = make(chan *Member, len(g.Members))
	for _, m := range g.Members {
		if err := g.start(m); err != nil {
			g.stop()
			g.wait()
			return 0, err
		}
	}
	g.wait()
	if g.failed == nil {
		return 0, nil
	}
	return g.failed.status, g.failed.err
}

// Stopped reports whether the job was interrupted or failed. Processes that its members started may still run then.
func (g *Group) Stopped() bool { return g.interrupted || g.failed != nil }

func (g *Group) start(m *Member) error {
	if m.Cmd.SysProcAttr == nil {
		m.Cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// In a process group of its own, a member receives Ctrl-C only from the Group, once.
	m.Cmd.SysProcAttr.Setpgid = true
	m.Cmd.WaitDelay = outputDelay
	if err := m.Cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.running = true
	go func() {
		err := m.Cmd.Wait()
		m.status, m.err = ExitStatus(err)
		g.ended <- m
	}()
	return nil
}

// wait returns when no member runs.
func (g *Group) wait() {
	for slices.ContainsFunc(g.Members, func(m *Member) bool { return m.running }) {
		select {
		case s := <-g.Signals:
			if IsInterrupt(s) && !g.interrupted {
				g.interrupted = true
				if g.OnInterrupt != nil {
					g.OnInterrupt()
				}
			}
			g.signal(s)
		case m := <-g.ended:
			m.running = false
			if g.failed == nil && (m.status != 0 || m.err != nil) {
				g.failed = m
				g.stop()
			}
		case <-g.kill:
			for _, m := range g.Members {
				if m.running {
					g.Logf("%s has not ended in %v: killing it", m.Name, g.Grace)
					// Kill the member's process group. It fails if that has just ended.
					_ = syscall.Kill(-m.Cmd.Process.Pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// stop sends SIGTERM to the running members, unless a forwarded signal already ends them, and starts the grace period.
func (g *Group) stop() {
	var names []string
	for _, m := range g.Members {
		if m.running {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	if g.failed != nil && !g.interrupted {
		g.Logf("%s ended with exit status %d: stopping the others", g.failed.Name, g.failed.status)
	}
	if !g.interrupted {
		g.signal(syscall.SIGTERM)
	}
	g.kill = time.After(g.Grace)
}

// signal sends s to all running members.
func (g *Group) signal(s os.Signal) {
	for _, m := range g.Members {
		if m.running {
			_ = m.Cmd.Process.Signal(s) // fails if it has just ended
		}
	}
}

// ExitStatus returns the exit status for the error of Cmd.Wait: 128 + N for a program that signal N ended.
func ExitStatus(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		return 0, nil // the program itself succeeded
	case err == nil || !errors.As(err, &exit):
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
