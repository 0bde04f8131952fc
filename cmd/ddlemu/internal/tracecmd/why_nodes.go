// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// nodeNotes say what the ledgers do not have of nodes that take time, and the command that calculates it. file is the
// fabric that the job ran on.
func nodeNotes(file string, c *configs.Fabric, t *messages.Trace, r *why.Report) []string {
	if !c.TimedNodes || len(r.Calls) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the ledgers have the messages between nodes: a rank that had nothing ready to send "+
		"waited for its host's thread, a kernel or the links within its node; how long for each, the model says: `%s`",
		expectCommand(file, t, r))}
}

// expectCommand cuts the time of the longest collective of all ranks into its parts, by the model.
func expectCommand(file string, t *messages.Trace, r *why.Report) string {
	world := int(t.Ranks[0].World)
	collective, size := "COLLECTIVE", ""
	for _, c := range r.Worst(len(r.Calls)) {
		task := &t.Tasks[c.Tasks[0]]
		if name, args, ok := calledAs(task); ok && task.Ranks == world {
			collective, size = name, args
			break
		}
	}
	command := fmt.Sprintf("ddlemu expect %s -F %s --ranks %d%s", collective, file, world, size)
	version := nccl.VersionText(t.Ranks[0].NCCL)
	for _, line := range locate.SoftVersions {
		if strings.HasPrefix(version, line+".") && line != locate.DefaultSoftVersion {
			command += " --nccl " + line
		}
	}
	return command + " --why"
}

// calledAs returns the name and the flags by which nccl-tests makes the call of a task. ok is false for one that is not
// a collective, or of a type that nccl-tests does not have.
func calledAs(task *messages.Task) (name, args string, ok bool) {
	c, err := nccl.ParseCollective(task.Func)
	if err != nil || c.IsP2P() {
		return "", "", false
	}
	types, err := nccl.ParseDataTypes(task.Datatype)
	if err != nil || len(types) != 1 {
		return "", "", false
	}
	size := int64(task.Count) * types[0].Size() * c.Shares(task.Ranks)
	args = fmt.Sprintf(" -b %d -e %[1]d", size)
	if c.Reduces() && task.Datatype != "float" {
		args += " -d " + task.Datatype
	}
	return c.String(), args, true
}
