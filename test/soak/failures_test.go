// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"testing"
)

// failure is one thing that goes wrong while a job runs, as docs/failures.md lists
// them.
type failure struct {
	name  string
	run   func(t *testing.T, version string)
	quick string // the version with which `go test` runs it
}

var failures []failure

func TestFailures(t *testing.T) {
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) { f.run(t, f.quick) })
	}
}
