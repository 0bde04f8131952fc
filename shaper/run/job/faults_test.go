// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// On the real clock the job changes the links and changes them back. Neither counts as a change by somebody else.
func TestFaultsAreMade(t *testing.T) {
	c := twoNodes(t).Config
	c.Faults = []configs.Fault{{At: time.Millisecond, For: time.Second, Rate: 0.5,
		LinkOverride: configs.LinkOverride{Match: "node0>node1"}}}
	f, err := fabric.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Start(t.Context(), folder(t), f, "run")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	hop := f.Link(0, 1)
	for _, want := range []configs.Fabric{{Link: configs.Link{Bandwidth: c.Link.Bandwidth / 2}}, {Link: c.Link}} {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			spec, _, changes := j.file.SpecOf(hop)
			if changes > 0 && fabric.LinkOf(spec).Bandwidth == want.Link.Bandwidth {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the link has %v, want %v", fabric.LinkOf(spec).Bandwidth, want.Link.Bandwidth)
			}
		}
	}
	if text := j.LinkChanges(); text != "" {
		t.Errorf("faults are told as changes: %s", text)
	}
}

// A fault that could not be made is a reason for INVALID.
func TestFaultsThatAreNotMade(t *testing.T) {
	x, text := &faults{}, "the faults at 1s and later were not made: no"
	x.failed.Store(&text)
	v := verdict.Verdict{Valid: true}
	x.judge(&v)
	if v.Valid || len(v.Findings) != 1 || v.Findings[0].Text != text {
		t.Errorf("%+v", v)
	}
}
