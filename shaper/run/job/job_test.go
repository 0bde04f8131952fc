// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// rankEnv makes a copy of the test binary a rank: it finds its job as the plugin does, joins it, and counts messages as
// the engine does.
const rankEnv = "DDLEMU_JOB_TEST_RANK"

// ownerEnv makes a copy of the test binary the owner of a run in the folder that it names, until its input ends.
const ownerEnv = "DDLEMU_JOB_TEST_OWNER"

func ownerMain(path string) error {
	d, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		return err
	}
	c := configs.Default()
	c.Link.Bandwidth = units.Gbps
	f, err := fabric.New(&c)
	if err != nil {
		return err
	}
	j, err := Start(context.Background(), d, f, "run")
	if err != nil {
		return err
	}
	// The fabric stays marked as in use: closing another descriptor of its file would end that.
	if err := j.RemoveLimits(); err != nil {
		return err
	}
	fmt.Println(j.Name())
	io.Copy(io.Discard, os.Stdin)
	return j.Close()
}

func TestMain(m *testing.M) {
	if path := os.Getenv(ownerEnv); path != "" {
		if err := ownerMain(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if rank := os.Getenv(rankEnv); rank != "" {
		if err := rankMain(rank); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rankMain reads commands, one per line: "carry N LATE [BEGIN]" counts N messages of 1 MiB with a lateness of LATE ns
// each on the link to the other node, one after the other from BEGIN ns on (now), "leave" leaves the job, "connect" ends its start.
func rankMain(text string) error {
	rank, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	d, err := state.OpenDir(os.Getenv(DirEnv), os.Getuid(), false)
	if err != nil {
		return err
	}
	f, err := d.Open(os.Getenv(FabricEnv))
	if err != nil {
		return err
	}
	j, err := f.JoinJob(Key(os.Getenv(JobEnv)))
	if err != nil {
		return err
	}
	p, err := f.Join(j, state.Rank{Rank: rank, Node: rank, World: 2})
	if err != nil {
		return err
	}
	// The plugin makes this socket, and does not remove it when it is killed.
	if err := os.WriteFile(filepath.Join(d.Path, state.SocketName(f.Name(), p.Slot())), nil, 0o600); err != nil {
		return err
	}
	fmt.Println("joined")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n, late int64
		switch {
		case in.Text() == "leave":
			os.Remove(filepath.Join(d.Path, state.SocketName(f.Name(), p.Slot())))
			fmt.Println(p.Leave())
		case in.Text() == "connect":
			p.NotePast()
			fmt.Println("connected")
		case in.Text() == "down":
			fmt.Println(f.Down())
		default:
			begin := state.Now()
			if got, err := fmt.Sscanf(in.Text(), "carry %d %d %d", &n, &late, &begin); got < 2 {
				return err
			}
			carry(f, p.Job(), rank, n, late, begin)
			fmt.Println("carried")
		}
	}
	return nil
}

// took is the time in ns of a message of 1 MiB on the fabric of these tests.
const took = 10_000_000

func carry(f *state.File, j state.Job, rank int, n, late, begin int64) {
	for _, h := range f.Hops() {
		if h.Kind != link.Link || h.Src != rank {
			continue
		}
		stats := unsafe.Slice((*state.LinkStats)(unsafe.Add(f.Base(), j.LinkStatsOffset())), len(f.Hops()))
		c := &stats[h.Index]
		k := &c.Size[2]
		k.Messages += uint64(n)
		k.Bytes += uint64(n) << 20
		k.SumTime += n * took
		k.SumLate += n * late
		k.MaxLate = max(k.MaxLate, late)
		k.Late[state.Bucket(late)] += uint32(n)
		if late > took/50 {
			k.OverP50 += uint64(n)
		}
		if late > took/20 {
			k.OverP99 += uint64(n)
		}
		c.ModelBusy += n * took
		c.WallBusy += n * (took + late)
		if c.FirstPosted == 0 {
			c.FirstPosted = begin
		}
		c.LastVisible = begin + n*(took+late)
	}
}

// rank is the process of a rank.
type rank struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startRank starts a rank of j and waits until it has joined.
func startRank(t *testing.T, j *Job, number int) *rank {
	t.Helper()
	r := &rank{t: t, cmd: exec.Command("/proc/self/exe")}
	r.cmd.Env = append(os.Environ(), append(j.Env(), rankEnv+"="+strconv.Itoa(number), "GORACE=atexit_sleep_ms=0")...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	r.out = bufio.NewScanner(out)
	if got := r.line(); got != "joined" {
		t.Fatal(got)
	}
	return r
}

func (r *rank) line() string {
	r.t.Helper()
	if !r.out.Scan() {
		r.t.Fatal("a rank ended early")
	}
	return r.out.Text()
}

func (r *rank) ask(format string, args ...any) string {
	r.t.Helper()
	fmt.Fprintf(r.in, format+"\n", args...)
	return r.line()
}

// end makes the rank leave the job.
func (r *rank) end() {
	r.t.Helper()
	r.ask("leave")
	r.in.Close()
	if err := r.cmd.Wait(); err != nil {
		r.t.Error(err)
	}
}

func (r *rank) kill() {
	// An error means that it has ended already.
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// folder is an empty folder of fabrics.
func folder(t *testing.T) *state.Dir {
	t.Helper()
	d, err := state.OpenDir(filepath.Join(t.TempDir(), "fabrics"), os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func twoNodes(t *testing.T) *fabric.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: "eth1", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func begin(t *testing.T, d *state.Dir) *Job {
	t.Helper()
	j, err := Start(t.Context(), d, twoNodes(t), "run")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// checkFolder checks that the folder contains the files in want and no others.
func checkFolder(t *testing.T, d *state.Dir, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the folder: %s", diff)
	}
}

func TestLife(t *testing.T) {
	for name, tc := range map[string]struct {
		run    func(t *testing.T, j *Job)
		valid  bool
		host   bool
		reason string
	}{
		"in time": {func(t *testing.T, j *Job) {
			a, b := startRank(t, j, 0), startRank(t, j, 1)
			a.ask("carry 100 1000")
			b.ask("carry 50 2000")
			a.end()
			b.end()
		}, true, false, ""},
		"in time, and still running": {func(t *testing.T, j *Job) {
			startRank(t, j, 0).ask("carry 100 1000")
		}, true, false, ""},
		"late": {func(t *testing.T, j *Job) {
			a := startRank(t, j, 0)
			a.ask("carry 100 1000000")
			a.end()
		}, false, true, "node0:node1, messages <= 1 MiB: 100 of 100 were later than max(1 us, 2 % of their time)"},
		"killed": {func(t *testing.T, j *Job) {
			a, b := startRank(t, j, 0), startRank(t, j, 1)
			a.ask("carry 100 1000")
			b.kill()
			a.end()
		}, false, false, "a rank died"},
		"stopped": {func(t *testing.T, j *Job) {
			a, b := startRank(t, j, 0), startRank(t, j, 1)
			a.ask("carry 100 1000")
			ctx, stop := context.WithCancel(t.Context())
			done := j.StopWith(ctx)
			stop()
			for !j.file.JobsOf(j.Key())[0].Summary().Stopping {
				time.Sleep(time.Millisecond)
			}
			done()
			a.kill()
			b.kill()
		}, false, false, "the launcher ended 2 ranks before the job was done"},
		// The context of a command ends after the signal has come, perhaps too late.
		"interrupted": {func(t *testing.T, j *Job) {
			a := startRank(t, j, 0)
			a.ask("carry 100 1000")
			if status, err := j.Run(context.Background(),
				exec.Command("sh", "-c", fmt.Sprintf("kill -INT %d; exec sleep 100", os.Getpid()))); err != nil ||
				status != 130 {
				t.Errorf("status %d, %v", status, err)
			}
			a.kill()
		}, false, false, "the launcher ended 1 rank before the job was done"},
		"not stopped": {func(t *testing.T, j *Job) {
			a := startRank(t, j, 0)
			a.ask("carry 100 1000")
			j.StopWith(t.Context())()
			a.kill()
		}, false, false, "a rank died"},
		"all killed": {func(t *testing.T, j *Job) {
			a := startRank(t, j, 0)
			a.ask("carry 100 1000")
			a.kill()
		}, false, false, "a rank died"},
		"nobody came": {func(t *testing.T, j *Job) {}, false, false, "no rank took part: nothing was emulated"},
		// As in `ddlemu run -- sh -c 'first; second'`.
		"two programs": {func(t *testing.T, j *Job) {
			for range 2 {
				a := startRank(t, j, 0)
				a.ask("carry 100 1000")
				a.end()
			}
		}, true, false, ""},
		"two programs, the first late": {func(t *testing.T, j *Job) {
			for _, late := range []int{1000000, 1000} {
				a := startRank(t, j, 0)
				a.ask("carry 100 %d", late)
				a.end()
			}
		}, false, true, "node0:node1, messages <= 1 MiB: 100 of 200 were later than max(5 us, 5 % of their time)"},
		"two programs, the first killed": {func(t *testing.T, j *Job) {
			a := startRank(t, j, 0)
			a.ask("carry 100 1000")
			a.kill()
			b := startRank(t, j, 0)
			b.ask("carry 100 1000")
			b.end()
		}, false, false, "a rank died"},
	} {
		t.Run(name, func(t *testing.T) {
			d := folder(t)
			j := begin(t, d)
			tc.run(t, j)
			v := j.Verdict()
			if v.Valid != tc.valid || v.SlowHost != tc.host || v.Valid != (v.Word == "VALID") {
				t.Errorf("verdict %s, because of the host %v: %v", v.Word, v.SlowHost, v.Reasons)
			}
			if tc.reason != "" &&
				!slices.ContainsFunc(v.Reasons, func(r string) bool { return strings.HasPrefix(r, tc.reason) }) {
				t.Errorf("no reason %q in %q", tc.reason, v.Reasons)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			checkFolder(t, d)
		})
	}
}

// The counters of a run's links are the sums over its programs.
func TestVerdictCounts(t *testing.T) {
	d := folder(t)
	j := begin(t, d)
	for _, n := range []int{3, 4} {
		a, b := startRank(t, j, 0), startRank(t, j, 1)
		a.ask("carry %d 0", n)
		b.ask("carry %d 0", 10*n)
		b.end()
		a.end()
	}
	v := j.Verdict()
	got := map[string]uint64{}
	for _, l := range v.Links {
		got[l.Name] = l.Messages
		if l.Bytes != l.Messages<<20 {
			t.Errorf("%s: %d bytes in %d messages", l.Name, l.Bytes, l.Messages)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"node0:node1": 7, "node1:node0": 70}, got); diff != "" {
		t.Error(diff)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A run of more programs than a fabric has counters for cannot be VALID.
func TestMoreProgramsThanPlaces(t *testing.T) {
	d := folder(t)
	j := begin(t, d)
	defer j.Close()
	f, err := d.Open(j.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := range 20 {
		e, err := f.JoinJob(Key(j.id))
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Join(e, state.Rank{})
		if err != nil {
			t.Fatal(err)
		}
		p.Leave()
		v := j.Verdict()
		// The other reason is that these programs send nothing.
		if want := 1 + b2i(n >= 16); len(v.Reasons) != want {
			t.Fatalf("after %d programs: %s %v", n+1, v.Word, v.Reasons)
		}
	}
	const want = "the counters of 4 programs of this run were reused for others: these programs are not judged"
	if v := j.Verdict(); !slices.Contains(v.Reasons, want) || v.SlowHost {
		t.Errorf("%v", v.Reasons)
	}
}

// Close takes the fabric down although ranks still use it, and removes their sockets.
func TestCloseUnderRanks(t *testing.T) {
	d := folder(t)
	j := begin(t, d)
	a, b := startRank(t, j, 0), startRank(t, j, 1)
	if got := a.ask("down"); got != "false" {
		t.Error("down while it runs")
	}
	b.kill() // its socket is not removed
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if got := a.ask("down"); got != "true" {
		t.Error("not down after Close")
	}
	checkFolder(t, d)
}

func TestEnv(t *testing.T) {
	d := folder(t)
	j := begin(t, d)
	defer j.Close()
	find := []string{DirEnv + "=" + d.Path, FabricEnv + "=" + j.Name(), JobEnv + "=" + j.id}
	if diff := cmp.Diff(append(slices.Clone(find), "DDLEMU_FAIL_TOGETHER=1"), j.Env()); diff != "" {
		t.Error(diff)
	}
	t.Setenv("DDLEMU_FAIL_TOGETHER", "0")
	if diff := cmp.Diff(find, j.Env()); diff != "" {
		t.Errorf("with a variable of the user: %s", diff)
	}
	if !strings.HasPrefix(j.Name(), state.JobPrefix+"run-") || len(j.id) != 16 || !filepath.IsAbs(d.Path) {
		t.Errorf("name %s, id %s, folder %s", j.Name(), j.id, d.Path)
	}
	checkFolder(t, d, j.Name()+state.Suffix)
	f, err := d.Open(j.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if fab, err := fabricfile.Read(f); err != nil || cmp.Diff(j.Fabric, fab) != "" {
		t.Errorf("%v %v", fab, err)
	}
}

// Runs at the same time have separate fabrics and do not see each other.
func TestRunsAtOnce(t *testing.T) {
	d := folder(t)
	var wg sync.WaitGroup
	jobs := make([]*Job, 8)
	fab := twoNodes(t)
	for i := range jobs {
		wg.Go(func() {
			var err error
			if jobs[i], err = Start(context.Background(), d, fab, "run"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	names := map[string]bool{}
	for _, j := range jobs {
		names[j.Name()] = true
	}
	if len(names) != len(jobs) {
		t.Errorf("names %v", names)
	}
	a, b := startRank(t, jobs[0], 0), startRank(t, jobs[1], 0)
	a.ask("carry 10 1000")
	b.ask("carry 10 9000000")
	a.end()
	b.end()
	if v := jobs[0].Verdict(); !v.Valid {
		t.Errorf("%v", v.Reasons)
	}
	if v := jobs[1].Verdict(); v.Valid {
		t.Error("VALID, but late")
	}
	for _, j := range jobs {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	checkFolder(t, d)
}

// lab is a fabric called lab that jobs share.
func lab(t *testing.T, d *state.Dir) *state.File {
	t.Helper()
	spec, err := fabricfile.Describe(twoNodes(t), "lab")
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Jobs that share a fabric have separate counters and verdicts, and do not take it down.
func TestShare(t *testing.T) {
	d := folder(t)
	f := lab(t, d)
	var jobs []*Job
	for range 2 {
		j, err := Share(d, "lab")
		if err != nil {
			t.Fatal(err)
		}
		if j.Name() != "lab" || cmp.Diff(twoNodes(t), j.Fabric) != "" {
			t.Errorf("shares %s, %+v", j.Name(), j.Fabric)
		}
		jobs = append(jobs, j)
	}
	a, b := startRank(t, jobs[0], 0), startRank(t, jobs[1], 0)
	a.ask("carry 10 1000")
	b.ask("carry 20 9000000")
	a.end()
	b.kill()
	if v := jobs[0].Verdict(); !v.Valid || v.Links[0].Messages != 10 {
		t.Errorf("%+v", v)
	}
	if v := jobs[1].Verdict(); v.Valid || v.Links[0].Messages != 20 || !slices.Contains(v.Reasons, "a rank died") {
		t.Errorf("%+v", v)
	}
	for _, j := range jobs {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if f.Down() {
		t.Error("a job that shares a fabric took it down")
	}
	if err := os.Remove(filepath.Join(d.Path, state.SocketName("lab", 1))); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Concurrent counts jobs with messages at the same time, not those before or after, or those without messages.
func TestConcurrent(t *testing.T) {
	d := folder(t)
	lab(t, d)
	var jobs []*Job
	begin := state.Now()
	for i, n := range []int{10, 20, 0, 5} {
		j, err := Share(d, "lab")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if i == 3 {
			begin += 21 * took // the others' are over
		}
		r := startRank(t, j, 0)
		if n > 0 {
			r.ask("carry %d 0 %d", n, begin)
		}
		r.end()
		jobs = append(jobs, j)
	}
	for i, want := range []int{1, 1, 0, 0} {
		if got := jobs[i].Concurrent(); got != want {
			t.Errorf("beside job %d: %d, want %d", i, got, want)
		}
		if got, want := jobs[i].Arrived(), []uint64{10, 20, 0, 5}[i]<<20; got != want {
			t.Errorf("of job %d %d bytes have arrived, want %d", i, got, want)
		}
	}
}

// The fabric of a run is owned until the run ends, even if it is killed. Other processes then know that they can remove
// the fabric.
func TestOwner(t *testing.T) {
	d := folder(t)
	owner := exec.Command("/proc/self/exe")
	owner.Env = append(os.Environ(), ownerEnv+"="+d.Path, "GORACE=atexit_sleep_ms=0")
	owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	name := bufio.NewScanner(out)
	if !name.Scan() {
		t.Fatal("no fabric")
	}
	f, err := d.Open(name.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.InUse() {
		t.Error("not owned while its owner runs")
	}
	if err := f.MarkInUse(); err == nil || !strings.HasPrefix(err.Error(), "mark fabric job-run-") {
		t.Errorf("owned twice: %v", err)
	}
	owner.Process.Kill()
	owner.Wait()
	if f.InUse() {
		t.Error("owned after its owner was killed")
	}
}

func TestRefusals(t *testing.T) {
	d := folder(t)
	_, err := Share(d, "lab")
	if want := "fabric lab is not up: bring it up with `ddlemu up --profile eth10 --name lab`: open fabric lab: no such file or directory"; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := Share(d, "no/name"); err == nil ||
		!strings.HasPrefix(err.Error(), `fabric name "no/name": want 1 to 40 letters`) {
		t.Errorf("%v", err)
	}
	if _, err := Start(t.Context(), d, twoNodes(t), "no/name"); err == nil ||
		!strings.HasPrefix(err.Error(), `fabric name "job-no/name-`) {
		t.Errorf("%v", err)
	}
	checkFolder(t, d)
	if err := os.WriteFile(filepath.Join(d.Path, "old.fabric"), make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Share(d, "old")
	if want := "open fabric old: not usable: not a ddlemu fabric (remove it with `ddlemu down old`)"; !errors.Is(err,
		state.ErrNotUsable) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	spec, err := fabricfile.Describe(twoNodes(t), "odd")
	if err != nil {
		t.Fatal(err)
	}
	spec.Config = []byte("nodes: 9\n")
	f, err := d.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err = Share(d, "odd"); err == nil || !strings.HasPrefix(err.Error(), "read back fabric odd: ") {
		t.Errorf("%v", err)
	}
}

// The plugin calculates the same key from DDLEMU_JOB: FNV-1a of the variable, its value and a zero byte.
func TestKey(t *testing.T) {
	h := uint64(14695981039346656037)
	for _, b := range []byte("DDLEMU_JOB=0123456789abcdef\x00") {
		h = (h ^ uint64(b)) * 1099511628211
	}
	if got := Key("0123456789abcdef"); got != h || got == Key("0123456789abcdee") {
		t.Errorf("%#x, want %#x", got, h)
	}
}

// What cannot be removed does not keep gc from removing the rest.
func TestRemoveAbandonedGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fabrics")
	if err := os.MkdirAll(filepath.Join(path, "a"+state.Suffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "b"+state.Suffix), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var removed []string
	err = RemoveAbandoned(d, func(name, _ string) { removed = append(removed, name) })
	if !slices.Equal(removed, []string{"b"}) || err == nil || !strings.Contains(err.Error(), "fabric a") {
		t.Errorf("removed %q, error %v", removed, err)
	}
}

// A change of links by others is told with what was changed, and makes figures on a fabric of the job alone INVALID. What
// the job itself changes is not such a change.
func TestLinkChangesAreTold(t *testing.T) {
	d := folder(t)
	j, err := Start(t.Context(), d, twoNodes(t), "bench")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.RemoveLimits(); err != nil {
		t.Fatal(err)
	}
	if text := j.LinkChanges(); text != "" {
		t.Errorf("the job's own change is told: %q", text)
	}
	shared, err := Share(d, j.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	spec := j.file.Hops()[0].Spec
	spec.Latency = 5000
	if err := j.file.Change(map[int]link.Spec{0: spec}); err != nil {
		t.Fatal(err)
	}
	j.file.Event(state.ShapeEvent + "node0 lat=5us")
	const want = "links were changed while the job ran (shape node0 lat=5us)"
	if text := j.LinkChanges(); text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	v := verdict.New(nil)
	if text := j.JudgeLinkChanges(&v); text != "" || v.Valid || v.Cause != verdict.CauseFabric ||
		!strings.HasPrefix(v.Reasons[0], want) {
		t.Errorf("of a fabric of its own: %q, %+v", text, v)
	}
	v = verdict.New(nil)
	if text := shared.JudgeLinkChanges(&v); !strings.HasPrefix(text, want) || !v.Valid {
		t.Errorf("of a shared fabric: %q, %+v", text, v)
	}
}
