// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"testing/synctest"
	"time"
)

// kernelFile is a fabric of the kernel datapath, whose daemon is this process, and the
// link statistics of all its traffic.
func kernelFile(t *testing.T) (*File, []LinkStats) {
	t.Helper()
	s := twoNodes("t")
	s.Kernel = true
	f := create(t, newDir(t), s)
	j, err := f.JoinJob(TrafficKey)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Join(j, Rank{Rank: DaemonRank, Node: DaemonRank})
	if err != nil {
		t.Fatal(err)
	}
	return f, p.Job().LinkStats()
}

// pass counts n packets on hop 4, each with the given lateness.
func pass(stats []LinkStats, n int, late int64) {
	for range n {
		stats[4].CountDelivery(1000, 10, 20, 20+late, 1)
	}
}

// crossed is how many packets crossed hop 4 while j ran.
func crossed(t *testing.T, f *File, j Job) uint64 {
	t.Helper()
	for _, k := range f.Jobs() {
		if k.Traffic() {
			s, ok := j.TrafficDuring(k.Status())
			if !ok {
				t.Error("the job has lost its place")
			}
			return s.LinkStats[4].Size[0].Messages
		}
	}
	t.Fatal("no job of all traffic")
	return 0
}

// A job has the packets from when its first rank joins to when its last one leaves.
func TestMarks(t *testing.T) {
	f, stats := kernelFile(t)
	pass(stats, 1, 0)
	a, p := joined(t, f, 1)
	pass(stats, 10, 0)
	_, q := joined(t, f, 1)
	pass(stats, 100, 0)
	p.Leave()
	if got := f.AwaitingSnapshot(); len(got) != 0 {
		t.Errorf("%d jobs are over, but a rank is left", len(got))
	}
	q.Leave()
	if n := crossed(t, f, a); n != 110 {
		t.Errorf("%d packets before the end is marked, want 110", n)
	}
	// The packets that the daemon counts next were in flight when the job ended.
	over := f.AwaitingSnapshot()
	pass(stats, 1000, 0)
	f.TakeEndSnapshots(over)
	if n := len(f.AwaitingSnapshot()); n != 0 {
		t.Errorf("%d jobs have no end", n)
	}
	pass(stats, 10_000, 0)
	if n := crossed(t, f, a); n != 1110 {
		t.Errorf("%d packets, want 1110", n)
	}
	b, r := joined(t, f, 2)
	pass(stats, 5, 0)
	r.Leave()
	if n := crossed(t, f, b); n != 5 {
		t.Errorf("%d packets of the next job, want 5", n)
	}
}

// A rank that joins just after all others have left continues the same job.
func TestMarksOfAJobThatGoesOn(t *testing.T) {
	f, stats := kernelFile(t)
	pass(stats, 1, 0)
	j, p := joined(t, f, 1)
	pass(stats, 10, 0)
	p.Leave()
	over := f.AwaitingSnapshot()
	f.TakeEndSnapshots(over)
	pass(stats, 100, 0)
	q, err := f.Join(j, Rank{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Leave()
	f.TakeEndSnapshots(over) // too late: it runs
	pass(stats, 1000, 0)
	if n := crossed(t, f, j); n != 1110 {
		t.Errorf("%d packets, want 1110", n)
	}
}

// A job that nobody joined begins with its first rank.
func TestMarksOfAJobThatWaits(t *testing.T) {
	f, stats := kernelFile(t)
	j, err := f.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	pass(stats, 10, 0)
	p, err := f.Join(j, Rank{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	pass(stats, 1, 0)
	if n := crossed(t, f, j); n != 1 {
		t.Errorf("%d packets, want 1", n)
	}
}

// WaitCounted waits for the daemon, unless there is none.
func TestSettle(t *testing.T) {
	f, _ := kernelFile(t)
	j, p := joined(t, f, 1)
	j.WaitCounted() // it runs
	p.Leave()
	shm := newFile(t)
	k, q := joined(t, shm, 1)
	q.Leave()
	synctest.Test(t, func(t *testing.T) { // its clock goes on only while all sleep
		begin := time.Now()
		if k.WaitCounted(); time.Since(begin) != 0 {
			t.Errorf("waited %v where nobody counts", time.Since(begin))
		}
		if j.WaitCounted(); time.Since(begin) != countWait {
			t.Errorf("waited %v for a daemon that is dead, want %v", time.Since(begin), countWait)
		}
		begin = time.Now()
		const counted = 50 * time.Millisecond
		go func() {
			time.Sleep(counted)
			f.TakeEndSnapshots(f.AwaitingSnapshot())
		}()
		if j.WaitCounted(); time.Since(begin) < counted || time.Since(begin) > counted+time.Millisecond ||
			len(f.AwaitingSnapshot()) != 0 {
			t.Errorf("waited %v for the daemon's snapshots, want %v", time.Since(begin), counted)
		}
	})
}

func TestQuantile(t *testing.T) {
	top := func(late int64) int64 { return BucketFloor(Bucket(late)+1) - 1 }
	for _, tc := range []struct {
		late       []int64
		part       float64
		most, want int64
	}{
		{[]int64{1000}, 1, 1000, 1000},
		{[]int64{1000}, 1, 1 << 40, top(1000)},
		{[]int64{0}, 1, 5000, 0},
		{[]int64{1 << 50}, 1, 1 << 50, 1 << 50},
		{[]int64{10, 1000, 1 << 20}, 0.5, 1 << 20, top(1000)},
		{[]int64{10, 1000, 1 << 20, 1 << 21}, 0.5, 1 << 21, top(1000)},
		{[]int64{10, 1000, 1 << 20}, 0.99, 1 << 20, 1 << 20},
	} {
		var h [LateBuckets]uint32
		for _, late := range tc.late {
			h[Bucket(late)]++
		}
		if got, ok := Quantile(&h, tc.part, tc.most); got != tc.want || !ok {
			t.Errorf("%g of %d, at most %d: %d, %v, want %d", tc.part, tc.late, tc.most, got, ok, tc.want)
		}
	}
	if got, ok := Quantile(&[LateBuckets]uint32{}, 1, 1000); got != 0 || ok {
		t.Errorf("of none: %d, %v", got, ok)
	}
}
