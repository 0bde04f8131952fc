// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// killsEnv is how many ranks TestRandomKills kills; killsSeedEnv is the seed of the first.
const (
	killsEnv     = "DDLEMU_TEST_KILLS"
	killsSeedEnv = "DDLEMU_TEST_SEED"
)

var raisedLine = regexp.MustCompile(`(?m)^rank \d raised after [\d.]+ s in \w+: .*$`)

// A random rank is killed at a random moment of a random operation. Every other rank raises within 2 s and names it.
func TestRandomKills(t *testing.T) {
	count, first := variable(t, killsEnv, 3), variable(t, killsSeedEnv, 0)
	each(t, func(t *testing.T, python string) {
		for seed := first; seed < first+count; seed++ {
			ranks := 2 + 2*(seed/8%2) // each of the 8 operations with 2 ranks, then with 4
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				t.Parallel()
				o := job{python: python, ranks: ranks}.run(t, "random_kills.py", strconv.Itoa(seed))
				lines := raisedLine.FindAllString(o.Stdout, -1)
				if len(lines) != ranks-1 {
					t.Errorf("%d of %d ranks raised in time and named the rank:\n%s%s", len(lines), ranks-1, o.Stdout,
						o.Stderr)
				}
				for _, line := range lines {
					t.Log(line)
				}
			})
		}
	})
}

// variable returns the number in an environment variable.
func variable(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
