// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// world is a folder of fabrics, and the commands of a user on them.
type world struct {
	*testing.T
	dir string
}

func newWorld(t *testing.T) *world {
	w := &world{t, filepath.Join(t.TempDir(), "fabrics")}
	t.Cleanup(func() {
		if out, err := w.command(context.WithoutCancel(t.Context()), "down", "--all").CombinedOutput(); err != nil {
			t.Errorf("take the fabrics down: %v: %s", err, out)
		}
	})
	return w
}

func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	w.Helper()
	cmd := exec.CommandContext(ctx, built.Path(w.T, "bin", "ddlemu"), args...)
	cmd.Env = append(built.Environ(), "DDLEMU_DIR="+w.dir)
	return cmd
}

func (w *world) must(args ...string) string {
	w.Helper()
	out, err := w.command(w.Context(), args...).CombinedOutput()
	if err != nil {
		w.Fatalf("ddlemu %q: %v:\n%s", args, err, out)
	}
	return string(out)
}

// refused runs a command that ends with status 2 and one line.
func (w *world) refused(args ...string) string {
	w.Helper()
	cmd := w.command(w.Context(), args...)
	out, _ := cmd.CombinedOutput() // its status is checked below
	if got := cmd.ProcessState.ExitCode(); got != 2 || strings.Count(string(out), "\n") != 1 {
		w.Errorf("ddlemu %q: status %d, want 2 and one line:\n%s", args, got, out)
	}
	return string(out)
}

// server is `ddlemu serve`.
type server struct {
	cmd    *exec.Cmd
	url    string // of the page, with a slash at its end
	token  string
	stderr *strings.Builder
}

var served = regexp.MustCompile(`^fabric \S+: (http://127\.0\.0\.1:\d+/)\nother users of this host need the token (.+)\n$`)

// serve starts a server on a loopback address and waits until it says its address.
func (w *world) serve(args ...string) *server {
	w.Helper()
	s := &server{cmd: w.command(w.Context(), append([]string{"serve"}, args...)...), stderr: &strings.Builder{}}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _, _ = s.cmd.Process.Kill(), s.cmd.Wait() }) // it may have been stopped
	lines := bufio.NewReader(out)
	first, _ := lines.ReadString('\n') // what is missing is missing in what it says
	second, _ := lines.ReadString('\n')
	m := served.FindStringSubmatch(first + second)
	if m == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		w.Fatalf("the server says %q: %s", first+second, s.stderr)
	}
	s.url, s.token = m[1], m[2]
	return s
}

// address is the host and port of a server.
func (s *server) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/")
}

// stop ends a server as Ctrl-C does.
func (w *world) stop(s *server) {
	w.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		w.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil || s.stderr.Len() > 0 {
		w.Errorf("after Ctrl-C the server ends with %v and says %q", err, s.stderr)
	}
}

// linkState is what the tests need of `ddlemu status --json`.
type linkState struct {
	From, To     string
	BandwidthBps float64 `json:"bandwidth_bps"`
	LatencyNs    int64   `json:"latency_ns"`
	Up           bool
}

func (w *world) link(fabric, from, to string) linkState {
	w.Helper()
	var st struct{ Links []linkState }
	if err := json.Unmarshal([]byte(w.must("status", "--fabric", fabric, "--json")), &st); err != nil {
		w.Fatal(err)
	}
	for _, l := range st.Links {
		if l.From == from && l.To == to {
			return l
		}
	}
	w.Fatalf("there is no link %s:%s", from, to)
	return linkState{}
}
