// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

func TestDifference(t *testing.T) {
	old := configs.Default().Link
	old.Bandwidth, old.Latency = units.Gbps, 5*time.Microsecond
	now := old
	if got := configs.LinkDifference(old, now); got != "" {
		t.Errorf("of the same: %q", got)
	}
	now.Bandwidth, now.Up, now.MTU = units.Unlimited, false, 9000
	if got, want := configs.LinkDifference(old, now),
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
