// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

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

// await waits until an expression of JavaScript is true, for at most half a minute.
func (b *browser) await(what, expression string) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); !eval[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("after half a minute, %s: the page says %q", what, eval[string](b, "document.body.innerText.slice(0, 3000)"))
		}
	}
}

// awaitText waits until the text of an element has this part.
func (b *browser) awaitText(selector, part string) {
	b.Helper()
	b.await(fmt.Sprintf("%s has no %q", selector, part), fmt.Sprintf("(document.querySelector(%q)?.textContent ?? '').includes(%q)", selector, part))
}

// fill writes values into fields of the form, by their selectors.
func (b *browser) fill(values map[string]string) {
	b.Helper()
	for selector, value := range values {
		b.script(`{
			const i = document.querySelector(%q);
			i.value = %q;
			i.dispatchEvent(new Event("input"));
		}`, selector, value)
	}
}

// answered forgets the lines on the console about answers that are errors: the page shows their texts.
func (b *browser) answered(statuses ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
	for _, e := range b.errors {
		known := false
		for _, s := range statuses {
			known = known || strings.HasPrefix(e, "Failed to load resource: ") && strings.Contains(e, s)
		}
		if !known {
			left = append(left, e)
		}
	}
	b.errors = left
}

// The page shows a job's load while it runs and its sum afterwards, and the form changes links.
func TestServeInChromium(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "ndr400", "--nodes", "4", "--clock", "virtual")
	s := w.serve("--listen", "127.0.0.1:0")
	b := open(t, s.url)
	for selector, want := range map[string]int{
		".map .nic circle": 4, ".map .switch": 1, ".map .hop": 8, "#hops tbody tr": 8 + 12, ".card": 5, "#events li": 1, "#shape .fields input": 10,
	} {
		if got := b.count(selector); got != want {
			t.Errorf("%s: %d, want %d", selector, got, want)
		}
	}
	if got := b.text("#jobs"); got != "No job has run." {
		t.Errorf("jobs: %q", got)
	}
	b.script(`{ // notes each rate of node0 tx
		window.rates = [];
		const note = () => window.rates.push(document.querySelector("#hops tbody td:nth-child(6)").textContent);
		new MutationObserver(note).observe(document.querySelector("#hops"), { childList: true, characterData: true, subtree: true });
	}`)
	w.must("bench", "allreduce", "--fabric", "ndr400", "--ranks", "4", "-b", "16M", "-e", "16M", "-n", "5", "-w", "1")
	b.awaitText("#jobs tbody tr", "has ended")
	b.await("no look saw a load", `window.rates.some((r) => /^[1-3]\d\d Gb/.test(r))`)
	b.await("node0 tx has no sum", `document.querySelector("#hops tbody td:nth-child(5)").textContent.endsWith("MiB")`)
	if got := b.text("#history .u-title"); got != "node0 tx" {
		t.Errorf("the history is that of %q", got)
	}
	if n := b.inked("#history"); n < 2000 {
		t.Errorf("the history has %d points", n)
	}
	w.shapeByForm(b)
	b.narrow()
	b.answered("400")
	b.noErrors()
	w.stop(s)
}

