// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// churnChild does everything that a process does with a fabric, again and again, until it
// is killed at any instant.
func churnChild(args []string) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	fmt.Println("ready")
	for {
		j, err := f.JoinJob(r.Uint64N(4))
		if err != nil {
			return err
		}
		p, err := f.Join(j, Rank{Rank: r.IntN(8), Budget: 1 << 20})
		if err != nil {
			return err
		}
		if p.Reserve(4096); r.IntN(2) == 0 {
			if err := f.Change(map[int]link.Spec{r.IntN(6): family(r.IntN(1000)),
				r.IntN(6): family(r.IntN(1000))}); err != nil {
				return err
			}
		}
		if err := checkHops(f, -1); err != nil {
			return err
		}
		f.Event(eventText(int(seed), r.IntN(1000)))
		f.Reap()
		p.Leave()
	}
}

// After processes were killed at any instant, the others find no lock, no lost slot or
// job, no mixture of parameters, and no participant dead that is alive.
func TestKilledAtAnyInstant(t *testing.T) {
	f := newFile(t)
	const mine = 77
	_, me := joined(t, f, mine)
	witness, slot := member(t, f, mine)
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var running []*process
	for round := range rounds {
		p := start(t, "churn", f.Dir(), "t", strconv.Itoa(round))
		if got := p.line(); got != "ready" {
			t.Fatal(got)
		}
		if running = append(running, p); len(running) < 3 {
			continue
		}
		time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
		running[0].kill()
		for said := range running[0].lines {
			t.Fatalf("round %d: a child says: %s", round, said)
		}
		running = running[1:]
		checkUsable(t, f, round)
		if !f.Alive(slot) || !f.Alive(me.Slot()) {
			t.Fatalf("round %d: a process that is alive is not", round)
		}
	}
	for _, p := range running {
		p.kill()
	}
	for i := range f.jobs() {
		f.jobs()[i].Started -= int64(joinTime) // those that no rank joined in time
	}
	f.Reap()
	if parts := f.Participants(); len(parts) != 2 {
		t.Errorf("left over: %+v", parts)
	}
	for i := range f.jobs() {
		if e := &f.jobs()[i]; e.State == jobOn && e.Key != mine {
			t.Errorf("job %d of key %d still runs: %+v", i, e.Key, *e)
		}
	}
	for slot := range maxParticipants {
		if e := &f.participants()[slot]; e.State != slotFree && slot != me.Slot() && slot != int(witness.slot(t, f)) {
			t.Errorf("slot %d is lost", slot)
		}
	}
	if s := me.Job().Status(); s.Joined != 2 || s.Died != 0 || s.Reasons != 0 || !s.Running {
		t.Errorf("the job in which nobody died: %+v", s)
	}
	if got := witness.ask("leave"); got != "false" {
		t.Errorf("the witness is the last: %s", got)
	}
	if !me.Leave() {
		t.Error("not the last")
	}
	for _, e := range f.Events() {
		if err := checkEvent(e.Text); err != nil && !isDeath(e.Text) {
			t.Error(err)
		}
	}
}

// slot is the slot of the process, by its number.
func (p *process) slot(t testing.TB, f *File) int {
	t.Helper()
	for _, s := range f.Participants() {
		if s.PID == p.cmd.Process.Pid {
			return s.Slot
		}
	}
	t.Fatal("it does not take part")
	return -1
}

func isDeath(text string) bool {
	var rank, node int
	n, _ := fmt.Sscanf(text, "rank %d (node %d) died", &rank, &node)
	return n == 2
}

// checkUsable does in this process what the killed one did.
func checkUsable(t *testing.T, f *File, round int) {
	t.Helper()
	begin := time.Now()
	f.Reap()
	if err := f.Change(map[int]link.Spec{round % 6: family(round)}); err != nil {
		t.Fatal(err)
	}
	if err := checkHops(f, -1); err != nil {
		t.Fatal(err)
	}
	checkBlocks(t, f)
	_, p := joined(t, f, uint64(500+round))
	if !p.Leave() {
		t.Error("alone in a job, but not the last")
	}
	// This waits for the work of other processes, not for a lock without an owner.
	if took := time.Since(begin); took > 3*time.Second {
		t.Fatalf("round %d took %v", round, took)
	}
}

// createChild brings fabrics up and down until it is killed.
func createChild(args []string) error {
	d, err := OpenDir(args[0], os.Getuid(), false)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		f, err := d.Create(twoNodes(args[1]))
		if err != nil {
			return err
		}
		f.TakeDown()
		if err := d.Remove(args[1]); err != nil {
			return err
		}
		f.Close()
	}
}

// A process that is killed while it brings a fabric up leaves a complete one or
// none.
func TestKilledWhileCreating(t *testing.T) {
	d := newDir(t)
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for range rounds {
		p := start(t, "create", d.Path, "t")
		if got := p.line(); got != "ready" {
			t.Fatal(got)
		}
		time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond)
		p.kill()
		for said := range p.lines {
			t.Fatal(said)
		}
		files, err := d.files()
		if err != nil || len(files) > 1 {
			t.Fatalf("left behind: %v %v", files, err)
		}
		if len(files) == 1 {
			f, err := d.Open("t")
			if err != nil {
				t.Fatal(err)
			}
			s := twoNodes("t")
			if got := f.Hops(); len(got) != len(s.Hops) || checkHops(f, 1) != nil {
				t.Errorf("%+v", got)
			}
			f.Close()
			if err := d.Remove("t"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
