// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

func TestStatusOfAJob(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, fab, "eth1")
	job, err := file.JoinJob(7)
	if err != nil {
		t.Fatal(err)
	}
	part, err := file.Join(job, state.Rank{Rank: 1, Node: 1, World: 2, GPU: "0000:3b:00.0", Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer part.Leave()
	part.Reserve(4096)
	job.Invalidate(state.SharedGPU)

	s, err := statusOf(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []status.Participant{{
		Slot: part.Slot(), Job: job.Index(), Rank: 1, Node: 1, World: 2, PID: os.Getpid(), Alive: true,
		MemoryUsed: 4096, MemoryBudget: 1 << 20, GPU: "0000:3b:00.0",
	}}
	if diff := cmp.Diff(want, s.Participants); diff != "" {
		t.Error(diff)
	}
	wantJobs := []status.JobView{{Job: status.Job{Number: job.Index(), Running: true, Joined: 1},
		Judged: status.Judged{Reasons: state.SharedGPU.Words(), Findings: verdict.FromReasons(state.SharedGPU)}}}
	if diff := cmp.Diff(wantJobs, s.Jobs, cmpopts.IgnoreFields(status.Job{}, "Counted", "Place")); diff != "" {
		t.Error(diff)
	}
}
