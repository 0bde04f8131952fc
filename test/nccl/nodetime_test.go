// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"testing"
)

// Real NCCL takes the time that the model computes for nodes that cost time: one node and several, rings, trees, NVLS
// and sends, over switches and a mesh.
func TestNodeTimeIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		collective, gpu, version string
		env, args                []string
	}{
		{"allreduce", "a100-sxm", "2.22", nil, []string{"--ranks", "2", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.29", []string{"NCCL_PROTO=Simple"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.29", []string{"NCCL_ALGO=Tree"}, []string{"--ranks", "8", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.22", []string{"NCCL_ALGO=Tree", "NCCL_PROTO=LL128"},
			[]string{"--ranks", "8", "--nodes", "2", "--nvlink", "mesh"}},
		{"allreduce", "h100-sxm", "2.22", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "8", "--nodes", "1"}},
		{"allgather", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"reducescatter", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"allreduce", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLSTree"},
			[]string{"--ranks", "8", "--nodes", "2", "--nics-per-node", "4"}},
		{"alltoall", "h100-sxm", "2.29", nil, []string{"--ranks", "4", "--nodes", "1"}},
		{"alltoall", "h100-sxm", "2.22", nil, []string{"--ranks", "4", "--nodes", "2", "--nics-per-node", "2"}},
		{"hypercube", "a100-sxm", "2.22", nil, []string{"--ranks", "4", "--nodes", "1"}},
		{"sendrecv", "a100-sxm", "2.29", nil, []string{"--ranks", "4", "--nodes", "2"}},
	} {
		t.Run(fmt.Sprint(tc.collective, tc.gpu, tc.version, tc.env, tc.args), func(t *testing.T) {
			args := append([]string{tc.collective, "--profile", "ndr400", "--jitter", "none", "--gpu", tc.gpu, "--node-time",
				"--nccl", tc.version, "-b", "1K", "-e", "4M", "-f", "64", "-n", "2", "-w", "1"}, tc.args...)
			exact(t, bench(t, folder(t), tc.env, args...))
		})
	}
}
