// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// memberChild takes part in a job until it is told to leave, or ends without.
func memberChild(args []string) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	key, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	j, err := f.JoinJob(key)
	if err != nil {
		return err
	}
	p, err := f.Join(j, Rank{Rank: 7, Node: 1, World: 8, GPU: "0000:3b:00.0", Budget: 1 << 30})
	if err != nil {
		return err
	}
	fmt.Println(p.Slot())
	for input.Scan() {
		switch input.Text() {
		case "leave":
			fmt.Println(p.Leave())
		case "alive":
			fmt.Println(f.Alive(p.Slot()))
		}
	}
	return nil
}

// member starts a process that takes part in job 1.
func member(t testing.TB, f *File, key uint64) (*process, int) {
	t.Helper()
	p := start(t, "member", f.Dir(), f.Name(), strconv.FormatUint(key, 10))
	return p, number(t, p.line())
}

// A rank that ends badly has failed if it never had a communicator or a connection.
func TestFailed(t *testing.T) {
	for name, tc := range map[string]struct {
		had  func(p *Participant)
		want int
	}{
		"nothing":        {func(*Participant) {}, 1},
		"a communicator": {func(p *Participant) { p.AddCommunicator(); p.RemoveCommunicator() }, 0},
		"a connection":   {(*Participant).NotePast, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t)
			j, err := f.JoinJob(1)
			if err != nil {
				t.Fatal(err)
			}
			p, err := f.Join(j, Rank{Rank: 3, World: 4})
			if err != nil {
				t.Fatal(err)
			}
			tc.had(p)
			if got := f.Participants()[0].Starting; got != (tc.want > 0) {
				t.Errorf("starting: %t", got)
			}
			if got := f.HasStarting(); got != (tc.want > 0) {
				t.Errorf("has one that starts: %t", got)
			}
			p.ExitsBadly()
			p.Leave()
			if f.HasStarting() {
				t.Error("one that has left starts")
			}
			if count, last := j.Failed(); count != tc.want || count > 0 && last != 3 {
				t.Errorf("%d failed, the last is rank %d", count, last)
			}
		})
	}
}

func TestParticipants(t *testing.T) {
	f := newFile(t)
	j, p := joined(t, f, 1)
	if !p.Reserve(100) {
		t.Error("100 bytes of 1 MiB do not fit")
	}
	other, slot := member(t, f, 1)
	want := []ParticipantStatus{
		{Slot: p.Slot(), PID: os.Getpid(), Job: j.Index(), World: 1, Alive: true, Starting: true,
			Joined: p.Generation(), Rings: 100, Budget: 1 << 20},
		{Slot: slot, PID: other.cmd.Process.Pid, Job: j.Index(), Rank: 7, Node: 1, World: 8, Alive: true,
			Starting: true, Joined: f.Generation(slot), Budget: 1 << 30, GPU: "0000:3b:00.0"},
	}
	if d := cmp.Diff(want, f.Participants()); d != "" {
		t.Error(d)
	}
	if got := other.ask("alive"); got != "true" {
		t.Errorf("alive in its own eyes: %s", got)
	}
	for _, slot := range []int{-1, maxParticipants, 5} {
		if f.Alive(slot) {
			t.Errorf("slot %d is alive", slot)
		}
	}
	if got := other.ask("leave"); got != "false" {
		t.Errorf("the first to leave is the last: %s", got)
	}
	if f.Alive(slot) || len(f.Participants()) != 1 {
		t.Error("left, but still there")
	}
	// It goes on as a process that does not take part.
	if dead := f.Reap(); dead != nil {
		t.Errorf("reaped %v", dead)
	}
	other.finish()
	if !p.Leave() {
		t.Error("the last to leave is not told so")
	}
	if s := j.Status(); s.Joined != 2 || s.Left != 2 || s.Died != 0 || s.Reasons != 0 || s.Running {
		t.Errorf("%+v", s)
	}
}

