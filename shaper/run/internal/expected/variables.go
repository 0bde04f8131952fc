// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
)

// setVariables sets in d what NCCL reads from variables and its log does not tell. These are the variables of class
// [variables.Modelled].
func setVariables(d *plan.Decision, getenv func(string) string) error {
	var llBuffers int
	shared := 1
	for _, v := range []struct {
		name  string
		field *int
	}{
		{"NCCL_BUFFSIZE", &d.BuffSize}, {"NCCL_LL_BUFFSIZE", &d.LLBuffSize}, {"NCCL_LL128_BUFFSIZE", &d.LL128BuffSize},
		{"NCCL_NVLS_CHUNKSIZE", &d.NVLSChunkSize}, {"NCCL_NVLSTREE_MAX_CHUNKSIZE", &d.NVLSTreeChunkSize},
		{"NCCL_P2P_NET_CHUNKSIZE", &d.P2PChunkSize}, {"NCCL_CHUNK_SIZE", &d.ChunkSize},
		{"NCCL_P2P_LL_THRESHOLD", &d.P2PLLThreshold},
		{"NCCL_P2P_SCHEDULE_GROUP_SIZE", &d.P2PGroup}, {"NCCL_ALLOC_P2P_NET_LL_BUFFERS", &llBuffers},
		{"NCCL_NET_SHARED_BUFFERS", &shared},
	} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := variables.ParseInt(text)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", v.name, text, err)
		}
		if n < 0 {
			return fmt.Errorf("%s=%s: must not be negative", v.name, text)
		}
		if *v.field = int(n); v.field == &d.P2PLLThreshold && n == 0 {
			*v.field = -1 // no message is so small
		}
	}
	d.P2PLL = llBuffers == 1
	if shared == 0 && d.Coll.IsP2P() {
		return fmt.Errorf(
			"NCCL_NET_SHARED_BUFFERS=%s: the model does not know sends and receives whose connections have buffers of "+
				"their own", getenv("NCCL_NET_SHARED_BUFFERS"))
	}
	for _, name := range []string{"NCCL_WORK_ARGS_BYTES", "NCCL_WORK_FIFO_BYTES"} {
		if text := getenv(name); text != "" && d.Coll.IsP2P() {
			return fmt.Errorf(
				"%s=%s: the model does not know into how many kernels NCCL then divides sends and receives", name, text)
		}
	}
	return nil
}

// refuseVariables returns an error if a variable is set that changes what NCCL does for this decision, and of which the
// model knows the default only.
func refuseVariables(d *plan.Decision, getenv func(string) string) error {
	if !d.Coll.IsP2P() || !d.LocalTime {
		return nil
	}
	for _, name := range []string{"NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE"} {
		if text := getenv(name); text != "" {
			return fmt.Errorf("%s=%s: the model knows %s with the default of this variable only", name, text, d.Name())
		}
	}
	return nil
}
