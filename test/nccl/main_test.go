// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/world"
)

// tries is the number of attempts of a check of real time, see onRealClock.
const tries = 3

// The programs that compile has made, and their folder.
var (
	compiled sync.Map
	scratch  string
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "ddlemu-nccl-"); err == nil {
		err = os.Chmod(scratch, 0o755) // TestRunOnKernelForAUser
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// Names of the package world that most tests here use.
var (
	folder = world.Folder
	ddlemu = world.Command
)

// result is the output of bench --json.
type result struct {
	Header struct {
		NCCL      string   `json:"nccl"`
		CUDA      string   `json:"cuda"`
		Profile   string   `json:"profile"`
		Datapath  string   `json:"datapath"`
		Clock     string   `json:"clock"`
		TimeScale float64  `json:"time_scale"`
		Ranks     int      `json:"ranks"`
		Nodes     int      `json:"nodes"`
		Notes     []string `json:"notes"`
	} `json:"header"`
	Rows []struct {
		Size       int64   `json:"size"`
		InPlace    bool    `json:"inplace"`
		TimeUS     float64 `json:"time_us"`
		Wrong      *int64  `json:"wrong"`
		ExpectedUS float64 `json:"expected_us"`
	} `json:"rows"`
	Verdict  string    `json:"verdict"`
	Reasons  []string  `json:"reasons"`
	Findings []finding `json:"findings"`
}

// finding is a reason for INVALID.
type finding struct{ Cause, Text string }

// bench runs `ddlemu bench args --json` and checks that every value is correct.
func bench(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	r, err := tryBench(t, dir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tryBench is bench for a command that may fail.
func tryBench(t *testing.T, dir string, env []string, args ...string) (result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, dir, env, append(append([]string{"bench"}, args...), "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("ddlemu bench %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in the output of ddlemu bench:\n%s", err, out)
	}
	if len(r.Rows) == 0 {
		t.Fatalf("no rows:\n%s%s", out, stderr.String())
	}
	for _, row := range r.Rows {
		if row.Wrong == nil || *row.Wrong != 0 {
			t.Fatalf("%d bytes: wrong elements:\n%s", row.Size, out)
		}
	}
	return r, nil
}

// scales are the time scales of the attempts. With a larger one the cost of the host matters less.
var scales = [tries]string{"8", "32", "128"}

// busy is the processor use of other programs above which a failed try is attributed to them: a thread that yields to a
// busy one waits for a time slice.
const busy = 0.05

// onRealClock repeats a check whose subject is real time, with other time scales, until it succeeds. All other checks
// of times run on the virtual clock. check ends the test by t.Fatal for what holds on a busy host too: no time is too
// short, and only the host is a reason for INVALID. It returns an error for what other programs can break: that times
// are not too long. If there always is one, and other programs used the processors during most tries, the rest of the
// test is skipped with their processor use.
func onRealClock(t *testing.T, check func(scale string) error) {
	t.Helper()
	var err error
	quiet, most := 0, 0.0
	for i := range tries {
		others := watchOthers(t)
		err = check(scales[i])
		share := others()
		if err == nil {
			return
		}
		t.Logf("try %d of %d, others took %.2f processors: %v", i+1, tries, share, err)
		most = max(most, share)
		if share < busy {
			quiet++
		}
	}
	if 2*quiet < tries {
		t.Skipf("SKIPPED: this host is busy with something else, up to %.2f processors, so that times are too long "+
			"proves nothing: %v", most, err)
	}
	t.Error(err)
}

// watchOthers returns a function that returns the average number of processors that other programs used since: the
// total minus what this test's processes used.
func watchOthers(t *testing.T) func() float64 {
	t.Helper()
	begin, all, own := time.Now(), allCPU(t), ownCPU(t)
	return func() float64 {
		return (allCPU(t) - all - (ownCPU(t) - own)).Seconds() / time.Since(begin).Seconds()
	}
}

// allCPU is the processor time used on this host since boot.
func allCPU(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq,
		&softirq, &steal); err != nil {
		t.Fatal(err)
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(user+nice+system+irq+softirq+steal) * tick
}

// ownCPU is the processor time used by this process and the children that it has waited for.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	all := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return all
}

// exact checks that a run on the virtual clock is VALID and that every row takes the model's time.
func exact(t *testing.T, r result) {
	t.Helper()
	nearModel(t, r, 0.005)
}

// nearModel is exact with the percentage of the model's time that a row may differ by. JSON has times to the ns.
func nearModel(t *testing.T, r result, percent float64) {
	t.Helper()
	if r.Verdict != "VALID" || r.Header.Clock != "virtual" || len(r.Rows) == 0 {
		t.Errorf("verdict %s %q, clock %s, %d rows", r.Verdict, r.Reasons, r.Header.Clock, len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Size > 0 && math.Abs(row.TimeUS-row.ExpectedUS) > 0.002+percent/100*row.ExpectedUS {
			t.Errorf("%d bytes took %.3f us, the model's time is %.3f us", row.Size, row.TimeUS, row.ExpectedUS)
		}
	}
}

// shortest is the least part of the model's time that a row may take on the real clock: a time is never too short, but
// the mean of few iterations has a rest of the one before.
const shortest = 0.99

// inTime checks an AllReduce between two ranks on the real clock, where the mean of both is no shorter than the model's
// time, however late one of them is. A shorter time, and an INVALID verdict that is not the host's, end the test. The
// error is a row that takes more than percent longer.
func inTime(t *testing.T, r result, percent float64) error {
	t.Helper()
	onlyTheHost(t, r.Verdict, r.Findings)
	var late error
	for _, row := range r.Rows {
		off := 100 * (row.TimeUS/row.ExpectedUS - 1)
		text := fmt.Sprintf("%d bytes, in place %v, time scale %g: %.1f us, %+.1f %% of the model's %.1f us", row.Size,
			row.InPlace, r.Header.TimeScale, row.TimeUS, off, row.ExpectedUS)
		switch {
		case row.ExpectedUS == 0 || row.TimeUS < shortest*row.ExpectedUS || r.Header.Clock != "real":
			t.Fatalf("%s clock: %s", r.Header.Clock, text)
		case off > percent:
			late = errors.New(text)
		}
	}
	return late
}

// onlyTheHost ends the test if something else than a slow or busy host made a run INVALID.
func onlyTheHost(t *testing.T, verdict string, findings []finding) {
	t.Helper()
	if verdict == "INVALID" && len(findings) == 0 {
		t.Fatal("INVALID without a reason")
	}
	for _, f := range findings {
		if f.Cause != "host" {
			t.Fatalf("INVALID, cause %s: %s", f.Cause, f.Text)
		}
	}
}