// In whatever manner a process ends without leaving, its death is noticed once, its slot
// becomes free, and its job becomes INVALID.
func TestDeath(t *testing.T) {
	for name, end := range map[string]func(p *process){
		"killed":            func(p *process) { p.kill() },
		"ended by itself":   func(p *process) { p.finish() },
		"stopped, then hit": func(p *process) { p.cmd.Process.Signal(syscall.SIGSTOP); p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t)
			j, me := joined(t, f, 1)
			p, slot := member(t, f, 1)
			generation := f.Generation(slot)
			if dead := f.Reap(); dead != nil || !f.Alive(slot) || !f.Lives(slot, generation) {
				t.Fatalf("reaped %v while alive", dead)
			}
			end(p)
			if f.Alive(slot) {
				t.Error("alive after its end")
			}
			if parts := f.Participants(); len(parts) != 2 || parts[1].Alive {
				t.Errorf("not yet reaped: %+v", parts)
			}
			if dead := f.Reap(); len(dead) != 1 || dead[0] != slot {
				t.Errorf("reaped %v, want slot %d", dead, slot)
			}
			if dead := f.Reap(); dead != nil {
				t.Errorf("reaped %v again", dead)
			}
			if s := j.Status(); s.Joined != 2 || s.Died != 1 || s.Left != 0 || s.Reasons != PeerDied || !s.Running {
				t.Errorf("%+v", s)
			}
			if e := f.Events(); len(e) != 1 || e[0].Text != "rank 7 (node 1) died" {
				t.Errorf("events %v", e)
			}
			if _, next := member(t, f, 1); next != slot {
				t.Errorf("the next takes slot %d, not %d", next, slot)
			}
			if !f.Alive(slot) || f.Lives(slot, generation) || !f.Lives(slot, f.Generation(slot)) {
				t.Error("the next is taken for the one that died")
			}
			if me.Leave() {
				t.Error("the last, though another has come")
			}
		})
	}
}

// A participant that looks after one other at a time sees each death: that of the next one at once.
func TestReapNext(t *testing.T) {
	f := newFile(t)
	j, me := joined(t, f, 1)
	var all []*process
	for range 5 {
		p, _ := member(t, f, 1)
		all = append(all, p)
	}
	for range 20 {
		me.ReapNext()
	}
	if n := len(f.Participants()); n != 6 {
		t.Fatalf("%d participants are left, and all live", n)
	}
	all[0].kill()
	if me.ReapNext(); j.Status().Died != 1 {
		t.Error("the death of the next participant was not seen")
	}
	all[3].kill()
	for range len(f.Participants()) {
		me.ReapNext()
	}
	if j.Status().Died != 2 || len(f.Participants()) != 4 {
		t.Errorf("the death of another participant was not seen: %+v", j.Status())
	}
}

// Ranks that end after their launcher began to end them have not died, and do not make their job INVALID. Those that
// died before have.
func TestEndedByTheLauncher(t *testing.T) {
	f := newFile(t)
	j, me := joined(t, f, 1)
	other, them := joined(t, f, 2)
	defer them.Leave()
	first, _ := member(t, f, 1)
	second, _ := member(t, f, 1)
	third, _ := member(t, f, 2)
	first.kill()
	f.Reap()
	f.StopJobs(1)
	second.kill()
	third.kill()
	f.Reap()
	if s := j.Status(); s.Joined != 3 || s.Died != 1 || s.Stopped != 1 || s.Reasons != PeerDied || !s.Running {
		t.Errorf("%+v", s)
	}
	if s := other.Status(); s.Died != 1 || s.Stopped != 0 || s.Reasons != PeerDied {
		t.Errorf("the other job: %+v", s)
	}
	if e := f.Events(); len(e) != 3 || e[1].Text != "rank 7 (node 1) ended: its launcher stopped the job" {
		t.Errorf("events %v", e)
	}
	if !me.Leave() || j.Status().Running || j.Status().Left != 1 {
		t.Errorf("%+v", j.Status())
	}
	// The next program of the job begins anew.
	again, me := joined(t, f, 1)
	if s := again.Status(); s.Died != 0 || s.Stopped != 0 || s.Stopping {
		t.Errorf("the next: %+v", s)
	}
	me.Leave()
}

