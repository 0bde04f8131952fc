// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// user runs commands on fabrics of its own.
type user struct{ *world.World }

func newUser(t *testing.T) *user { return &user{world.New(t)} }

// refused runs a command that ends with status 2 and one line.
func (w *user) refused(args ...string) string {
	w.Helper()
	o := w.Try(args...)
	if out := o.Text(); o.Exit != 2 || strings.Count(out, "\n") != 1 {
		w.Errorf("ddlemu %q: status %d, want 2 and one line:\n%s", args, o.Exit, out)
	}
	return o.Text()
}

// server is `ddlemu serve`.
type server struct {
	cmd    *exec.Cmd
	url    string // of the page, with a slash at its end
	token  string
	stderr *strings.Builder
}

var served = regexp.MustCompile(
	`^fabric \S+: (http://127\.0\.0\.1:\d+/)\nother users of this host need the token (.+)\n$`)

// serve starts a server on a loopback address and waits until it says its address.
func (w *user) serve(args ...string) *server {
	w.Helper()
	s := &server{cmd: w.Command(w.Context(), append([]string{"serve"}, args...)...), stderr: &strings.Builder{}}
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
func (w *user) stop(s *server) {
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

func (w *user) link(fabric, from, to string) linkState {
	w.Helper()
	var st struct{ Links []linkState }
	if err := json.Unmarshal([]byte(w.Run("status", "--fabric", fabric, "--json")), &st); err != nil {
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
