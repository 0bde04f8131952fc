// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"testing"
	"time"
)

// fabrics are failures in which the fabric changes while a job runs.
var fabrics = []failure{
	{"the fabric is taken down", takenDown, "2.22", ""},
	{"the fabric is brought up again with other parameters", broughtUpAgain, "2.29", ""},
	{"a rank in another time namespace", otherTime, "2.29", ""},
}

func takenDown(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := job(t, on, 2)
		at := time.Now()
		ddlemu(t, w.dir, "down", "soak")
		return w.errors(at, "the fabric was taken down")
	})
}

// broughtUpAgain replaces the fabric by one of the same name. The job gets an error and does not
// use the new links; the next job does.
func broughtUpAgain(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := job(t, on, 2)
		if out, err := command(w.dir, "up", "--profile", "eth1", "--nodes", "2", "--no-measure", "--name",
			"soak"); err == nil {
			t.Fatalf("a second fabric of the same name came up:\n%s", out)
		}
		at := time.Now()
		ddlemu(t, w.dir, "down", "soak")
		ddlemu(t, w.dir, "up", "--profile", "eth1", "--nodes", "2", "--no-measure", "--name", "soak", "--clock",
			on.clock)
		took := w.errors(at, "the fabric was taken down")
		if n := w.carried(); n != 0 {
			t.Errorf("the new fabric carried %d bytes of the old job", n)
		}
		w.runsNextJob(on)
		return took
	})
}