// shapeByForm changes links by the form, and compares with what status says.
func (w *world) shapeByForm(b *browser) {
	w.Helper()
	b.script(`document.querySelector('.map [data-hop="node3 rx"]').dispatchEvent(new Event("click"))`)
	if got := eval[string](b, `document.querySelector("#link").value`); got != "node3" {
		w.Errorf("a click on a port names %q", got)
	}
	b.fill(map[string]string{"#link": "node0>node1", "[name=bw]": "25Gbps", "[name=lat]": "7us"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said", "bandwidth 400Gbps -> 25Gbps")
	if l := w.link("ndr400", "node0", "node1"); l.BandwidthBps != 25e9 || l.LatencyNs != 7000 {
		w.Errorf("the link is %+v", l)
	}
	if l := w.link("ndr400", "node1", "node0"); l.BandwidthBps != 4e11 || l.LatencyNs != 1200 {
		w.Errorf("the other direction is %+v", l)
	}
	b.awaitText("#events li", "shape node0>node1 bw=25Gbps lat=7µs")
	b.await("the field does not show the rate", `document.querySelector("[name=bw]").placeholder === "25Gbps" && document.querySelector("[name=bw]").value === ""`)
	b.await("the slow link is not drawn", `document.querySelectorAll(".map .hop").length === 9`)

	b.fill(map[string]string{"[name=lat]": "5"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", `latency: "5" is not a duration: write 5us, 1.2ms or 3s`)
	if n := b.count("[name=lat][aria-invalid]"); n != 1 {
		w.Errorf("%d fields are marked as wrong", n)
	}
	b.fill(map[string]string{"[name=lat]": "", "#link": "node7"})
	b.do(chromedp.Click("#down"))
	b.awaitText("#said.off", `the fabric has node 0 to 3`)
	b.fill(map[string]string{"#link": "node2:node3"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", "nothing to change is given")

	b.do(chromedp.Click("#down"))
	b.awaitText("#said:not(.off)", "state up -> DOWN")
	if w.link("ndr400", "node2", "node3").Up || w.link("ndr400", "node3", "node2").Up || !w.link("ndr400", "node0", "node3").Up {
		w.Error("not the links of node2 and node3 are down")
	}
	b.await("the page shows no links that are down", `document.querySelectorAll(".map .down").length === 2 && document.querySelectorAll("#hops .off").length === 2`)
	b.do(chromedp.Click("#up"))
	b.awaitText("#said", "state DOWN -> up")
	b.await("the page shows links that are down", `document.querySelectorAll("#hops .off").length === 0`)
}

// narrow shows the page on a small screen: only boxes that scroll are wider than it.
func (b *browser) narrow() {
	b.Helper()
	b.do(chromedp.EmulateViewport(390, 800))
	b.await("the page is wider than the screen", "document.documentElement.scrollWidth <= 390")
	if n := b.inked("#history"); n < 1000 {
		b.Errorf("the history has %d points on a small screen", n)
	}
}

// The page says why it has no news, keeps what it had, and goes on when the fabric or the server are back.
func TestServeWhenFabricOrServerIsGone(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual")
	w.must("up", "--profile", "eth10", "--nodes", "3", "--clock", "virtual", "--name", "other")
	s := w.serve("--fabric", "ndr400", "--listen", "127.0.0.1:0")
	b := open(t, s.url)
	w.must("down", "ndr400")
	b.awaitText("#trouble:not([hidden])", "fabric ndr400 is not up")
	b.awaitText("#trouble:not([hidden])", "there are other")
	if b.count("main.old .map .hop") != 4 || !strings.HasPrefix(eval[string](b, "document.title"), "(no news)") {
		t.Errorf("the page does not show what it had as old, with title %q", eval[string](b, "document.title"))
	}
	b.fill(map[string]string{"[name=lat]": "5us"})
	b.do(chromedp.Click("#apply"))
	b.awaitText("#said.off", "fabric ndr400 is not up")
	w.must("up", "--profile", "ndr400", "--nodes", "3", "--no-measure")
	b.await("the page does not show the new fabric", `document.querySelector("header p").textContent.includes("real clock") && document.querySelectorAll("main:not(.old) .map .nic circle").length === 3 && document.querySelector("#trouble").hidden`)

	w.stop(s)
	b.awaitText("#trouble:not([hidden])", "the server does not answer: is `ddlemu serve` still running?")
	w.serve("--fabric", "ndr400", "--listen", s.address())
	b.await("the page does not find the server again", `document.querySelector("#trouble").hidden`)
	b.answered("503", "400", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
	b.noErrors()
}

// A page of 64 nodes is drawn and answers in time, when all its 4032 links have something to show.
func TestServeLargeFabrics(t *testing.T) {
	w := newWorld(t)
	spec := filepath.Join(t.TempDir(), "spine.yaml")
	text := "name: spine\nbase: ndr400\nnodes: 64\ntopology: {kind: leaf-spine, leaves: 8, spines: 8, trunk: {latency: 1us}}\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("up", "--profile", "ndr400", "--nodes", "64", "--clock", "virtual")
	w.must("up", "-f", spec, "--clock", "virtual")
	for _, c := range []struct {
		fabric      string
		lines, hops int
	}{{"ndr400", 2 * 64, 2*64 + 64*63}, {"spine", 2*64 + 2*64, 4*64 + 64*63}} {
		w.must("shape", "--fabric", c.fabric, "--loss", "0.1%")
		begin := time.Now()
		b := open(t, w.serve("--fabric", c.fabric, "--listen", "127.0.0.1:0").url)
		t.Logf("%s: drawn in %s", c.fabric, time.Since(begin))
		if got := b.count(".map .hop"); got != c.lines {
			t.Errorf("%s: %d lines, want %d", c.fabric, got, c.lines)
		}
		if n := b.count("#hops tbody tr"); n != 50 {
			t.Errorf("%s: the table has %d rows, want 50", c.fabric, n)
		}
		b.fill(map[string]string{"#filter": "node63:"})
		b.awaitText("#found", "63 of ")
		b.script(`document.querySelectorAll("#hops tbody tr")[3].dispatchEvent(new Event("click"))`)
		b.awaitText("#history .u-title", "node63:node3")
		b.answersInTime()
		b.noErrors()
	}
}

// answersInTime lets a page look at its fabric about 5 times: no look keeps it busy for longer than a second.
func (b *browser) answersInTime() {
	b.Helper()
	b.script(`{
		let longest = 0, last = performance.now();
		const end = last + 5000;
		const tick = () => {
			const now = performance.now();
			longest = Math.max(longest, now - last);
			last = now;
			now < end ? setTimeout(tick, 10) : (window.longest = longest);
		};
		tick();
	}`)
	b.await("the page has not counted", "window.longest !== undefined")
	longest := eval[float64](b, "window.longest")
	if longest > 1000 {
		b.Errorf("the page did not answer for %.0f ms", longest)
	}
	b.Logf("the page was busy for at most %.0f ms", longest)
}

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
	w := newWorld(t)
	w.must("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual")
	w.must("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual", "--name", "other")
	s := w.serve("--fabric", "ndr400", "--listen", "127.0.0.1:0")
	w.must("bench", "allreduce", "--fabric", "ndr400", "--ranks", "2", "-b", "1M", "-e", "1M")
	status, text := get(t, s.url+"metrics")
	got, want := metricsOf(t, text), metricsOf(t, w.must("metrics", "--fabric", "ndr400"))
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
	w.must("down", "ndr400")
	if status, text := get(t, s.url+"metrics"); status != http.StatusServiceUnavailable || !strings.Contains(text, "fabric ndr400 is not up") {
		t.Errorf("without the fabric: status %d, %q", status, text)
	}
}

// Who cannot have a page is told why, in one line.
func TestServeRefuses(t *testing.T) {
	w := newWorld(t)
	if got := w.refused("serve"); !strings.Contains(got, "no fabric is up") || !strings.Contains(got, "ddlemu up") {
		t.Errorf("without a fabric: %s", got)
	}
	w.must("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual")
	address := w.serve("--listen", "127.0.0.1:0").address()
	if got := w.refused("serve", "--listen", address); !strings.Contains(got, address+" is in use: give another port, or 127.0.0.1:0 for a free one") {
		t.Errorf("port in use: %s", got)
	}
}

const nobody = 65534

// Another user of the host is refused, and accepted with the token. A token of a file stays the same.
func TestServeOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can be another user")
	}
	w := newWorld(t)
	w.must("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual")
	s := w.serve("--listen", "127.0.0.1:0")
	state, bearer := s.url+"api/state", "Authorization: Bearer "
	change := []string{"--json", `{"link":"node0>node1","set":{"lat":"9us"}}`, s.url + "api/shape"}
	for name, c := range map[string]struct {
		uid  uint32
		args []string
		want int
	}{
		"the user":                       {0, []string{state}, 200},
		"another user":                   {nobody, []string{state}, 401},
		"another user's page":            {nobody, []string{s.url}, 401},
		"another user's metrics":         {nobody, []string{s.url + "metrics"}, 401},
		"another user's change":          {nobody, change, 401},
		"another user, another token":    {nobody, []string{"-H", bearer + s.token + "x", state}, 401},
		"another user with the token":    {nobody, []string{"-H", bearer + s.token, state}, 200},
		"their metrics with the token":   {nobody, []string{"-H", bearer + s.token, s.url + "metrics"}, 200},
		"their page with the token":      {nobody, []string{"--location", "--cookie", "", s.url + "?token=" + s.token}, 200},
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
	if status, text := w.curl(nobody, append([]string{"-H", bearer + s.token}, change...)...); status != 200 || !strings.Contains(text, "latency 25µs -> 9µs") {
		t.Errorf("a change with the token: status %d: %s", status, text)
	}
	w.tokenFile()
}

// tokenFile starts two servers, one after the other, with a token in a file.
func (w *world) tokenFile() {
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
func (w *world) curl(uid uint32, args ...string) (status int, text string) {
	w.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		w.Skip("SKIPPED: curl is not installed (apt-get install curl)")
	}
	cmd := exec.CommandContext(w.Context(), path, append([]string{"--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}"}, args...)...)
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
