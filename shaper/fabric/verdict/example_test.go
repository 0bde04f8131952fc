// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Judge uses the counters that a job's ranks have written into the fabric's file.
func ExampleJudge() {
	job := state.JobStatus{Joined: 2, Left: 2, Reasons: state.PeerDied, LinkStats: make([]state.LinkStats, 1),
		Pauses: make([]state.Pauses, 1)}
	v := verdict.Judge(verdict.Input{TimeScale: 1, Job: job})
	fmt.Println(v.Word)
	for _, reason := range v.Reasons {
		fmt.Println(reason)
	}
	// Output:
	// INVALID
	// a rank died
	// no message crossed an emulated link: nothing was emulated; see with NCCL_DEBUG=INFO which net NCCL uses, and whether the ranks are on several nodes
}
