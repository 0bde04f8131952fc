// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// A shell reads the output of quote as one word with the original text.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "/a b/c", "it's", "$HOME", "`x`", `a"b\`, "a\nb"} {
		out, err := exec.Command("sh", "-c", "printf %s "+cli.Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q: %q, %v", s, out, err)
		}
	}
}

func TestRate(t *testing.T) {
	for x, want := range map[float64]string{0: "unlimited", 1: "1 B/s", 999: "999 B/s", 1000: "1 kB/s",
		118_700_000: "119 MB/s", 999.9e6: "1 GB/s", 47e9: "47 GB/s"} {
		if got := cli.Rate(x); got != want {
			t.Errorf("%g: got %q, want %q", x, got, want)
		}
	}
	// No number has four digits or an exponent.
	rapid.Check(t, func(t *rapid.T) {
		if s := cli.Volume(rapid.Uint64().Draw(t, "bytes")); strings.Contains(s, "e") {
			t.Fatal(s)
		}
	})
}

func TestDifference(t *testing.T) {
	old := configs.Default().Link
	old.Bandwidth, old.Latency = units.Gbps, 5*time.Microsecond
	now := old
	if got := difference(old, now); got != "" {
		t.Errorf("of the same: %q", got)
	}
	now.Bandwidth, now.Up, now.MTU = units.Unlimited, false, 9000
	if got, want := difference(old, now),
		"bandwidth 1Gbps -> unlimited, mtu 4096 -> 9000, state up -> DOWN"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManyAlikeChangesAreOneLine(t *testing.T) {
	var b bytes.Buffer
	changes := make([]change, fewChanges+1)
	for i := range changes {
		changes[i].what = "latency 1µs -> 2µs"
	}
	printChanges(&b, changes)
	if got, want := b.String(), "17 links: latency 1µs -> 2µs\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	changes[0].what = "state up -> DOWN"
	printChanges(&b, changes)
	if n := strings.Count(b.String(), "\n"); n != len(changes)+1 {
		t.Errorf("%d lines for %d different changes and a header", n, len(changes))
	}
}
