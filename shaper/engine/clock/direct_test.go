// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/clock/clocktest"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// localLinks are links of 1 GB/s with 100 ns between 2 GPUs: out of and into each, or of a mesh.
func localLinks() (specs []link.Spec) {
	for range 4 {
		specs = append(specs, gigabyte(100*time.Nanosecond))
	}
	return specs
}

// A message between GPUs arrives when it has crossed the links of its kind, without a receive or a proxy, and only its
// receiver's node is woken.
func TestDirectFlow(t *testing.T) {
	for _, tc := range []struct {
		name string
		mesh bool
		kind uint32
		took int64
	}{
		{"through a switch", false, 0, 1000 + 200},
		{"of a mesh", true, 0, 1000 + 100},
		{"that a switch reduces", false, 1, 1000 + 100},
		{"that a switch broadcasts", false, 2, 1000 + 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := open(t, 2, localLinks())
			w.NodeTime(tc.mesh)
			x := w.Direct(0, 1, tc.kind)
			if w.Arrived(1, x) != 0 || !w.PostDirect(0, x, 1000) || !w.PostDirect(0, x, 500) || w.Arrived(1, x) != 0 {
				t.Fatal("a message has arrived before time has gone on, or was not posted")
			}
			for i, want := range []int64{tc.took, tc.took + 500} {
				w.Idle(0)
				w.Idle(1)
				w.Run(0)
				if n := w.Arrived(1, x); w.Now() != start+want || n != uint64(i+1) {
					t.Errorf("%d messages have arrived after %d ns, want %d after %d", n, w.Now()-start, i+1, want)
				}
			}
		})
	}
}

// Messages of several flows share the links of a GPU.
func TestDirectFlowsShareLinks(t *testing.T) {
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	x, y := w.Direct(0, 1, 0), w.Direct(0, 1, 1)
	w.PostDirect(0, x, 1000)
	w.PostDirect(0, y, 1000)
	for w.Arrived(1, y) == 0 && w.Now() < start+1e6 {
		w.Idle(0)
		w.Idle(1)
		w.Run(0)
	}
	if took := w.Now() - start; took != 2100 {
		t.Errorf("the second message took %d ns, want 2100", took)
	}
}

// A direct flow is freed when both of its ranks have left or died, and not before: the other one may still read what
// was sent. Its name is not used again.
func TestDirectFlowsAreFreed(t *testing.T) {
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	x := w.Direct(0, 1, 0)
	w.Arrived(1, x)
	w.PostDirect(0, x, 1000)
	w.LeaveDirect(0)
	for range 2 {
		w.Idle(0)
		w.Idle(1)
		w.Run(0)
	}
	if w.Arrived(1, x) != 1 {
		t.Error("the message of a rank that has left is lost")
	}
	w.LeaveDirect(1)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	if !w.IsFree(w.At(0)) || w.PostDirect(0, x, 1) {
		t.Error("a flow whose ranks have left is still there")
	}
	if y := w.Direct(0, 1, 0); y == x || w.Arrived(1, x) != 0 {
		t.Errorf("flow %x has the name of the one before it", y)
	}
	w.Fill()
	if w.Direct(0, 1, 0) != 0 {
		t.Error("there is a flow although all places are taken")
	}
}

// Whoever repairs a clock that a dead rank has left half run finds the messages of direct flows.
func TestDirectFlowsAfterADeath(t *testing.T) {
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	x := w.Direct(0, 1, 0)
	w.PostDirect(0, x, 1000)
	w.Die(0, true)
	w.Idle(1)
	w.Run(1)
	if w.Arrived(1, x) != 1 || w.Now() != start+1200 {
		t.Errorf("%d messages after %d ns, want 1 after 1200", w.Arrived(1, x), w.Now()-start)
	}
}

// The ends of a direct flow whose path is corrupt learn it: no message arrives any more.
func TestBrokenDirectFlow(t *testing.T) {
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	x := w.Direct(0, 1, 0)
	clocktest.CorruptPath(w.At(0))
	w.PostDirect(0, x, 1000)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	if w.Arrived(1, x) != math.MaxUint64 || w.PostDirect(0, x, 1000) {
		t.Errorf("%d messages have arrived, want a broken flow", w.Arrived(1, x))
	}
}

