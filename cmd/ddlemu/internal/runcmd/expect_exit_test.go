// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

func TestExpectedExits(t *testing.T) {
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprint(i))
	}
	for _, c := range []struct {
		given []string
		env   string
		want  []int
		says  string // the error
	}{
		{nil, "", nil, ""},
		{[]string{"3", "1", "3"}, "", []int{1, 3}, ""},
		{nil, "2,0", []int{0, 2}, ""},
		{[]string{"1"}, "2", []int{1}, ""},
		{[]string{"x"}, "", nil, `--expect-exit: "x" is not a rank: `},
		{[]string{""}, "", nil, `--expect-exit: "" is not a rank: `},
		{[]string{"-1"}, "", nil, `--expect-exit: "-1" is not a rank: `},
		{nil, "1,", nil, `DDLEMU_EXPECT_EXIT: "" is not a rank: `},
		{many, "", nil, `--expect-exit: 65 ranks: at most 64`},
	} {
		got, err := expectedExits(c.given,
			func(name string) string { return map[string]string{job.ExitEnv: c.env}[name] })
		switch {
		case c.says == "" && (err != nil || !slices.Equal(got, c.want)):
			t.Errorf("%q, %q: %v, %v, want %v", c.given, c.env, got, err, c.want)
		case c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says) ||
			cli.ExitStatus(err) != cli.ExitInput):
			t.Errorf("%q, %q: error %v, want %q", c.given, c.env, err, c.says)
		}
	}
}

// An exit that was not seen is exit status 1, and a failure of its own test case.
func TestMissedExits(t *testing.T) {
	v := verdict.New(nil)
	v.AddExits([]int{1, 5, 7}, 0b010)
	err := missedExits(v.Exits)
	if err == nil || cli.ExitStatus(err) != cli.ExitFailure ||
		!strings.HasPrefix(err.Error(), "--expect-exit 1,7: these ranks have not died: ") {
		t.Errorf("%v", err)
	}
	if !v.Valid || !slices.Equal(v.Notes, []string{"rank 5 has died or failed, as expected"}) {
		t.Errorf("%+v", v)
	}
	s := runSuite([]string{"/bin/sh"}, 0, &configs.InForce{}, &v, nil)
	var failed []string
	for _, c := range s.Cases {
		if c.Failure != nil || c.Error != nil {
			failed = append(failed, c.Name)
		}
	}
	if len(s.Cases) != 5 || !slices.Equal(failed, []string{"rank 1 exits", "rank 7 exits"}) {
		t.Errorf("%d cases, these failed: %q", len(s.Cases), failed)
	}
	if err := missedExits(v.Exits[1:2]); err != nil {
		t.Error(err)
	}
}

// The command and the verdict have test cases of their own.
func TestRunSuite(t *testing.T) {
	v := verdict.New(nil)
	v.Add(verdict.Finding{Cause: verdict.CauseJob, Text: "a rank died"})
	base, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	lossy := *base
	lossy.Link.Loss.P = 0.1
	in := lossy.InForce(base).Settle(&lossy, "none (add --gpu KIND --set node_time=on)")
	s := runSuite([]string{"sh", "x.sh"}, 7, &in, &v, nil)
	for _, want := range []junit.Property{{Name: "profile", Value: "ndr400"},
		{Name: "in_force", Value: "ndr400 with loss 10% (none)"}, {Name: "fabric_in_force", Value: in.Text},
		{Name: "loss", Value: "10%"}, {Name: "gpu_time", Value: "none (add --gpu KIND --set node_time=on)"}} {
		if !slices.Contains(s.Properties, want) {
			t.Errorf("the properties lack %v: %v", want, s.Properties)
		}
	}
	if len(s.Cases) != 2 || s.Cases[0].Failure == nil ||
		s.Cases[0].Failure.Message != "the command ended with status 7" || s.Cases[1].Error == nil ||
		s.Cases[1].Error.Type != "job" {
		t.Errorf("%+v", s.Cases)
	}
	s = runSuite([]string{"sh"}, 0, &in, &v, fmt.Errorf("no fabric"))
	if len(s.Cases) != 1 || s.Cases[0].Error == nil {
		t.Errorf("%+v", s.Cases)
	}
}
