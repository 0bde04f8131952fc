// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

var (
	all     = flag.Bool("all", false, "run the slow cases too, and every mode for every version")
	seed    = flag.Uint64("seed", 0, "`seed` of the interleavings (default: a new one each time)")
	verbose = flag.Bool("lines", false, "print a line for each case and version")
)

// Versions of NCCL's net API that the plugin has.
const (
	firstVersion = 6
	lastVersion  = 12
)

// skipReason says why a case runs only with -all, "" if it always runs.
func skipReason(c testCase, version int) string {
	switch {
	case *all:
		return ""
	case c.slow:
		return "takes long: run `make conformance`"
	case c.mode == "threads" && version != lastVersion:
		return fmt.Sprintf("by several threads only with v%d: run `make conformance` for all versions", lastVersion)
	}
	return ""
}

func TestConformance(t *testing.T) {
	lib := built.Path(t, "lib", "libgoemu.so")
	if *seed == 0 {
		*seed = rand.Uint64()>>1 | 1
	}
	t.Logf("seed %d: repeat with -seed %d", *seed, *seed)
	if *verbose {
		fmt.Printf("seed %d\n", *seed)
	}
	list := cases(t)
	for version := firstVersion; version <= lastVersion; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			for _, c := range list {
				t.Run(c.String(), func(t *testing.T) { runCase(t, lib, version, c) })
			}
		})
	}
}

// runCase runs a case, and prints its line.
func runCase(t *testing.T, lib string, version int, c testCase) {
	begin := time.Now()
	o := outcome{word: "SKIP", why: skipReason(c, version)}
	if o.why == "" {
		o = drive(t, lib, version, c, *seed)
	}
	if *verbose {
		fmt.Printf("%-4s v%-2d %-27s %6.2f s  %s\n", o.word, version, c, time.Since(begin).Seconds(), o.why)
	}
	switch o.word {
	case "SKIP":
		t.Skip(o.why)
	case "FAIL":
		t.Errorf("v%d, seed %d: %s\n%s", version, *seed, o.why, o.stderr)
	}
}
