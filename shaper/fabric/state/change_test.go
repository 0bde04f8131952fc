// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// checkHops checks that no hop shows a mixture and, if want is not negative, that
// all are family(want).
func checkHops(f *File, want int) error {
	for _, h := range f.Hops() {
		n, err := inFamily(h.Spec)
		if err != nil {
			return fmt.Errorf("hop %d: %w", h.Index, err)
		}
		if want >= 0 && n != want {
			return fmt.Errorf("hop %d is number %d, want %d", h.Index, n, want)
		}
	}
	return nil
}

// checkBlocks checks that no two hops share a block.
func checkBlocks(t testing.TB, f *File) {
	t.Helper()
	seen := map[uint32]int{}
	for i := range f.hops() {
		b := f.hops()[i].Block
		if j, ok := seen[b]; ok || b >= f.head().Blocks {
			t.Errorf("hops %d and %d have block %d of %d", i, j, b, f.head().Blocks)
		}
		seen[b] = i
	}
}

func all(f *File, s link.Spec) map[int]link.Spec {
	specs := map[int]link.Spec{}
	for i := range f.hops() {
		specs[i] = s
	}
	return specs
}

func TestChange(t *testing.T) {
	f := newFile(t)
	if err := f.Change(map[int]link.Spec{4: family(7)}); err != nil {
		t.Fatal(err)
	}
	for _, h := range f.Hops() {
		want := 1
		if h.Index == 4 {
			want = 7
		}
		if n, err := inFamily(h.Spec); n != want || err != nil || h.Changed != (h.Index == 4) {
			t.Errorf("hop %d is %d, %v, changed %v", h.Index, n, err, h.Changed)
		}
	}
	if err := f.Change(nil); err != nil {
		t.Error(err)
	}
}

func TestChangeIsAllOrNothing(t *testing.T) {
	f := newFile(t)
	bad := family(2)
	bad.MTU = 1
	for _, tc := range []struct {
		specs map[int]link.Spec
		want  string
	}{
		{map[int]link.Spec{0: family(2), 4: bad, 5: family(2)}, "change hop 4: mtu 1: must be 256 to 65536"},
		{map[int]link.Spec{0: family(2), 6: family(2)}, "change hop 6: there are 6"},
		{map[int]link.Spec{-1: family(2), 3: family(2)}, "change hop -1: there are 6"},
	} {
		checkError(t, f.Change(tc.specs), nil, tc.want)
		if err := checkHops(f, 1); err != nil {
			t.Errorf("after %q: %v", tc.want, err)
		}
		for _, h := range f.Hops() {
			if h.Changed {
				t.Errorf("after %q: hop %d counts as changed", tc.want, h.Index)
			}
		}
	}
}

// A hop that comes up starts now, not at a time when it was down. A hop that stays up
// keeps its next-free time.
func TestChangeFromDownToUpRaisesNextFree(t *testing.T) {
	f := newFile(t)
	up, down := family(1), family(1)
	down.Down = true
	h := &f.hops()[4]
	change := func(s link.Spec) {
		t.Helper()
		if err := f.Change(map[int]link.Spec{4: s}); err != nil {
			t.Fatal(err)
		}
	}
	next := func() int64 { return atomic.LoadInt64(&h.NextFree) }
	change(family(2))
	change(down)
	if next() != 0 {
		t.Errorf("held until %d by going down", next())
	}
	before := Now()
	change(up)
	if got := next(); got < before || got > Now() {
		t.Errorf("held until %d, want between %d and %d", got, before, Now())
	}
	later := Now() + int64(time.Hour)
	atomic.StoreInt64(&h.NextFree, later)
	change(down)
	change(up)
	if next() != later {
		t.Errorf("held until %d, want %d as before", next(), later)
	}
}

// A hop is down since it went down, also if it is changed meanwhile.
func TestDownSince(t *testing.T) {
	f := newFile(t)
	down, slower := family(1), family(2)
	down.Down, slower.Down = true, true
	since := func(s link.Spec) int64 {
		t.Helper()
		if err := f.Change(map[int]link.Spec{4: s}); err != nil {
			t.Fatal(err)
		}
		return f.blocks()[atomic.LoadUint32(&f.hops()[4].Block)].DownSince
	}
	before := Now()
	first := since(down)
	if first < before || first > Now() {
		t.Errorf("down since %d, want between %d and %d", first, before, Now())
	}
	if got := since(slower); got != first {
		t.Errorf("changed while it is down: down since %d, want %d", got, first)
	}
	if got := since(family(1)); got != 0 {
		t.Errorf("up, but down since %d", got)
	}
	if got := since(down); got <= first {
		t.Errorf("down again since %d, and before since %d", got, first)
	}
}

