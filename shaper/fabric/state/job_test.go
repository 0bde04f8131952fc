// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

func TestJobLife(t *testing.T) {
	f := newFile(t)
	j, p := joined(t, f, 42)
	again, err := f.JoinJob(42)
	if err != nil || again != j {
		t.Fatalf("joined %v, then %v, %v", j, again, err)
	}
	p2, err := f.Join(again, Rank{Rank: 1, Node: 130})
	if err != nil {
		t.Fatal(err)
	}
	if p.Job() != j || p2.Job() != j || j.Nodes() != 2 {
		t.Errorf("jobs %v and %v, want %v; %d nodes", p.Job(), p2.Job(), j, j.Nodes())
	}
	if !j.Announce() || again.Announce() {
		t.Error("announced other than once")
	}
	j.Invalidate(SharedGPU)
	again.Invalidate(NodesDiffer)
	s := j.Status()
	if nodes := s.NodeSet.Nodes(); !slices.Equal(nodes, []int{0, 130}) {
		t.Errorf("ranks on nodes %v, want 0 and 130", nodes)
	}
	want := JobStatus{Key: 42, Running: true, Joined: 2, Number: 1, Reasons: SharedGPU | NodesDiffer, NodeSet: s.NodeSet,
		Started: s.Started, LinkStats: make([]LinkStats, 6),
		NodeStats: []LinkStats{}, Pauses: make([]Pauses, 6)}
	if d := cmp.Diff(want, s, cmp.Comparer(func(a, b LinkStats) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if p.Leave() {
		t.Error("the first to leave is told that it is the last")
	}
	if s := j.Status(); !s.Running || s.Left != 1 {
		t.Errorf("one left: %+v", s)
	}
	if !p2.Leave() {
		t.Error("the last to leave is not told so")
	}
	if p.Leave() || p2.Leave() {
		t.Error("left twice")
	}
	s = j.Status()
	if s.Running || s.Left != 2 || s.Died != 0 || s.Ended < s.Started || s.Ended > Now() {
		t.Errorf("over: %+v", s)
	}
	if jobs := f.JobsOf(42); len(jobs) != 1 || jobs[0] != j {
		t.Errorf("jobs %v", jobs)
	}
	if jobs := f.JobsOf(43); len(jobs) != 0 {
		t.Errorf("jobs of another key: %v", jobs)
	}
}

// The next program with the key is another job: the verdict on the first one does not
// change that of the second.
func TestJobWithTheKeyOfOneThatIsOver(t *testing.T) {
	f := newFile(t)
	first, p := joined(t, f, 42)
	first.Invalidate(PeerDied)
	p.Leave()
	second, p := joined(t, f, 42)
	if second == first {
		t.Fatal("the same job")
	}
	if s := second.Status(); s.Reasons != 0 || s.Number != 2 || !s.Running {
		t.Errorf("%+v", s)
	}
	p.Leave()
	if jobs := f.JobsOf(42); len(jobs) != 2 {
		t.Errorf("jobs %v", jobs)
	}
}

// A rank that finds its job, and joins it after all other ranks have left, is in a running
// job.
func TestJoinAfterTheOthersLeft(t *testing.T) {
	f := newFile(t)
	j, p := joined(t, f, 42)
	late, err := f.JoinJob(42)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Leave() {
		t.Error("not the last")
	}
	q, err := f.Join(late, Rank{Rank: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); q.Job() != j || !s.Running || s.Joined != 2 || s.Ended != 0 {
		t.Errorf("job %v of %v: %+v", q.Job(), j, s)
	}
	if !q.Leave() {
		t.Error("not the last")
	}
	// The same, if other jobs use the job's place by then.
	for key := range uint64(maxJobs) {
		_, p := joined(t, f, 100+key)
		defer p.Leave()
		if key < maxJobs-1 {
			continue
		}
		_, err := f.Join(late, Rank{})
		checkError(t, err, nil, "join fabric t: it has places for 16 jobs, and all are running: use another fabric")
		p.Leave()
	}
	if q, err = f.Join(late, Rank{}); err != nil {
		t.Fatal(err)
	}
	defer q.Leave()
	if s := q.Job().Status(); s.Key != 42 || !s.Running || s.Joined != 1 || q.Job() == late {
		t.Errorf("joined %+v", s)
	}
	late.Invalidate(NotEmulated)
	for _, j := range f.Jobs() {
		if s := j.Status(); s.Reasons != 0 {
			t.Errorf("job of key %d has a reason of a job that is gone", s.Key)
		}
	}
}

func TestAllJobsTaken(t *testing.T) {
	f := newFile(t)
	var parts []*Participant
	for key := range uint64(maxJobs) {
		_, p := joined(t, f, key)
		parts = append(parts, p)
	}
	if len(f.Jobs()) != maxJobs {
		t.Errorf("%d jobs", len(f.Jobs()))
	}
	_, err := f.JoinJob(99)
	checkError(t, err, nil, "join fabric t: it has places for 16 jobs, and all are running: use another fabric")
	if j, err := f.JoinJob(3); err != nil || j != parts[3].Job() {
		t.Errorf("a running job: %v, %v", j, err)
	}
	// The place of the job that ended first is reused first, and cleared.
	for _, i := range []int{5, 2, 9} {
		j := parts[i].Job()
		j.Invalidate(SharedGPU)
		f.jobLinkStats(j.index)[4].Stalls = 7
		parts[i].Leave()
		time.Sleep(time.Microsecond)
	}
	for n, i := range []int{5, 2, 9} {
		j, p := joined(t, f, uint64(1000+n))
		defer p.Leave()
		if j.Index() != parts[i].Job().Index() {
			t.Errorf("new job %d has place %d, want %d", n, j.Index(), parts[i].Job().Index())
		}
		s := j.Status()
		if s.Joined != 1 || s.Left != 0 || s.Reasons != 0 || s.LinkStats[4] != (LinkStats{}) || !s.Running ||
			s.Ended != 0 || s.Number != 1 || j.Nodes() != 1 {
			t.Errorf("new job %d begins with %+v", n, s)
		}
		if !j.Announce() {
			t.Errorf("new job %d was announced before", n)
		}
	}
}

// Jobs that no rank joined, because the ranks were refused or killed, do not fill the
// fabric.
func TestJobsThatNobodyJoins(t *testing.T) {
	f := newFile(t)
	_, p := joined(t, f, 1)
	for key := range uint64(100) {
		if _, err := f.JoinJob(1000 + key); err != nil {
			t.Fatalf("after %d: %v", key, err)
		}
	}
	if s := p.Job().Status(); s.Key != 1 || !s.Running {
		t.Errorf("the job with a rank is %+v", s)
	}
	// After a while they are over.
	if n := len(f.Jobs()); n != maxJobs {
		t.Errorf("%d jobs", n)
	}
	for i := range f.jobs() {
		f.jobs()[i].Started -= int64(joinTime) + 1
	}
	f.Reap()
	for _, j := range f.Jobs() {
		if s := j.Status(); s.Running != (s.Key == 1) {
			t.Errorf("%+v", s)
		}
	}
	p.Leave()
}

// A job that is about to be joined keeps its place longer than one that is over.
func TestJobsThatAreOverGiveWayFirst(t *testing.T) {
	f := newFile(t)
	about, err := f.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	over, p := joined(t, f, 2)
	for key := range uint64(maxJobs - 2) {
		_, p := joined(t, f, 100+key)
		defer p.Leave()
	}
	p.Leave()
	if j, p := joined(t, f, 3); j.Index() != over.Index() {
		t.Errorf("the new job has place %d, not %d", j.Index(), over.Index())
	} else {
		defer p.Leave()
	}
	if j, p := joined(t, f, 1); j != about {
		t.Errorf("the job in %d is now in %d", about.Index(), j.Index())
	} else {
		defer p.Leave()
	}
}

// A job that is over keeps its counters as long as another place is free.
func TestJobsThatAreOverAreKept(t *testing.T) {
	f := newFile(t)
	for key := range uint64(maxJobs + 3) {
		_, p := joined(t, f, key%2)
		p.Leave()
	}
	if n := len(f.Jobs()); n != maxJobs {
		t.Errorf("%d jobs, want %d", n, maxJobs)
	}
	latest := 0
	for _, j := range f.JobsOf(1) {
		latest = max(latest, j.Status().Number)
	}
	if n := len(f.JobsOf(1)); n != 8 || latest != 9 {
		t.Errorf("%d jobs of key 1, up to number %d", n, latest)
	}
}

// Many goroutines of many processes join at once: ranks with one key are in one job.
func TestJoinRaces(t *testing.T) {
	f := newFile(t)
	rounds, goroutines := 30, 4
	if testing.Short() {
		rounds = 8
	}
	var others []*process
	for range 3 {
		p := start(t, "count", f.Dir(), "t", strconv.Itoa(goroutines))
		if got := p.line(); got != "ready" {
			t.Fatal(got)
		}
		others = append(others, p)
	}
	for round := range rounds {
		for _, p := range others {
			fmt.Fprintln(p.in, round)
		}
		places := map[string]int{}
		slots := map[string]bool{}
		own := joinMany(f, uint64(round), goroutines)
		note := func(line string) {
			for _, w := range strings.Fields(line) {
				job, slot, ok := strings.Cut(w, "/")
				if !ok {
					t.Fatalf("round %d: %s", round, line)
				}
				places[job]++
				if slots[slot] {
					t.Errorf("round %d: two have slot %s", round, slot)
				}
				slots[slot] = true
			}
		}
		note(own.String())
		for _, p := range others {
			note(p.line())
		}
		if len(places) != 1 || len(slots) != 4*goroutines {
			t.Fatalf("round %d: %v ranks in these jobs, %d slots", round, places, len(slots))
		}
		jobs := f.JobsOf(uint64(round))
		if len(jobs) != 1 {
			t.Fatalf("round %d: jobs %v", round, jobs)
		}
		if s := jobs[0].Status(); s.Joined != 4*goroutines || s.Left != 0 || s.Died != 0 || !s.Running {
			t.Fatalf("round %d: %+v", round, s)
		}
		// All leave at once: one is the last.
		for _, p := range others {
			fmt.Fprintln(p.in, "leave")
		}
		last := own.leave()
		for _, p := range others {
			last += number(t, p.line())
		}
		if s := jobs[0].Status(); last != 1 || s.Running || s.Left != 4*goroutines || s.Died != 0 || s.Reasons != 0 {
			t.Fatalf("round %d: %d were the last of %+v", round, last, s)
		}
	}
	for _, p := range others {
		p.finish()
	}
}

// many are participants of one process.
type many struct {
	parts []*Participant
	err   error
}

// joinMany joins the job of one key n times at once.
func joinMany(f *File, key uint64, n int) *many {
	m := &many{parts: make([]*Participant, n)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wg.Go(func() {
			j, err := f.JoinJob(key)
			if err == nil {
				m.parts[i], err = f.Join(j, Rank{Rank: i})
			}
			if err != nil {
				mu.Lock()
				m.err = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return m
}

func (m *many) String() string {
	if m.err != nil {
		return m.err.Error()
	}
	var out []string
	for _, p := range m.parts {
		out = append(out, fmt.Sprintf("%d/%d", p.Job().Index(), p.Slot()))
	}
	return strings.Join(out, " ")
}

// leave makes all participants leave at once and counts those that were the last.
func (m *many) leave() int {
	var wg sync.WaitGroup
	last := make([]bool, len(m.parts))
	for i, p := range m.parts {
		wg.Go(func() { last[i] = p.Leave() })
	}
	wg.Wait()
	n := 0
	for _, l := range last {
		if l {
			n++
		}
	}
	return n
}

// countChild joins the jobs whose keys it is sent, with many participants.
func countChild(args []string) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for input.Scan() {
		key, err := strconv.Atoi(input.Text())
		if err != nil {
			return err
		}
		m := joinMany(f, uint64(key), n)
		fmt.Println(m)
		input.Scan()
		fmt.Println(m.leave())
	}
	return nil
}

// The link statistics of each job begin at the offset that the engine in C gets.
func TestLinkStatsOffset(t *testing.T) {
	f := newFile(t)
	seen := map[uint64]bool{}
	for key := range uint64(maxJobs) {
		j, p := joined(t, f, key)
		defer p.Leave()
		off := j.LinkStatsOffset()
		if off%8 != 0 || off < f.head().LinkStatsOff || off+6*uint64(linkStatsSize) > f.head().ParticipantsOff ||
			seen[off] {
			t.Errorf("job %d at %d", j.Index(), off)
		}
		seen[off] = true
		stats := table[LinkStats](f, off, 6)
		stats[5].Aborted = 1000 + key
		if got := j.Status().LinkStats[5].Aborted; got != 1000+key {
			t.Errorf("job %d has %d", j.Index(), got)
		}
	}
}

func TestReasonWords(t *testing.T) {
	if len(reasonWords) != 13 || Deadlocked != 1<<(len(reasonWords)-1) {
		t.Fatalf("%d words, the last reason is %#x", len(reasonWords), Deadlocked)
	}
	for i, w := range reasonWords {
		if d := cmp.Diff([]string{w}, Reason(1<<i).Words()); d != "" {
			t.Error(d)
		}
	}
	if w := Reason(0).Words(); w != nil {
		t.Error(w)
	}
	if w := (PeerDied | SharedGPU | 1<<60).Words(); len(w) != 2 {
		t.Error(w)
	}
}

// Add gives the same, in whatever order and grouping jobs are added.
func TestPropertyAdd(t *testing.T) {
	draw := func(t *rapid.T) JobStatus {
		s := JobStatus{LinkStats: make([]LinkStats, 2), Pauses: make([]Pauses, 2)}
		n := func() int64 { return rapid.Int64Range(0, 1000).Draw(t, "n") }
		s.Joined, s.Left, s.Died, s.Stopped, s.Started, s.Ended = int(n()), int(n()), int(n()), int(n()), n(), n()
		s.Reasons, s.Running, s.NodeSet[n()%4] = Reason(n()), n()%2 == 0, uint64(n())
		c := &s.LinkStats[n()%2]
		k := &c.Size[n()%SizeClasses]
		k.Messages, k.Bytes, k.OverP50, k.OverP99 = uint64(n()), uint64(n()), uint64(n()), uint64(n())
		k.SumLate, k.SumTime, k.MaxLate = n(), n(), n()
		k.Late[n()%LateBuckets] = uint32(n())
		c.ModelBusy, c.WallBusy, c.ModelUntil, c.WallUntil, c.FirstPosted, c.LastVisible, c.Distortion = n(), n(), n(),
			n(), n(), n(), n()
		c.Stalls, c.Aborted, c.HeldSends, c.Broken = uint64(n()), uint64(n()), uint64(n()), uint64(n())
		s.Pauses[n()%2] = Pauses{uint64(n()), n()}
		s.NodeStats = make([]LinkStats, 2)
		s.NodeStats[n()%2].Size[0].SumLate = n()
		return s
	}
	sum := func(all ...JobStatus) JobStatus {
		out := JobStatus{LinkStats: make([]LinkStats, 2), Pauses: make([]Pauses, 2)}
		for i := range all {
			out.Add(&all[i])
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t), draw(t), draw(t)
		equal := cmp.Comparer(func(a, b LinkStats) bool { return a == b })
		if d := cmp.Diff(a, sum(a), equal); d != "" {
			t.Errorf("added to nothing: %s", d)
		}
		if d := cmp.Diff(sum(sum(a, b), c), sum(c, sum(b, a)), equal); d != "" {
			t.Errorf("in another order: %s", d)
		}
		if got := sum(a, b); got.Joined != a.Joined+b.Joined || got.Reasons != a.Reasons|b.Reasons ||
			got.Ended != max(a.Ended, b.Ended) {
			t.Errorf("%+v", got)
		}
	})
}

// A job's pauses are those while it ran: not earlier ones, and not those after its end.
func TestPausesOfAJob(t *testing.T) {
	f := create(t, newDir(t), twoNodes("t"))
	hold := func(ns int64) { f.hops()[1].Counters.Add(link.Counters{Pauses: 1, PausedNs: ns}) }
	hold(100)
	j, p := joined(t, f, 1)
	hold(20)
	check := func(when string, want Pauses) {
		t.Helper()
		if s := j.Status(); s.Pauses[1] != want || s.Pauses[0] != (Pauses{}) {
			t.Errorf("%s: %v, want %v for hop 1", when, s.Pauses, want)
		}
	}
	check("while it ran", Pauses{1, 20})
	before := j.Status()
	hold(3)
	check("later", Pauses{2, 23})
	p.Leave()
	hold(4000)
	check("after its end", Pauses{2, 23})
	after := j.Status()
	after.Subtract(&before)
	if want := (Pauses{1, 3}); after.Pauses[1] != want {
		t.Errorf("since an earlier status: %v, want %v", after.Pauses[1], want)
	}
	j, p = joined(t, f, 1)
	defer p.Leave()
	check("the next job", Pauses{})
}

// With so many links that there is space for few jobs, the header has the number of
// places.
func TestFewJobs(t *testing.T) {
	s := twoNodes("t")
	for range 5000 {
		s.Hops = append(s.Hops, HopSpec{link.Link, 0, 1, link.Spec{MTU: 4096}})
	}
	f := create(t, newDir(t), s)
	if n := len(f.jobs()); n != 2 {
		t.Fatalf("%d jobs", n)
	}
	for key := range uint64(2) {
		_, p := joined(t, f, key)
		defer p.Leave()
	}
	_, err := f.JoinJob(2)
	checkError(t, err, nil, "join fabric t: it has places for 2 jobs, and all are running: use another fabric")
	specs := all(f, link.Spec{MTU: 1500})
	if err := f.Change(specs); err != nil {
		t.Error(err)
	}
}
