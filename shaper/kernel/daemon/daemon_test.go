// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// failingShaper is a shaper whose Follow fails a number of times.
type failingShaper struct{ followed, failures atomic.Int32 }

func (s *failingShaper) Follow() error {
	s.followed.Add(1)
	if s.failures.Add(-1) >= 0 {
		return errors.New("the kernel is busy")
	}
	return nil
}
func (*failingShaper) Tap() tap.Source { return nil }
func (*failingShaper) Count() error    { return nil }
func (*failingShaper) Close() error    { return nil }

// If a change cannot be applied, the fabric stays up, the daemon tries again, and no job is VALID meanwhile.
func TestFailingFollow(t *testing.T) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, fab, "t")
	job, err := file.JoinJob(7)
	if err != nil {
		t.Fatal(err)
	}
	s := &failingShaper{}
	s.failures.Store(3)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, file, s) }()
	latency := time.Millisecond
	// Three failures, then a success.
	for end := time.Now().Add(10 * time.Second); s.followed.Load() < 4 &&
		time.Now().Before(end); time.Sleep(5 * followEvery) {
		if s.followed.Load() > 0 {
			continue
		}
		// serve does not notice a change before its first look at the file.
		latency += time.Millisecond
		if _, err := fabricfile.Shape(file, "*", configs.LinkPatch{Latency: &latency}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil || s.followed.Load() < 4 {
		t.Errorf("followed %d times, ended with %v", s.followed.Load(), err)
	}
	if r := job.Status().Reasons.Words(); len(r) != 1 || !strings.Contains(r[0], "could not be put into force") {
		t.Errorf("the job's reasons: %v", r)
	}
	events := 0
	for _, e := range file.Events() {
		if strings.Contains(e.Text, "the kernel is busy") {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events, want 1: %v", events, file.Events())
	}
}

// countingShaper is a shaper that adds one packet to the statistics of a link at each call of Count.
type countingShaper struct {
	failingShaper
	stats   *state.LinkStats
	counted atomic.Int32
}

func (s *countingShaper) Count() error {
	s.stats.CountDelivery(1000, 10, 20, 20, 1)
	s.counted.Add(1)
	return nil
}

// A job's share of all traffic ends at the first call of Count after the job's end.
func TestTrafficEndsWithJob(t *testing.T) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath = configs.Kernel
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, fab, "t")
	join := func(key uint64, r state.Rank) *state.Participant {
		t.Helper()
		j, err := file.JoinJob(key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := file.Join(j, r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	traffic := join(state.TrafficKey, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank}).Job()
	hop := fab.Link(0, 1)
	rank := join(7, state.Rank{})
	rank.Leave()
	s := &countingShaper{stats: &traffic.LinkStats()[hop]}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, file, s) }()
	rank.Job().WaitCounted()
	for end := time.Now().Add(10 * time.Second); s.counted.Load() < 3 &&
		time.Now().Before(end); time.Sleep(followEvery) {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got, ok := rank.Job().TrafficDuring(traffic.Status())
	if n := got.LinkStats[hop].Size[0].Messages; !ok || n != 1 {
		t.Errorf("the job has %d packets, want 1 of %d", n, s.counted.Load())
	}
}

// The daemon of a job's own fabric ends when the command that made it was killed and no rank is left. That of a fabric
// which a user brought up goes on.
func TestOrphanedFabric(t *testing.T) {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, ends := range map[string]bool{state.JobPrefix + "bench-1": true, "mine": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := statetest.New(t, fab, name)
			job, err := file.JoinJob(7)
			if err != nil {
				t.Fatal(err)
			}
			rank, err := file.Join(job, state.Rank{World: 1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- serve(ctx, file, &failingShaper{}) }()
			select {
			case err := <-ended:
				t.Fatalf("it ended with a rank: %v", err)
			case <-time.After(3 * orphanEvery):
			}
			rank.Leave()
			select {
			case err := <-ended:
				if !ends || err != nil {
					t.Errorf("it ended: %v", err)
				}
			case <-time.After(3 * orphanEvery):
				if ends {
					t.Error("it goes on without anybody who can use the fabric")
				}
			}
			cancel()
			if !ends {
				<-ended
			}
		})
	}
}
