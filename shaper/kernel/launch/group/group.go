// SPDX-License-Identifier: Apache-2.0

// Package group runs several programs that make one job: signals go to all of them,
// and the first that fails stops the rest.
package group

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// Member is one program. Its command has not been started.
type Member struct {
	Name string
	Cmd  *exec.Cmd

	status  int
	err     error
	running bool
}

// Group is a job.
type Group struct {
	Members []*Member
	Signals <-chan os.Signal // passed on to all members
	Grace   time.Duration    // from SIGTERM, or a signal that was passed on, to SIGKILL
	Say     func(format string, args ...any)

	ended  chan *Member
	asked  bool // a signal that asks to end was passed on
	failed *Member
	kill   <-chan time.Time
}

// outputDelay is how long the output of a member is waited for that has ended but
// left processes that hold it open.
const outputDelay = 2 * time.Second

// Run starts all members and waits for them. The exit status is that of the first
// that failed, as a shell gives it. The error is of what kept a member from being
// started or its output from being written.
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

// Stopped says whether the job did not end by itself and in order: its members may
// have left processes.
func (g *Group) Stopped() bool { return g.asked || g.failed != nil }

func (g *Group) start(m *Member) error {
	if m.Cmd.SysProcAttr == nil {
		m.Cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A Ctrl-C comes to us, and reaches each member once.
	m.Cmd.SysProcAttr.Setpgid = true
	m.Cmd.WaitDelay = outputDelay
	if err := m.Cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.running = true
	go func() {
		err := m.Cmd.Wait()
		m.status, m.err = statusOf(err)
		g.ended <- m
	}()
	return nil
}

// wait waits until no member runs.
func (g *Group) wait() {
	for slices.ContainsFunc(g.Members, func(m *Member) bool { return m.running }) {
		select {
		case s := <-g.Signals:
			g.asked = g.asked || s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP
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
					g.Say("%s has not ended in %v: killing it", m.Name, g.Grace)
					_ = syscall.Kill(-m.Cmd.Process.Pid, syscall.SIGKILL) // its group; it may end now
				}
			}
		}
	}
}

// stop asks all to end that run and have not been asked.
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
	if g.failed != nil && !g.asked {
		g.Say("%s ended with exit status %d: stopping the others", g.failed.Name, g.failed.status)
	}
	if !g.asked {
		g.signal(syscall.SIGTERM)
	}
	g.kill = time.After(g.Grace)
}

// signal sends s to all that run.
func (g *Group) signal(s os.Signal) {
	for _, m := range g.Members {
		if m.running {
			_ = m.Cmd.Process.Signal(s) // it may have ended by itself meanwhile
		}
	}
}

// statusOf is the exit status for what Wait returned: 128 + N for signal N.
func statusOf(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		return 0, nil // the program itself ended in order
	case err == nil || !errors.As(err, &exit):
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
