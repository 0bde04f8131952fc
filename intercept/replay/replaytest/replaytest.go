// SPDX-License-Identifier: Apache-2.0

// Package replaytest has fabrics for tests of what was recorded.
package replaytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Fabric is a fabric of so many nodes with links of 100 Gb/s and 1 us, without overheads, and what else
// the lines of a fabric file say.
func Fabric(t testing.TB, nodes int, lines ...string) *replay.Fabric {
	t.Helper()
	text := fmt.Sprintf("base: loopback\nnodes: %d\nlink:\n  bandwidth: 100Gbps\n  latency: 1us\n%s\n", nodes, strings.Join(lines, "\n"))
	c, err := configs.Decode("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &replay.Fabric{Fabric: f, TimeScale: 1}
}