// Deaths that nobody has noted count as they will.
func TestDeathsNotNoted(t *testing.T) {
	for _, stopping := range []bool{false, true} {
		s := JobStatus{Stopping: stopping}
		s.AddDead(Dead{})
		if s.Died+s.Stopped != 0 || s.Reasons != 0 {
			t.Errorf("no death: %+v", s)
		}
		if s.AddDead(Dead{All: 2, Expected: 2}); s.Died+s.Stopped != 2 || (s.Died == 2) == stopping || s.Reasons != 0 {
			t.Errorf("stopping %v, as expected: %+v", stopping, s)
		}
		s = JobStatus{Stopping: stopping}
		if s.AddDead(Dead{All: 2, Expected: 1}); s.Died+s.Stopped != 2 || (s.Died == 2) == stopping ||
			(s.Reasons == PeerDied) == stopping {
			t.Errorf("stopping %v: %+v", stopping, s)
		}
	}
}

// A rank that died is missed if it had a communicator, or had not had one yet, and if no other process has its rank. A
// rank that joins after a death does not miss it.
func TestLostRanks(t *testing.T) {
	f := newFile(t)
	j, me := joined(t, f, 1)
	die := func(prepare func(*participantEntry)) {
		t.Helper()
		p, slot := member(t, f, 1)
		prepare(&f.participants()[slot])
		p.kill()
		f.Reap()
	}
	die(func(e *participantEntry) { e.Communicators, e.HadOne = 0, 1 })
	if n := j.Lost(); n != 0 {
		t.Errorf("a rank without communicators is missed: %d", n)
	}
	old, _ := member(t, f, 1)
	next, _ := member(t, f, 1) // the same rank, 7
	old.kill()
	f.Reap()
	if n := j.Lost(); n != 0 {
		t.Errorf("a rank that another process has by now is missed: %d", n)
	}
	next.kill()
	f.Reap()
	die(func(e *participantEntry) { e.Communicators, e.HadOne, e.Rank = 1, 1, 5 })
	if n := j.Lost(); n != 2 || j.LostRank(0) != 7 || j.LostRank(1) != 5 {
		t.Errorf("%d lost ranks, %d and %d; want 7 and 5", n, j.LostRank(0), j.LostRank(1))
	}
	later, err := f.Join(j, Rank{})
	if err != nil {
		t.Fatal(err)
	}
	defer later.Leave()
	if me.LostBefore() != 0 || later.LostBefore() != 2 {
		t.Errorf("lost before they joined: %d and %d", me.LostBefore(), later.LostBefore())
	}
	later.AddCommunicator()
	later.AddCommunicator()
	later.RemoveCommunicator()
	if n := later.Communicators(); n != 1 {
		t.Errorf("%d communicators", n)
	}
}

// If all others have died, the one that leaves is the last, whether or not their deaths
// have been noticed.
func TestLastAfterDeaths(t *testing.T) {
	f := newFile(t)
	j, me := joined(t, f, 1)
	for range 2 {
		p, _ := member(t, f, 1)
		p.kill()
	}
	if !me.Leave() {
		t.Error("not the last")
	}
	if s := j.Status(); s.Running || s.Died != 2 || s.Left != 1 || s.Reasons != PeerDied {
		t.Errorf("%+v", s)
	}
	// If all are dead, the next Reap ends the job.
	p, _ := member(t, f, 2)
	p.kill()
	f.Reap()
	if s := f.JobsOf(2)[0].Status(); s.Running || s.Died != 1 || s.Ended == 0 {
		t.Errorf("%+v", s)
	}
}

