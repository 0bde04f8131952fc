// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// The variable makes a process of this test a rank that waits to be killed, or one that has the lock of joining ranks.
const childEnv = "DDLEMU_TEST_WATCH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// child joins the fabric in dir, or with "lock " before it locks bytes of its header, until its input ends.
func child(dir string) error {
	dir, locks := strings.CutPrefix(dir, "lock ")
	if locks {
		f, err := os.OpenFile(dir+"/up"+state.Suffix, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 4}); err != nil {
			return err
		}
	} else if err := join(dir); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func join(path string) error {
	dir, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		return err
	}
	file, err := dir.Open("up")
	if err != nil {
		return err
	}
	j, err := file.JoinJob(7)
	if err != nil {
		return err
	}
	_, err = file.Join(j, state.Rank{Rank: 1, Node: 1, World: 2})
	return err
}

// start starts a child and waits until it is ready.
func start(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() }) // it may be dead
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child says %q", line)
	}
	return cmd
}

// up is a fabric of two nodes that is up, at time scale 4.
func up(t *testing.T) *state.File { return upOn(t, configs.Shm) }

func upOn(t *testing.T, datapath string) *state.File {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: "eth1", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.TimeScale, c.Datapath = 2, 4, datapath
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return statetest.New(t, fab, "up")
}

