// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// bringUp brings up a fabric of a file.
func bringUp(t *testing.T, path, datapath string) (*state.File, *fabric.Fabric) {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: path, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath = datapath
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return statetest.New(t, fab, "up"), fab
}

// join makes this process a rank of a job.
func join(t *testing.T, file *state.File, key uint64, rank int) *state.Participant {
	t.Helper()
	j, err := file.JoinJob(key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Join(j, state.Rank{Rank: rank, World: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Leave() })
	return p
}

func deliver(j state.Job, hop int, messages int) {
	j.LinkStats()[hop].FirstPosted = 1
	for range messages {
		j.LinkStats()[hop].CountDelivery(1000, 1, 2, 3, 1)
	}
}

// The messages of a link are those of the trunks on its path too, and of no port.
func TestMessagesOfTrunks(t *testing.T) {
	file, fab := bringUp(t, "../../../configs/examples/leaf-spine.yaml", configs.Shm)
	src, dst := 0, fab.NICs()-1
	deliver(join(t, file, 7, 0).Job(), fab.Link(src, dst), 3)
	f, err := status.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	onPath := map[int]bool{}
	for _, hop := range fabric.Hops(fab.Path(src, dst)) {
		onPath[hop] = true
	}
	trunks := 0
	for i, h := range f.Hops {
		want := uint64(0)
		if onPath[i] && !h.IsPort() {
			want = 3
		}
		if h.Messages != want {
			t.Errorf("%s has %d messages, want %d", h.Name, h.Messages, want)
		}
		if h.Kind == link.Trunk && want > 0 {
			trunks++
		}
	}
	if trunks == 0 || f.Jobs[0].Messages != 3 || f.Jobs[0].Bytes != 3000 || len(f.Participants) != 1 {
		t.Errorf("%d trunks, %+v, %+v", trunks, f.Jobs[0], f.Participants)
	}
}

// The daemon of the kernel datapath counts packets as the messages of its job. They are not those of links, and it is
// no rank.
func TestPacketsAreNoMessages(t *testing.T) {
	file, fab := bringUp(t, "eth1", configs.Kernel)
	hop := fab.Link(0, 1)
	deliver(join(t, file, state.TrafficKey, state.DaemonRank).Job(), hop, 100)
	deliver(join(t, file, 7, 0).Job(), hop, 2)
	f, err := status.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Hops[hop].Messages; got != 2 || len(f.Participants) != 1 || !f.Jobs[0].Traffic ||
		f.Jobs[0].Messages != 100 {
		t.Errorf("%d messages, participants %+v, jobs %+v", got, f.Participants, f.Jobs)
	}
	if f.Problem == "" { // this process does not serve the fabric
		t.Error("nothing is said of the daemon, which is gone")
	}
}

// A reading has the parameters of its moment, and times of the emulated network.
func TestReadings(t *testing.T) {
	file, fab := bringUp(t, "eth1", configs.Shm)
	hop, down := fab.Link(0, 1), false
	r := status.NewReader(file, fab)
	before := r.Read()
	if _, err := fabricfile.Shape(file, "node0>node1", configs.LinkPatch{Up: &down}); err != nil {
		t.Fatal(err)
	}
	file.Count(hop, link.Counters{Bytes: 5, PausedNs: 400})
	file.Entry(hop).NextFree = file.Now() + int64(time.Hour)
	after := r.Read()
	if b, a := before.Hops[hop], after.Hops[hop]; b.Spec.Down || b.Changed || b.Bytes != 0 || !a.Spec.Down ||
		!a.Changed || a.Bytes != 5 || a.Reserved < 59*time.Minute {
		t.Errorf("got %+v, then %+v", b, a)
	}
	if before.Fabric.Hops[hop].Spec.Down || !after.Fabric.Hops[hop].Spec.Down || fab.Hops[hop].Spec.Down {
		t.Error("a reading changed another one, or the fabric that the reader was given")
	}
	if after.LastJob() != nil {
		t.Errorf("a job: %+v", after.LastJob())
	}
	p := join(t, file, state.VerifyKey, 0)
	q := join(t, file, 7, 0)
	if j := r.Read().LastJob(); j == nil || j.Number != q.Job().Index() {
		t.Errorf("the last job is %+v", j)
	}
	whole, counters := r.Read(), r.ReadCounters()
	if diff := cmp.Diff(whole.Hops, counters.Hops, cmpopts.IgnoreFields(status.HopReading{}, "Reserved")); diff != "" {
		t.Error(diff)
	}
	if len(counters.Jobs) != 2 || counters.LastJob().ID() != whole.LastJob().ID() || counters.Created != whole.Created ||
		counters.Time < whole.Time {
		t.Errorf("the counters alone: %+v", counters)
	}
	if jobs := r.ReadJob(p.Job()).Jobs; len(jobs) != 1 || jobs[0].Number != p.Job().Index() {
		t.Errorf("of one job: %+v", jobs)
	}
}
