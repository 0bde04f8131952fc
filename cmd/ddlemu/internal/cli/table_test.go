// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs/units"
)

// A shell reads the output of quote as one word with the original text.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "/a b/c", "it's", "$HOME", "`x`", `a"b\`, "a\nb"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q: %q, %v", s, out, err)
		}
	}
}

func TestRate(t *testing.T) {
	for x, want := range map[float64]string{0: "unlimited", 1: "1 B/s", 999: "999 B/s", 1000: "1 kB/s",
		118_700_000: "119 MB/s", 999.9e6: "1 GB/s", 47e9: "47 GB/s"} {
		if got := Rate(x); got != want {
			t.Errorf("%g: got %q, want %q", x, got, want)
		}
	}
	// No number has four digits or an exponent.
	rapid.Check(t, func(t *rapid.T) {
		if s := units.Volume(rapid.Uint64().Draw(t, "bytes")); strings.Contains(s, "e") {
			t.Fatal(s)
		}
	})
}