// A process that is stopped is alive, for any time.
func TestStoppedIsAlive(t *testing.T) {
	f := newFile(t)
	p, slot := member(t, f, 1)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(b), ") T ")
	})
	for range 20 {
		if dead := f.Reap(); dead != nil || !f.Alive(slot) {
			t.Fatalf("reaped %v", dead)
		}
		time.Sleep(time.Millisecond)
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := p.ask("leave"); got != "true" {
		t.Errorf("left, and was the last: %s", got)
	}
}

// forkChild takes part, and forks a process that inherits its open file and
// outlives it. It prints its slot and the fork's process number.
func forkChild(args []string) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	j, err := f.JoinJob(1)
	if err != nil {
		return err
	}
	p, err := f.Join(j, Rank{})
	if err != nil {
		return err
	}
	// Only raw system calls in the fork: it has the memory but not the threads.
	minute := unix.Timespec{Sec: 60}
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		syscall.RawSyscall(unix.SYS_CLOSE, 0, 0, 0)
		syscall.RawSyscall(unix.SYS_CLOSE, 1, 0, 0)
		syscall.RawSyscall(unix.SYS_CLOSE, 2, 0, 0)
		pause(&minute)
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	fmt.Println(p.Slot())
	fmt.Println(pid)
	input.Scan()
	return nil
}

// A fork of a rank, such as a data loader, keeps the fabric's file open but does
// not keep its parent alive in it.
func TestForkDoesNotKeepTheSlot(t *testing.T) {
	f := newFile(t)
	p := start(t, "fork", f.Dir(), "t")
	slot, fork := number(t, p.line()), number(t, p.line())
	t.Cleanup(func() { syscall.Kill(fork, syscall.SIGKILL) })
	if !f.Alive(slot) {
		t.Fatal("not alive")
	}
	p.kill()
	if err := syscall.Kill(fork, 0); err != nil {
		t.Fatalf("the fork is gone: %v", err)
	}
	if link, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", fork)); len(link) == 0 {
		t.Fatal("the fork has no file open")
	}
	if dead := f.Reap(); len(dead) != 1 || dead[0] != slot {
		t.Errorf("reaped %v", dead)
	}
}

func TestAllSlotsTaken(t *testing.T) {
	f := newFile(t)
	j, first := joined(t, f, 1)
	p, slot := member(t, f, 1)
	parts := []*Participant{first}
	for {
		p, err := f.Join(j, Rank{})
		if err != nil {
			checkError(t, err, nil, "join fabric t: all 512 places are in use: use another fabric")
			break
		}
		parts = append(parts, p)
	}
	if len(parts) != maxParticipants-1 || len(f.Participants()) != maxParticipants {
		t.Errorf("%d and %d places", len(parts), len(f.Participants()))
	}
	// The slots of a participant that died and of one that left are free.
	p.kill()
	for _, free := range []int{slot, parts[100].Slot()} {
		p, err := f.Join(j, Rank{})
		if err != nil || p.Slot() != free {
			t.Fatalf("%v, %v, want slot %d", p, err, free)
		}
		parts[100].Leave()
		defer p.Leave()
	}
	for _, p := range parts {
		if p.Leave() {
			t.Error("the last, while two are left")
		}
	}
}

// Goroutines join, leave and read at once: no participant is declared dead.
func TestGoroutinesJoinAndLeave(t *testing.T) {
	f := newFile(t)
	j, me := joined(t, f, 1)
	span := 500 * time.Millisecond
	if testing.Short() {
		span = 100 * time.Millisecond
	}
	end := time.Now().Add(span)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for time.Now().Before(end) {
				p, err := f.Join(j, Rank{Rank: i})
				if err != nil {
					t.Error(err)
					return
				}
				if !f.Alive(p.Slot()) {
					t.Error("joined, but not alive")
				}
				if p.Leave() {
					t.Error("the last, though another is there all the time")
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if dead := f.Reap(); dead != nil {
					t.Errorf("reaped %v", dead)
				}
			}
		})
	}
	wg.Wait()
	if s := j.Status(); s.Died != 0 || s.Left != s.Joined-1 || s.Left == 0 || s.Reasons != 0 {
		t.Errorf("%+v", s)
	}
	if !me.Leave() {
		t.Error("not the last")
	}
}

