// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a measurement is repeated, because other load on the machine or its host disturbs it.
const patience = 40 * time.Second

// Repeat repeats a measurement until enough of its results are right: at least three, and at least half of those that
// can be judged. The test fails if they are not in 40 s. If too few could be judged, because the machine's timers were
// late, a line in build/notjudged.txt says so. `make test` tells that in its last line, and fails in CI unless the check
// is judged when it is repeated (.ci/notjudged).
func Repeat(t testing.TB, what string, try func() (Result, error)) {
	t.Helper()
	verdict, text, err := Check(patience, try)
	if err != nil {
		t.Fatal(err)
	}
	text = what + ": " + text
	switch verdict {
	case Passes:
		t.Log(text)
	case Fails:
		t.Error(text)
	case NotJudged:
		t.Log(text + ": not judged")
		if err := noteNotJudged(t.Name(), what, text); err != nil {
			t.Error(err)
		}
	}
}

// Check repeats a measurement until it passes, at most for a time. The text says what was found.
func Check(atMost time.Duration, try func() (Result, error)) (Verdict, string, error) {
	var all tally
	var sum lateness
	for begin := time.Now(); ; {
		watch, err := watchTimers()
		if err != nil {
			return Fails, "", err
		}
		result, err := func() (Result, error) {
			defer watch.end() // also if try ends the test
			return try()
		}()
		late, watchErr := watch.end()
		if err := errors.Join(err, watchErr); err != nil {
			return Fails, "", err
		}
		sum.machine, sum.programs = sum.machine+late.machine, sum.programs+late.programs
		all.add(result.judge(late))
		verdict := all.verdict()
		if verdict == Passes || time.Since(begin) > atMost {
			return verdict, fmt.Sprintf("%s: of %d tries %d are right and %d wrong; timers were late for %.1f %% of the time, "+
				"those of programs for %.1f %%", result.Got, all.tries, all.right, all.wrong,
				100*sum.machine/float64(all.tries), 100*sum.programs/float64(all.tries)), nil
		}
	}
}

// noteNotJudged adds a line to build/notjudged.txt: package, test, check and text, with tabs between them.
func noteNotJudged(test, what, text string) error {
	f, err := os.OpenFile(filepath.Join("..", "..", "build", "notjudged.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // without build/, as in the guests of test/lab, the test's own output says it
	}
	if err != nil {
		return fmt.Errorf("note that a check was not judged: %w", err)
	}
	folder, err := os.Getwd()
	if err == nil {
		text = strings.Join(strings.Fields(text), " ")
		_, err = fmt.Fprintf(f, "./test/%s\t%s\t%s\t%s\n", filepath.Base(folder), test, what, text)
	}
	return errors.Join(err, f.Close())
}
