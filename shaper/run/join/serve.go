// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// retryEvery is the time from one look for the bench to the next.
const retryEvery = 100 * time.Millisecond

// Member describes a container that joins a bench.
type Member struct {
	Dir     string // the folder of fabrics
	Node    int    // which node it is, from 1 on
	Version string // of this program
	Rank    string // path of ddlemu-rank
	Wait    time.Duration
}

// FailedError says that the bench has failed.
type FailedError struct{ Why string }

// Error says what the bench said.
func (e *FailedError) Error() string { return "the bench has failed: " + e.Why }

// Serve waits for the bench, for m.Wait at most, and starts the ranks that it asks for until it ends. All ranks have
// ended when Serve returns. The error is a [*FailedError] if the bench failed; if ctx is cancelled, it is the cause.
func (m Member) Serve(ctx context.Context) error {
	c, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	// For the kernel the parent of a rank, with which it kills the rank, is the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &server{member: m, conn: c, ranks: map[int]*exec.Cmd{}}
	err = s.serve()
	s.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// connect waits for the bench and says hello.
func (m Member) connect(ctx context.Context) (*net.UnixConn, error) {
	for begin := time.Now(); ; {
		c, err := state.DialSocket(m.Dir, os.Getuid(), socketName)
		switch {
		case err == nil:
			if err := m.greet(c); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED):
			return nil, fmt.Errorf("look for the bench: %w", err)
		case time.Since(begin) > m.Wait:
			return nil, fmt.Errorf("%w within %v to %s: run `ddlemu bench ... --join 5m` in the container that is "+
				"node 0, with the same DDLEMU_DIR", ErrLate, m.Wait, m.Dir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryEvery):
		}
	}
}

func (m Member) greet(c *net.UnixConn) error {
	c.SetDeadline(time.Now().Add(answerTimeout))
	if err := send(c, message{Kind: hello, Node: m.Node, Version: m.Version}); err != nil {
		return err
	}
	answer, files, err := receive(c)
	closeAll(files)
	if err != nil {
		return fmt.Errorf("join the bench: %w", err)
	}
	if answer.Kind != welcome {
		return fmt.Errorf("the bench refuses node %d: %s", m.Node, answer.Text)
	}
	return c.SetDeadline(time.Time{})
}

// server starts ranks.
type server struct {
	member Member
	conn   *net.UnixConn

	mu    sync.Mutex
	ranks map[int]*exec.Cmd // those that run, by their start
	all   sync.WaitGroup
}

// serve does what the bench asks for, until it ends.
func (s *server) serve() error {
	for {
		m, files, err := receive(s.conn)
		switch {
		case errors.Is(err, io.EOF):
			return &FailedError{"it ended without saying how"}
		case err != nil:
			return fmt.Errorf("listen to the bench: %w", err)
		}
		switch m.Kind {
		case start:
			answer := message{Kind: started, Start: m.Start}
			if cmd, err := s.start(m, files); err != nil {
				answer.Text = err.Error()
			} else {
				answer.PID = cmd.Process.Pid
			}
			err = send(s.conn, answer)
		case kill:
			s.kill(m.Start)
		case ended:
			if m.Text != "" {
				err = &FailedError{m.Text}
			}
			closeAll(files)
			return err
		}
		closeAll(files)
		if err != nil {
			return err
		}
	}
}

// start starts a rank with the files that came with the message.
func (s *server) start(m message, files []*os.File) (*exec.Cmd, error) {
	const standard = bench.LogDescriptor
	if len(files) < standard {
		return nil, fmt.Errorf("%d files came with rank %d", len(files), m.Rank)
	}
	cmd := exec.Command(s.member.Rank, m.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = files[0], files[1], files[2], files[standard:]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal reaches this process alone
	cmd.Env = append(m.Env, job.DirEnv+"="+s.member.Dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.ranks[m.Start] = cmd
	s.all.Go(func() { s.wait(m.Start, cmd) })
	return cmd, nil
}

// wait tells the bench when a rank has ended.
func (s *server) wait(start int, cmd *exec.Cmd) {
	status := ""
	if err := cmd.Wait(); err != nil {
		status = err.Error()
	}
	s.mu.Lock()
	delete(s.ranks, start)
	s.mu.Unlock()
	_ = send(s.conn, message{Kind: exited, Start: start, Text: status}) // a bench that has gone needs no answer
}

func (s *server) kill(start int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cmd := s.ranks[start]; cmd != nil {
		_ = cmd.Process.Kill()
	}
}

// end kills the ranks that still run, and waits for all.
func (s *server) end() {
	s.mu.Lock()
	for _, cmd := range s.ranks {
		_ = cmd.Process.Kill()
	}
	s.mu.Unlock()
	s.all.Wait()
}
