// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is a buffer that several programs may write to.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// waitFor waits until the output contains text.
func (o *output) waitFor(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(o.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is not in the output: %s", text, o.String())
		}
	}
}

// newGroup returns a group of shell scripts, called a, b and so on, that write to out.
func newGroup(out *output, grace time.Duration, scripts ...string) *Group {
	g := &Group{Grace: grace, Logf: func(f string, args ...any) { fmt.Fprintf(out, f+"\n", args...) }}
	for i, script := range scripts {
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout, cmd.Stderr = out, out
		g.Members = append(g.Members, &Member{Name: string(rune('a' + i)), Cmd: cmd})
	}
	return g
}

func TestGroup(t *testing.T) {
	const wait = "while :; do sleep 0.01; done"
	for _, c := range []struct {
		name    string
		scripts []string
		status  int
		stopped bool
		logs    []string
	}{
		{"all succeed", []string{"echo one", "echo two"}, 0, false, []string{"one", "two"}},
		{"status of the first failure", []string{"sleep 0.3; exit 4", "exit 3"}, 3, true,
			[]string{"b ended with exit status 3: stopping the others"}},
		{"the others get SIGTERM", []string{"trap 'echo terminated; exit 9' TERM; echo up; " + wait,
			"sleep 0.5; exit 7"}, 7, true, []string{"terminated"}},
		{"a member that ignores SIGTERM is killed", []string{"trap '' TERM; " + wait, "sleep 0.5; exit 7"}, 7, true,
			[]string{"a has not ended in 300ms: killing it"}},
		{"killed by a signal", []string{"kill -9 $$"}, 137, true, nil},
		{"a background process does not delay the end", []string{"sleep 300 & echo $! >&2"}, 0, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out output
			g := newGroup(&out, 300*time.Millisecond, c.scripts...)
			start := time.Now()
			status, err := g.Run()
			if status != c.status || err != nil || g.Stopped() != c.stopped {
				t.Errorf("exit status %d, %v, stopped %v; want %d, %v", status, err, g.Stopped(), c.status, c.stopped)
			}
			for _, text := range c.logs {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not in %q", text, out.String())
				}
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("it took %v", d)
			}
			for _, m := range g.Members {
				_ = syscall.Kill(-m.Cmd.Process.Pid, syscall.SIGKILL) // processes that it started
			}
		})
	}
}

func TestGroupSignals(t *testing.T) {
	var out output
	signals := make(chan os.Signal, 1)
	g := newGroup(&out, 30*time.Second,
		"trap 'echo usr a' USR1; trap 'echo int a; exit 5' INT; echo up a; while :; do sleep 0.01; done",
		"trap 'echo usr b' USR1; trap 'echo int b; sleep 0.5; exit 6' INT; trap 'echo term b' TERM; echo up b; while :; do sleep 0.01; done")
	g.Signals = signals
	type outcome struct {
		status int
		err    error
	}
	done := make(chan outcome)
	go func() {
		status, err := g.Run()
		done <- outcome{status, err}
	}()
	out.waitFor(t, "up a")
	out.waitFor(t, "up b")
	signals <- syscall.SIGUSR1
	out.waitFor(t, "usr a")
	out.waitFor(t, "usr b")
	signals <- os.Interrupt
	if o := <-done; o.status != 5 || o.err != nil || !g.Stopped() {
		t.Errorf("exit status %d, %v", o.status, o.err)
	}
	text := out.String()
	if strings.Count(text, "int a") != 1 || strings.Count(text, "int b") != 1 {
		t.Errorf("a member did not get the signal exactly once: %s", text)
	}
	if strings.Contains(text, "term b") {
		t.Errorf("a member that was interrupted got SIGTERM too: %s", text)
	}
}

// If a member cannot be started, those that were started are stopped.
func TestGroupCannotStart(t *testing.T) {
	var out output
	g := newGroup(&out, 10*time.Second, "while :; do sleep 0.01; done")
	g.Members = append(g.Members, &Member{Name: "b", Cmd: exec.Command("/no/such/program")})
	if _, err := g.Run(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start b") {
		t.Errorf("got %v", err)
	}
	if g.Members[0].running {
		t.Error("the other member still runs")
	}
}
