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
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/state/statetest"
)

// stubborn is a shaper that fails to follow for a while.
type stubborn struct{ followed, failures atomic.Int32 }

func (s *stubborn) Follow() error {
	s.followed.Add(1)
	if s.failures.Add(-1) >= 0 {
		return errors.New("the kernel is busy")
	}
	return nil
}
func (*stubborn) Count() error { return nil }
func (*stubborn) Close() error { return nil }

// A change that cannot be put into force does not take the fabric down: it is tried
// again, and until then no job is VALID.
func TestChangeThatFails(t *testing.T) {
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
	s := &stubborn{}
	s.failures.Store(3)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- follow(ctx, file, s) }()
	late := time.Millisecond
	// Three failures, then it is in force.
	for end := time.Now().Add(10 * time.Second); s.followed.Load() < 4 && time.Now().Before(end); time.Sleep(5 * followEvery) {
		if s.followed.Load() > 0 {
			continue
		}
		// A change from before it looked for the first time is none to it.
		late += time.Millisecond
		if _, err := live.Shape(file, "*", configs.LinkPatch{Latency: &late}); err != nil {
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
	told := 0
	for _, e := range file.Events() {
		if strings.Contains(e.Text, "the kernel is busy") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times: %v", told, file.Events())
	}
}

// sampling is a shaper that counts a packet whenever it is asked.
type sampling struct {
	stubborn
	cell  *state.Cell
	asked atomic.Int32
}

func (s *sampling) Count() error {
	s.cell.Judge(1000, 10, 20, 20, 1)
	s.asked.Add(1)
	return nil
}

// The traffic of a job ends with the first count after the job's end.
func TestEndOfAJobsTraffic(t *testing.T) {
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
	s := &sampling{cell: &traffic.Cells()[hop]}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- follow(ctx, file, s) }()
	rank.Job().Settle()
	for end := time.Now().Add(10 * time.Second); s.asked.Load() < 3 && time.Now().Before(end); time.Sleep(followEvery) {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got, ok := rank.Job().Crossed(traffic.Status())
	if n := got.Cells[hop].Size[0].Messages; !ok || n != 1 {
		t.Errorf("%d packets are the job's, want 1 of %d", n, s.asked.Load())
	}
}