// On a virtual clock a hop that comes up starts at the virtual time, which is not the host's. The time of a
// change is by the same clock.
func TestChangeOnAVirtualClock(t *testing.T) {
	s := twoNodes("t")
	s.Virtual = true
	f := create(t, newDir(t), s)
	down := family(1)
	down.Down = true
	for _, spec := range []link.Spec{down, family(1)} {
		if err := f.Change(map[int]link.Spec{4: spec}); err != nil {
			t.Fatal(err)
		}
	}
	if next := atomic.LoadInt64(&f.hops()[4].NextFree); next != f.Now() {
		t.Errorf("held until %d, the virtual time is %d, the host's %d", next, f.Now(), Now())
	}
	if spec, since, changes := f.SpecOf(4); spec != family(1) || since != f.Now() || changes != 2 {
		t.Errorf("%+v since %d, %d changes", spec, since, changes)
	}
	if _, since, changes := f.SpecOf(5); since != 0 || changes != 0 {
		t.Errorf("a hop that was not changed: since %d, %d changes", since, changes)
	}
}

// A block is reused only after the grace period, the one that was retired first
// before the others, so that a slow reader's block stays unchanged for long.
func TestChangeReusesBlocksLate(t *testing.T) {
	f := newFile(t)
	blocks := int(f.head().Blocks)
	seen := map[uint32]bool{f.hops()[4].Block: true}
	for i := range blocks - len(f.hops()) {
		if err := f.Change(map[int]link.Spec{4: family(i)}); err != nil {
			t.Fatal(err)
		}
		if b := f.hops()[4].Block; seen[b] {
			t.Fatalf("block %d is used again after %d of %d", b, i, blocks)
		} else {
			seen[b] = true
		}
	}
	begin := time.Now()
	first := f.blocks()[f.freeOldest()].Retired
	if err := f.Change(map[int]link.Spec{4: family(999)}); err != nil {
		t.Fatal(err)
	}
	if now := Now(); now-first < int64(grace) {
		t.Errorf("a block was used again %v after it was retired", time.Duration(now-first))
	}
	// The next ones are older than the grace period too by now.
	if err := f.Change(map[int]link.Spec{4: family(5)}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("two changes took %v", took)
	}
	checkBlocks(t, f)
}

// freeOldest is the block that the next change uses.
func (f *File) freeOldest() uint32 {
	oldest := f.unusedBlocks()[0]
	for _, b := range f.unusedBlocks() {
		if f.blocks()[b].Retired < f.blocks()[oldest].Retired {
			oldest = b
		}
	}
	return oldest
}

// Changes of all hops, one after the other, wait for blocks but do not fail.
func TestChangeOfEverythingRepeatedly(t *testing.T) {
	f := newFile(t)
	for i := range 40 {
		if err := f.Change(all(f, family(i))); err != nil {
			t.Fatal(err)
		}
		if err := checkHops(f, i); err != nil {
			t.Fatal(err)
		}
		checkBlocks(t, f)
	}
}