// Closing the file ends this process's participation, for itself and for others.
func TestCloseEndsLiveness(t *testing.T) {
	d := newDir(t)
	f := create(t, d, twoNodes("t"))
	_, p := joined(t, f, 1)
	f.Close()
	g, err := d.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Alive(p.Slot()) {
		t.Error("alive after the file was closed")
	}
	if dead := g.Reap(); len(dead) != 1 {
		t.Errorf("reaped %v", dead)
	}
	if _, q := joined(t, g, 1); q.Slot() != p.Slot() {
		t.Errorf("slot %d was not freed", p.Slot())
	}
}

// Two fabrics in one process have separate slots.
func TestSlotsAreOfOneFabric(t *testing.T) {
	d := newDir(t)
	f, g := create(t, d, twoNodes("f")), create(t, d, twoNodes("g"))
	_, p := joined(t, f, 1)
	if p.Slot() != 0 || !f.Alive(0) || g.Alive(0) {
		t.Errorf("slot %d, alive %v and %v", p.Slot(), f.Alive(0), g.Alive(0))
	}
	g.Close()
	if !f.Alive(0) {
		t.Error("dead because another fabric was closed")
	}
}

func TestLongTextInASlot(t *testing.T) {
	f := newFile(t)
	j, err := f.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, gpu := range []string{strings.Repeat("g", 100), "short"} {
		p, err := f.Join(j, Rank{Rank: -1, Node: -1, World: math.MaxInt32, GPU: gpu})
		if err != nil {
			t.Fatal(err)
		}
		got := f.Participants()[0]
		if got.GPU != gpu[:min(39, len(gpu))] || got.Rank != -1 || got.Node != -1 || got.World != math.MaxInt32 {
			t.Errorf("%+v", got)
		}
		p.Leave()
	}
	for _, node := range []int{256, 1 << 40, -1} {
		p, err := f.Join(j, Rank{Node: node})
		if err != nil {
			t.Fatal(err)
		}
		p.Leave()
	}
}

// The sum of the reservations is right and never exceeds the budget.
func TestPropertyReserve(t *testing.T) {
	f := newFile(t)
	j, err := f.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Uint64().Draw(t, "budget")
		p, err := f.Join(j, Rank{Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Leave()
		used := uint64(0)
		for _, n := range rapid.SliceOf(rapid.Int64Range(0, math.MaxInt64)).Draw(t, "sizes") {
			if rapid.Bool().Draw(t, "give back") {
				n = -int64(min(uint64(n), used, math.MaxInt64))
			}
			want := n <= 0 || uint64(n) <= budget-used
			if got := p.Reserve(n); got != want {
				t.Fatalf("reserve %d with %d of %d used: %v", n, used, budget, got)
			}
			if want {
				used += uint64(n)
			}
			if got := p.Available(); got != budget-used {
				t.Fatalf("%d of %d used, but %d available", used, budget, got)
			}
		}
	})
}

func TestReserveAtOnce(t *testing.T) {
	f := newFile(t)
	_, p := joined(t, f, 1) // 1 MiB
	var wg sync.WaitGroup
	var got [8]int
	for i := range got {
		wg.Go(func() {
			for p.Reserve(4096) {
				got[i]++
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range got {
		sum += n
	}
	if sum != 256 || p.Available() != 0 {
		t.Errorf("%d pages of 256, %d bytes left", sum, p.Available())
	}
}
