// SPDX-License-Identifier: Apache-2.0

package junit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit/junittest"
)

func sample() Suite {
	return Suite{
		Name: "bench all_reduce", Package: "ddlemu", Started: time.Date(2026, 1, 2, 3, 4, 5, 0,
			time.FixedZone("", 3600)), Took: 1500*time.Millisecond + 1234,
		Properties: []Property{{"profile", "ndr400"}, {"nccl", "2.22.3"}},
		Cases: []Case{
			{Class: "bench", Name: "good", Time: 97 * time.Nanosecond},
			{Class: "bench", Name: "slow <&\"\x01",
				Failure: &Problem{Type: "max-time", Message: "too \"long\"", Text: "a\n<b>"}},
			{Class: "bench", Name: "late", Error: &Problem{Type: "host", Message: "INVALID: late"}},
			{Class: "bench", Name: "left out", Skipped: "no time"},
			{Class: "bench", Name: "also", Skipped: "no time"},
		},
		Out: "a note",
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, sample()); err != nil {
		t.Fatal(err)
	}
	got := junittest.Parse(t, b.String())
	if s := got.Suites[0]; s.Tests != 5 || s.Failures != 1 || s.Errors != 1 || s.Skipped != 2 || s.Time != 1.5 ||
		s.Timestamp != "2026-01-02T02:04:05" || s.Properties["nccl"] != "2.22.3" ||
		strings.TrimSpace(s.Out) != "a note" {
		t.Errorf("%+v", s)
	}
	cases := got.Suites[0].Cases
	if c := cases[0]; c.Time != 97e-9 || c.Kind != "" || c.Name != "good" || c.Class != "bench" {
		t.Errorf("%+v", c)
	}
	if c := cases[1]; c.Kind != "failure" || c.Type != "max-time" || c.Message != `too "long"` || c.Text != "a\n<b>" ||
		!strings.HasPrefix(c.Name, `slow <&"`) {
		t.Errorf("%+v", c)
	}
	if c := cases[2]; c.Kind != "error" || c.Type != "host" || c.Message != "INVALID: late" {
		t.Errorf("%+v", c)
	}
	if c := cases[3]; c.Kind != "skipped" || c.Message != "no time" {
		t.Errorf("%+v", c)
	}
}

// A suite without anything is still a document that satisfies the schemas.
func TestWriteNothing(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, Suite{Name: "x", Package: "ddlemu"}); err != nil {
		t.Fatal(err)
	}
	if s := junittest.Parse(t, b.String()).Suites[0]; s.Tests != 0 || len(s.Cases) != 0 {
		t.Errorf("%+v", s)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestWriteFails(t *testing.T) {
	if err := Write(full{}, sample()); err == nil {
		t.Error("no error on a full disk")
	}
}