// A change of all hops, which needs all blocks, succeeds although many small changes
// need every block that becomes free.
func TestChangeOfEverythingAmongSmallOnes(t *testing.T) {
	f := newFile(t)
	for _, b := range f.unusedBlocks()[len(f.hops()):] {
		f.blocks()[b].Retired = Now() + int64(time.Hour)
	}
	writer := start(t, "change", f.Dir(), "t", "500")
	if got := writer.line(); got != "ready" {
		t.Fatal(got)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := f.Change(map[int]link.Spec{w: family(i % 100)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	turns := 5
	if testing.Short() {
		turns = 2
	}
	for i := range turns {
		if err := f.Change(all(f, family(600+i))); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	writer.ask("stop")
}

// If blocks in the file will never become free, a change is refused as a whole.
func TestChangeWithoutFreeBlocks(t *testing.T) {
	f := newFile(t)
	for _, b := range f.unusedBlocks()[2:] {
		f.blocks()[b].Retired = Now() + int64(time.Hour)
	}
	checkError(t, f.Change(all(f, family(2))), nil,
		"change links: too few blocks of parameters are free: 2 of the 6 needed, the next was retired in the future")
	if err := checkHops(f, 1); err != nil {
		t.Error(err)
	}
	if err := f.Change(map[int]link.Spec{0: family(2), 1: family(2)}); err != nil {
		t.Error(err)
	}
}

// Many goroutines and processes change and read at once: a reader sees only parameters
// that one of them has put in force, and no change is lost.
func TestChangeUnderReaders(t *testing.T) {
	f := newFile(t)
	d, err := OpenDir(f.Dir(), 0, false)
	if err == nil {
		defer d.Close()
	}
	span := 1500 * time.Millisecond
	if testing.Short() {
		span = 300 * time.Millisecond
	}
	reader := start(t, "read", f.Dir(), "t")
	writer := start(t, "change", f.Dir(), "t", "500")
	for _, p := range []*process{reader, writer} {
		if got := p.line(); got != "ready" {
			t.Fatal(got)
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var changes atomic.Int64
	for w := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 0))
			for !stop.Load() {
				// At most a few hops at once: the blocks would run out, which only
				// makes it slow.
				specs := map[int]link.Spec{r.IntN(6): family(r.IntN(1000)), r.IntN(6): family(r.IntN(1000))}
				if err := f.Change(specs); err != nil {
					t.Error(err)
					return
				}
				changes.Add(int64(len(specs)))
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				if err := checkHops(f, -1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(span)
	stop.Store(true)
	wg.Wait()
	total := uint32(changes.Load() + int64(number(t, writer.ask("stop"))))
	if n := number(t, reader.ask("stop")); n == 0 {
		t.Error("the other process never read")
	}
	var counted uint32
	for i := range f.hops() {
		counted += f.hops()[i].Changes
	}
	if counted != total || total == 0 {
		t.Errorf("%d changes made, %d counted", total, counted)
	}
	checkBlocks(t, f)
}

// whileOpen does something with a fabric until the parent says stop, and prints
// how often.
func whileOpen(args []string, do func(f *File, i int) error) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	var stop atomic.Bool
	go func() { input.Scan(); stop.Store(true) }()
	fmt.Println("ready")
	n := 0
	for ; !stop.Load(); n++ {
		if err := do(f, n); err != nil {
			return err
		}
	}
	fmt.Println(n)
	return nil
}

func readChild(args []string) error {
	return whileOpen(args, func(f *File, _ int) error { return checkHops(f, -1) })
}

func changeChild(args []string) error {
	base, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return whileOpen(args,
		func(f *File, i int) error { return f.Change(map[int]link.Spec{i % 6: family(base + i%100)}) })
}

// A process that is stopped in the middle of a change does not block the others for
// ever: they return an error that tells the user to look for it.
func TestLockHeldByAnother(t *testing.T) {
	f := newFile(t)
	p := start(t, "hold", f.Dir(), "t")
	if got := p.line(); got != "held" {
		t.Fatal(got)
	}
	for _, which := range []int64{changing, joining} {
		begin := time.Now()
		_, err := f.lock(which, 50*time.Millisecond)
		checkError(t, err, nil,
			fmt.Sprintf(
				"lock fabric t: process %d has had it for 50ms: it is stopped, or this machine is too busy: continue it .kill -CONT %[1]d. or end it", p.cmd.Process.Pid))
		if took := time.Since(begin); took < 50*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
	}
	// A caller that can try again later does not wait for long.
	if dead := f.Reap(); dead != nil {
		t.Errorf("reaped %v", dead)
	}
	p.kill()
	if err := f.Change(map[int]link.Spec{0: family(3)}); err != nil {
		t.Errorf("after its holder was killed: %v", err)
	}
	if _, err := f.JoinJob(1); err != nil {
		t.Errorf("after its holder was killed: %v", err)
	}
}

// While others acquire a lock one after another, as hundreds of ranks do when they join, a process waits for longer
// than it would for one of them.
func TestLockInTurns(t *testing.T) {
	f := newFile(t)
	p := start(t, "hold", f.Dir(), "t")
	if got := p.line(); got != "held" {
		t.Fatal(got)
	}
	const wait, turns = 2 * shortTimeout, 5
	begin := time.Now()
	var others sync.WaitGroup
	others.Go(func() {
		for range 10 * turns {
			time.Sleep(wait / 10)
			atomic.AddUint64(&f.head().LockUses[joining], 1)
		}
	})
	_, err := f.lock(joining, wait)
	others.Wait()
	if took := time.Since(begin); err == nil || took < turns*wait {
		t.Errorf("gave up after %v: %v", took, err)
	}
	p.kill()
	unlock, err := f.lock(joining, wait)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if n := f.head().LockUses; n != [2]uint64{1, 10*turns + 2} {
		t.Errorf("the locks were acquired %v times", n)
	}
}

// holdChild acquires the fabric's locks and keeps them.
func holdChild(args []string) error {
	f, err := openChild(args)
	if err != nil {
		return err
	}
	for _, which := range []int64{changing, joining} {
		if _, err := f.lock(which, lockTimeout); err != nil {
			return err
		}
	}
	fmt.Println("held")
	input.Scan()
	return nil
}

// Closing another mapping of the fabric does not release a lock that this process has
// meanwhile.
func TestCloseWaitsForTheLocks(t *testing.T) {
	d := newDir(t)
	f := create(t, d, twoNodes("t"))
	g, err := d.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := f.lock(changing, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- g.Close() }()
	select {
	case <-closed:
		t.Fatal("closed while the lock was held")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
