// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// patience is how long a measurement is repeated, because other load on the machine or its host disturbs it.
	patience = 40 * time.Second
	// costs is how much of its rate a shaper may lose, per share of the time for which timers are late. HTB loses that
	// share: while processors were stopped so that timers were late for 6, 10 and 22 % of the time, a rate of 1 Gb/s
	// was 6, 9 and 21 % too low. The rest is for the sender, the receiver and the acknowledgements, which may be late
	// too.
	costs = 1.5
	// tooLate is the share of the time for which timers are late on a machine that cannot be judged. A machine of two
	// processors without other load had 0.3 to 8 %.
	tooLate = 0.1
)

// Wrong is what a try returns if its result is wrong in another way than by too low a rate.
var Wrong = math.Inf(1)

// TooLow returns by which share of want a rate is too low, beyond a tolerance. It returns Wrong if it is too high.
func TooLow(got, want, tolerance float64) float64 {
	if got > want*(1+tolerance) {
		return Wrong
	}
	return max(0, 1-tolerance-got/want)
}

// Repeat repeats a measurement until its result is right. try returns the result as text, and by which share its rate is
// too low: 0 if it is right, Wrong if it is wrong in another way.
//
// The test fails if no result is right in 40 s. But if the machine's timers were late, rates may be lower on average by
// what that costs, and if they were late for more than a tenth of the time, nothing is judged. A line in
// build/disturbed.txt then says so, which `make test` prints at its end.
func Repeat(t testing.TB, what string, try func() (got string, low float64, err error)) {
	t.Helper()
	watch, err := watchTimers()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.end() // also if try ends the test
	got, sum, n, low := "", 0.0, 0, Wrong
	for ; low > 0 && err == nil && time.Since(watch.begin) < patience; n++ {
		got, low, err = try()
		sum += low
	}
	late, watchErr := watch.end()
	if err := errors.Join(err, watchErr); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s: %s: %d tries; timers were late for %.1f %% of the time", what, got, n, 100*late)
	if low <= 0 {
		t.Log(text)
		return
	}
	low = sum / float64(n)
	if !math.IsInf(low, 1) {
		text += fmt.Sprintf("; the rate was too low by %.1f %% on average, beyond the tolerance", 100*low)
	}
	switch judge(low, late) {
	case fails:
		t.Error(text)
	case explained:
		logDisturbed(t, text+", which the timers explain")
	case notJudged:
		logDisturbed(t, text+": not judged")
	}
}

// outcome is what results mean of which none was right.
type outcome int

const (
	fails     outcome = iota
	explained         // late timers explain rates that are too low by as much
	notJudged         // timers were too late
)

// judge says what results mean that were too low by a share on average, while timers were late for a share of the time.
func judge(low, late float64) outcome {
	switch {
	case low <= costs*late:
		return explained
	case late > tooLate:
		return notJudged
	}
	return fails
}

// logDisturbed says that late timers made a check wider than usual, or that it was not made.
func logDisturbed(t testing.TB, text string) {
	t.Helper()
	t.Log(text)
	f, err := os.OpenFile(filepath.Join("..", "..", "build", "disturbed.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return // without build/, as in the guests of test/lab, the test's own output says it
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "%s: %s\n", t.Name(), strings.Join(strings.Fields(text), " ")); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