// On a real clock the ends make the steps: a message arrives when the model says, whoever looks when. A look that is
// late does not change its times.
func TestDirectFlowOnARealClock(t *testing.T) {
	const posted = 5_000_000
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	w.Real()
	x := w.Direct(0, 1, 0)
	if !w.PostAt(0, x, 1000, posted) || !w.PostAt(0, x, 500, posted+10) {
		t.Fatal("messages were not posted")
	}
	for _, tc := range []struct {
		at   int64
		want uint64
	}{{posted, 0}, {posted + 1199, 0}, {posted + 1200, 1}, {posted + 1699, 1}, {posted + 9000, 2}} {
		if n := w.ArrivedAt(1, x, tc.at); n != tc.want {
			t.Errorf("%d messages after %d ns, want %d", n, tc.at-posted, tc.want)
		}
	}
	for i, want := range []int64{posted + 1200, posted + 1700} {
		from, due, distortion, ok := w.DirectTimes(1, x, uint64(i))
		if !ok || from != posted+10*int64(i) || due != want || distortion != 0 {
			t.Errorf("message %d: posted at %d, due %d, distortion %d, %v", i, from-posted, due-posted, distortion, ok)
		}
	}
}

// An end that finds the other one making the steps does not wait for it. One that finds a corrupt path learns it.
func TestDirectFlowOnARealClockThatIsBusyOrBroken(t *testing.T) {
	w := open(t, 2, localLinks())
	w.NodeTime(false)
	w.Real()
	x := w.Direct(0, 1, 0)
	clocktest.LockFlow(w.At(0), true)
	w.PostAt(0, x, 1000, 1_000_000)
	if n := w.ArrivedAt(1, x, 9_000_000); n != 0 {
		t.Errorf("%d messages while the other end has the flow", n)
	}
	clocktest.LockFlow(w.At(0), false)
	if n := w.ArrivedAt(1, x, 9_000_000); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	clocktest.CorruptPath(w.At(0))
	w.PostAt(0, x, 1000, 10_000_000)
	if n := w.ArrivedAt(1, x, 19_000_000); n != math.MaxUint64 {
		t.Errorf("%d messages over a corrupt path", n)
	}
}

// On a real clock, whichever end is closed last frees the flow, once.
func TestDirectFlowsAreFreedOnARealClock(t *testing.T) {
	for _, first := range []int{0, 1} {
		w := open(t, 2, localLinks())
		w.NodeTime(false)
		w.Real()
		x := w.Direct(0, 1, 0)
		w.PostAt(0, x, 1000, 1_000_000)
		w.ArrivedAt(1, x, 1_000_000)
		w.LeaveDirect(first)
		w.LeaveDirect(first) // as the next process with this place does
		if w.IsFree(w.At(0)) || w.ArrivedAt(1, x, 2_000_000) != 1 {
			t.Errorf("rank %d has left: the message is lost", first)
		}
		w.LeaveDirect(1 - first)
		if !w.IsFree(w.At(0)) {
			t.Errorf("rank %d has left last: the flow is still there", 1-first)
		}
	}
}

// holdLock is the environment of a process of this test that locks the first byte of a file until it is killed.
const holdLock = "DDLEMU_TEST_HOLD_LOCK"

// An end whose process is killed while it makes a flow's steps is noticed by the other end, also if another process has
// its place by then. One that only stops is not dead.
func TestDeathWithALockOnARealClock(t *testing.T) {
	if path := os.Getenv(holdLock); path != "" {
		hold(t, path)
	}
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "locks")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd := exec.Command(os.Args[0], "-test.run=^TestDeathWithALockOnARealClock$")
		cmd.Env = append(os.Environ(), holdLock+"="+path)
		said, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = said.Read(make([]byte, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, 2, localLinks())
		w.NodeTime(false)
		w.Real()
		w.LocksIn(int(file.Fd()))
		x := w.Direct(0, 1, 0)
		clocktest.LockFlow(w.At(0), true)
		w.PostAt(0, x, 1000, 1_000_000)
		if n := w.ArrivedAt(1, x, 2e9); n != 0 {
			t.Errorf("%d messages while the other process has the flow and lives", n)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if replaced {
			w.LeaveDirect(0)
		}
		if n := w.ArrivedAt(1, x, 3e9); n != 0 && n != math.MaxUint64 {
			t.Errorf("%d messages when the other process is dead", n)
		}
		if n := w.ArrivedAt(1, x, 4e9); n != math.MaxUint64 || w.PostAt(0, x, 1, 4e9) {
			t.Errorf("replaced %v: the death is not noticed: %d messages", replaced, n)
		}
	}
}

// hold locks the first byte of a file, says so, and waits to be killed.
func hold(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(".")
	select {}
}