func reader(t *testing.T, file *state.File) *Reader {
	t.Helper()
	r, err := NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Reader) mustSample(t *testing.T) *Sample {
	t.Helper()
	l, err := r.Sample()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// named is the place of a hop in the fabric.
func (l *Sample) named(t *testing.T, name string) int {
	t.Helper()
	for i := range l.Hops {
		if l.Hops[i].Name == name {
			return i
		}
	}
	t.Fatalf("no %s in %+v", name, l.Hops)
	return 0
}

func TestSampleReadsTheFile(t *testing.T) {
	file := up(t)
	r := reader(t, file)
	hop := r.mustSample(t).named(t, "node0:node1")
	j, err := file.JoinJob(7)
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Join(j, state.Rank{Rank: 0, World: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := r.mustSample(t)
	if len(a.Jobs) != 1 || !a.Jobs[0].Running || a.Jobs[0].Joined != 1 || a.Verdicts[0].Verdict != "" {
		t.Errorf("got %+v", a.Jobs)
	}
	file.Count(hop, link.Counters{Bytes: 1000, LineBytes: 1100, Drops: 2, Pauses: 1, PausedNs: 400})
	file.Entry(hop).NextFree = state.Now() + int64(time.Hour)
	j.LinkStats()[hop].FirstPosted = 1
	j.LinkStats()[hop].CountDelivery(1000, 1, 1_000_000_001, 1_000_001_001, 4)
	b := r.mustSample(t)
	h := b.Hops[hop]
	if h.Spec.Bandwidth != 1e9 || h.Bytes != 1000 || h.Messages != 1 || h.PausedNs != 100 ||
		h.Reserved < 14*time.Minute || h.Reserved > 15*time.Minute {
		t.Errorf("got %+v", h)
	}
	if b.Up <= a.Up || b.Time <= a.Time || b.Time > b.Up/4+time.Millisecond {
		t.Errorf("times %v, %v after %v, %v", b.Up, b.Time, a.Up, a.Time)
	}
	job := b.Jobs[0]
	if job.Messages != 1 || job.Bytes != 1000 || job.Arrived(hop) != 1 ||
		job.Counted.LinkStats[hop].Size[0].SumLate != 1000 || b.Verdicts[0].Verdict != "VALID" {
		t.Errorf("got %+v", job)
	}
	p.Leave()
	if job := r.mustSample(t).Jobs[0]; job.Running || job.Left != 1 || job.Messages != 1 {
		t.Errorf("got %+v", job)
	}
	// A job that is over is not read again.
	j.LinkStats()[hop].CountDelivery(1000, 1, 2, 2, 4)
	if job := r.mustSample(t).Jobs[0]; job.Messages != 1 {
		t.Errorf("got %+v", job)
	}
}

func TestLinkPaths(t *testing.T) {
	r := reader(t, up(t))
	var names []string
	l := r.mustSample(t)
	for _, hop := range l.Hops[l.named(t, "node1:node0")].Path {
		names = append(names, l.Hops[hop].Name)
	}
	if got := strings.Join(names, ", "); got != "node1 tx, node1:node0, node0 rx" {
		t.Errorf("got %s", got)
	}
}

// Samples neither wait for locks nor note deaths, which needs one: ranks would wait for it.
func TestSampleAcquiresNoLock(t *testing.T) {
	file := up(t)
	rank := start(t, file.Dir())
	if err := rank.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = rank.Wait() // it was killed
	start(t, "lock "+file.Dir())
	r := reader(t, file)
	var l *Sample
	// Every sample would wait for the lock. A busy host makes single ones late.
	const samples = 10
	shortest := time.Hour
	for range samples {
		began := time.Now()
		l = r.mustSample(t)
		shortest = min(shortest, time.Since(began))
	}
	if shortest > 80*time.Millisecond {
		t.Errorf("the shortest of %d samples took %v while another process had the locks", samples, shortest)
	}
	j, v := l.Jobs[0], l.Verdicts[0]
	if j.Running || j.Joined != 1 || j.Died != 1 || v.Verdict != "INVALID" || len(v.Reasons) == 0 ||
		v.Reasons[0] != state.PeerDied.Words()[0] {
		t.Errorf("got %+v", j)
	}
	if died := file.Jobs()[0].Status().Died; died != 0 {
		t.Errorf("the sample noted %d deaths in the file", died)
	}
}

func TestSampleAtAFabricThatIsGone(t *testing.T) {
	for name, end := range map[string]func(*state.File) error{
		"taken down": func(f *state.File) error { f.TakeDown(); return nil },
		"removed":    func(f *state.File) error { return os.Remove(f.Dir() + "/up" + state.Suffix) },
	} {
		file := up(t)
		r := reader(t, file)
		r.mustSample(t)
		if err := end(file); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Sample(); !errors.Is(err, ErrGone) || err.Error() != "fabric up was taken down" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEach(t *testing.T) {
	ticks := make(chan time.Time, 3)
	for range 3 {
		ticks <- time.Time{}
	}
	gone := fmt.Errorf("fabric up %w", ErrGone)
	samples := []*Sample{at(1e9, 1e9, link.Counters{}), at(2e9, 2e9, link.Counters{Bytes: 125, LineBytes: 125}),
		at(3e9, 3e9, link.Counters{Bytes: 375, LineBytes: 375})}
	sample := func() (*Sample, error) {
		if len(samples) == 0 {
			return nil, gone
		}
		l := samples[0]
		samples = samples[1:]
		return l, nil
	}
	var rates []float64
	err := Each(t.Context(), sample, ticks, func(v *View) error {
		rates = append(rates, v.Links[0].RateBps)
		return nil
	})
	if !errors.Is(err, ErrGone) || len(rates) != 2 || rates[0] != 1000 || rates[1] != 2000 {
		t.Errorf("%v, rates %v", err, rates)
	}
	if err := Each(t.Context(), sample, ticks, nil); !errors.Is(err, ErrGone) {
		t.Errorf("the first sample: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	empty := func() (*Sample, error) { return at(1e9, 1e9, link.Counters{}), nil }
	if err := Each(ctx, empty, nil, nil); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	full := errors.New("no space")
	ticks <- time.Time{}
	if err := Each(t.Context(), empty, ticks, func(*View) error { return full }); !errors.Is(err, full) {
		t.Errorf("an output that fails: %v", err)
	}
}

// The document of what a fabric did has the links and ports that were active, with what `status` has of them and what
// they did, the jobs with their verdicts, and no ranks.
func TestDocument(t *testing.T) {
	file := up(t)
	r := reader(t, file)
	j, err := file.JoinJob(7)
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Join(j, state.Rank{World: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	a := r.mustSample(t)
	file.Count(a.named(t, "node0:node1"), link.Counters{Bytes: 1000, Drops: 3})
	file.Count(a.named(t, "node0 tx"), link.Counters{Bytes: 1000})
	d := Compare(a, r.mustSample(t)).Document()
	if len(d.Links) != 1 || d.Links[0].New.Drops != 3 || len(d.Ports) != 1 || d.Participants != nil {
		t.Fatalf("got %+v", d)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"fabric":"`, `"interval_ns":`,
		`"links":[{"name":"node0:node1","from":"node0","to":"node1",`, `"bandwidth_bps":1000000000,`, `"drops":3,`, `"new":{"bytes":1000,`, `"ports":[{"name":"node0 tx","nic":"node0",`,
		`"jobs":[{"job":0,`, `"reasons":[],"rate_bps":0}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(string(text), "participants") {
		t.Errorf("ranks in %s", text)
	}
}

// On the kernel datapath the daemon knows how late packets are, and nobody what waits.
func TestSampleAtTheKernelDatapath(t *testing.T) {
	file := upOn(t, configs.Kernel)
	j, err := file.JoinJob(state.TrafficKey)
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Join(j, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	r := reader(t, file)
	hop := r.mustSample(t).named(t, "node0:node1")
	a := r.mustSample(t)
	j.LinkStats()[hop].CountDelivery(1500, 1, 1_000_001, 1_040_001, 4)
	v := Compare(a, r.mustSample(t))
	l := v.Links[0]
	if l.Name != "node0:node1" || l.LatePercent != nil || l.LateP99Us == nil || *l.LateP99Us < 9.9 ||
		*l.LateP99Us > 12.5 || l.QueueNs != nil || l.NewMessages != 0 {
		t.Errorf("got %+v", l)
	}
	if !v.Jobs[0].Traffic || v.Jobs[0].Verdict != "" || v.Jobs[0].Messages != 1 {
		t.Errorf("got %+v", v.Jobs[0])
	}
	if v.Problem != "its daemon is gone: remove it with `ddlemu gc`" { // this process does not serve the fabric
		t.Errorf("problem %q", v.Problem)
	}
}

// BenchmarkSample samples at a fabric of 2048 links on which a job runs that has used all of them.
func BenchmarkSample(b *testing.B) {
	c, err := configs.Load(configs.Source{Profile: "efa-p5", Getenv: func(string) string { return "" }})
	if err != nil {
		b.Fatal(err)
	}
	c.Nodes = 2
	fab, err := fabric.New(c)
	if err != nil {
		b.Fatal(err)
	}
	file := statetest.New(b, fab, "up")
	j, err := file.JoinJob(7)
	if err != nil {
		b.Fatal(err)
	}
	p, err := file.Join(j, state.Rank{World: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Leave()
	for i, h := range file.Hops() {
		if h.Kind == link.Link {
			j.LinkStats()[i].FirstPosted = 1
			j.LinkStats()[i].CountDelivery(1000, 1, 2, 3, 1)
		}
	}
	r, err := NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	var before *Sample
	for b.Loop() {
		l, err := r.Sample()
		if err != nil {
			b.Fatal(err)
		}
		if before != nil {
			Compare(before, l)
		}
		before = l
	}
}
