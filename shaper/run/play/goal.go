// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"
	"io"

	"github.com/ddlemu/ddlemu/configs/units"
	ncclplan "github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/goal"
)

// volume is how many messages a job has, and their bytes.
type volume struct{ messages, bytes uint64 }

func (c volume) String() string {
	return fmt.Sprintf("%s of %s", units.Count(int(c.messages), "message"), units.Volume(c.bytes))
}

// writeGOAL writes a job as GOAL: its calls are the sends and receives of NCCL's kernels, rank by rank. It returns
// notes on the content of the file.
func writeGOAL(out io.Writer, job *ncclplan.Job, node func(rank int) int) ([]string, error) {
	tasks, file := ncclplan.NewTasks(job, node), goal.NewTasks(out, len(job.Ranks))
	var between, within volume
	for r := range job.Ranks {
		cpus := map[int]int{ncclplan.Joins: 0} // messages use it too
		err := file.Rank(r, func() error {
			return tasks.Rank(r, func(t *ncclplan.Task) error {
				if t.Kind == ncclplan.Sends {
					sum := &between
					if t.Local {
						sum = &within
					}
					sum.messages++
					sum.bytes += t.Bytes
				}
				_, err := file.Add(goalTask(t, cpus))
				return err
			})
		})
		if err != nil {
			return nil, err
		}
	}
	notes := []string{fmt.Sprintf("GOAL: %s between nodes, with the flags of LL and LL128 and without headers",
		between)}
	if within.messages > 0 {
		notes = append(notes,
			fmt.Sprintf(
				"GOAL: %s between ranks of one node: each rank is a node of its own there, so they take the network's "+
					"time, "+
					"and the ranks of a node do not share its NICs", within))
	}
	return notes, file.Flush()
}

// goalTask is a task in GOAL. cpus are the CPUs of the streams with computations.
func goalTask(t *ncclplan.Task, cpus map[int]int) *goal.Task {
	out := &goal.Task{Requires: t.Requires, Starts: t.Follows, Peer: t.Peer, Tag: t.Tag, Amount: int64(t.Bytes)}
	switch t.Kind {
	case ncclplan.Sends:
		out.Kind = workload.Send
	case ncclplan.Receives:
		out.Kind = workload.Recv
	default:
		if _, ok := cpus[t.Stream]; !ok {
			cpus[t.Stream] = len(cpus)
		}
		out.Kind, out.Amount, out.CPU = workload.Calc, t.Nanos, cpus[t.Stream]
	}
	return out
}
