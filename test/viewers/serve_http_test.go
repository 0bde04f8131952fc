// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ddlemu/ddlemu/test/needs"
)

// get asks a server.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	r, err := http.Get(url) //nolint:gosec,noctx // the address is that of the test's server
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// metricsOf parses metrics as Prometheus does.
func metricsOf(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families
}

// /metrics has what `ddlemu metrics` prints of the server's fabric.
func TestServeMetrics(t *testing.T) {
	w := newUser(t)
	w.Run("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual")
	w.Run("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual", "--name", "other")
	s := w.serve("--fabric", "ndr400", "--listen", "127.0.0.1:0")
	w.Run("bench", "allreduce", "--fabric", "ndr400", "--ranks", "2", "-b", "1M", "-e", "1M")
	status, text := get(t, s.url+"metrics")
	got, want := metricsOf(t, text), metricsOf(t, w.Run("metrics", "--fabric", "ndr400"))
	if status != http.StatusOK || len(got) != len(want) || len(got) == 0 {
		t.Fatalf("status %d with %d metrics, want %d", status, len(got), len(want))
	}
	for name, f := range want {
		if name == "ddlemu_fabric_up_seconds" { // it grows
			continue
		}
		if got[name].String() != f.String() {
			t.Errorf("%s:\n%s\nwant\n%s", name, got[name], f)
		}
	}
	if got["ddlemu_link_transmit_bytes_total"].Metric[0].Counter.GetValue() == 0 {
		t.Error("the job has sent nothing")
	}
	w.Run("down", "ndr400")
	if status, text := get(t, s.url+"metrics"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "fabric ndr400 is not up") {
		t.Errorf("without the fabric: status %d, %q", status, text)
	}
}

// Who cannot have a page is told why, in one line.
func TestServeRefuses(t *testing.T) {
	w := newUser(t)
	if got := w.refused("serve"); !strings.Contains(got, "no fabric is up") || !strings.Contains(got, "ddlemu up") {
		t.Errorf("without a fabric: %s", got)
	}
	w.Run("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual")
	address := w.serve("--listen", "127.0.0.1:0").address()
	if got := w.refused("serve", "--listen", address); !strings.Contains(got,
		address+" is in use: give another port, or 127.0.0.1:0 for a free one") {
		t.Errorf("port in use: %s", got)
	}
}

const nobody = 65534

// Another user of the host is refused, and accepted with the token. A token of a file stays the same.
func TestServeOtherUsers(t *testing.T) {
	needs.Root(t, "becoming another user")
	w := newUser(t)
	w.Run("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual")
	s := w.serve("--listen", "127.0.0.1:0")
	state, bearer := s.url+"api/state", "Authorization: Bearer "
	change := []string{"--json", `{"link":"node0>node1","set":{"lat":"9us"}}`, s.url + "api/shape"}
	for name, c := range map[string]struct {
		uid  uint32
		args []string
		want int
	}{
		"the user":                     {0, []string{state}, 200},
		"another user":                 {nobody, []string{state}, 401},
		"another user's page":          {nobody, []string{s.url}, 401},
		"another user's metrics":       {nobody, []string{s.url + "metrics"}, 401},
		"another user's change":        {nobody, change, 401},
		"another user, another token":  {nobody, []string{"-H", bearer + s.token + "x", state}, 401},
		"another user with the token":  {nobody, []string{"-H", bearer + s.token, state}, 200},
		"their metrics with the token": {nobody, []string{"-H", bearer + s.token, s.url + "metrics"}, 200},
		"their page with the token": {nobody, []string{"--location", "--cookie", "", s.url + "?token=" + s.token},
			200},
		"the user by a name of a site":   {0, []string{"-H", "Host: example.com", state}, 403},
		"a change by a page of a site":   {0, append([]string{"-H", "Origin: http://example.com"}, change...), 403},
		"a change with a form of a page": {0, append([]string{"-H", "Sec-Fetch-Site: cross-site"}, change...), 403},
	} {
		if got, text := w.curl(c.uid, c.args...); got != c.want {
			t.Errorf("%s: status %d, want %d: %.200s", name, got, c.want, text)
		}
	}
	if l := w.link("eth1", "node0", "node1"); l.LatencyNs != 25_000 {
		t.Errorf("a change that was refused has made %+v", l)
	}
	if status, text := w.curl(nobody, append([]string{"-H", bearer + s.token}, change...)...); status != 200 ||
		!strings.Contains(text, "latency 25µs -> 9µs") {
		t.Errorf("a change with the token: status %d: %s", status, text)
	}
	w.tokenFile()
}

// tokenFile starts two servers, one after the other, with a token in a file.
func (w *user) tokenFile() {
	w.Helper()
	file := filepath.Join(w.TempDir(), "token")
	var tokens []string
	for range 2 {
		s := w.serve("--listen", "127.0.0.1:0", "--token-file", file)
		token, err := os.ReadFile(file)
		if err != nil || s.token != "in "+file {
			w.Fatalf("%v: the server says that the token is %q", err, s.token)
		}
		tokens = append(tokens, strings.TrimSpace(string(token)))
		if status, text := w.curl(nobody, "-H", "Authorization: Bearer "+tokens[0], s.url+"api/state"); status != 200 {
			w.Errorf("with the token of the file: status %d: %s", status, text)
		}
		w.stop(s)
	}
	if tokens[0] != tokens[1] {
		w.Errorf("the token has changed: %q", tokens)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		w.Errorf("the file has mode %v (%v), want 0600", info.Mode(), err)
	}
}

// curl asks a server as another user.
func (w *user) curl(uid uint32, args ...string) (status int, text string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), needs.Optional(w, "curl"),
		append([]string{"--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}"}, args...)...)
	cmd.Dir = "/" // another user may not be in the test's folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("curl %q: %v: %s", args, err, out)
	}
	end := strings.LastIndex(string(out), "\n")
	if status, err = strconv.Atoi(string(out[end+1:])); err != nil {
		w.Fatalf("curl %q: %v: %s", args, err, out)
	}
	return status, string(out[:end])
}
