// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/workloadcmd"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// What is recorded has the variables that the job had from this process, and --nccl-env comes before them.
func TestRecordNotesVariables(t *testing.T) {
	has := map[string]string{"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_NTHREADS": "", "NCCL_BUFFSIZE": "4 M",
		"NCCL_SOCKET_IFNAME": "eth0", "HOME": "/"}
	o := recordOptions{OutputOptions: workloadcmd.OutputOptions{NCCLEnv: []string{"NCCL_PROTO=Simple"}}}
	var warned strings.Builder
	o.noteNCCL(&warned, func(name string) string { return has[name] })
	var head workload.Head
	if err := o.AddNCCL(&head); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(head.NCCLEnv(), " "); got != "NCCL_ALGO=Ring NCCL_PROTO=Simple" {
		t.Errorf("the head has %s", got)
	}
	if got := warned.String(); got != "ddlemu: a variable is not in the workload: NCCL_BUFFSIZE=\"4 M\": must be 1 to 256 printable ASCII characters without spaces\n" {
		t.Errorf("it says %s", got)
	}
}
