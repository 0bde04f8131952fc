// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"strings"
	"testing"
)

// NCCL's own lines say which NICs it used between nodes, and whether they reach the GPUs' memory.
func TestNetOfLog(t *testing.T) {
	const row = "     1024           256     float     sum      -1    20.00    0.05    0.10      0    20.00    0.05    0.10      0\n"
	for _, tc := range []struct {
		name, lines string
		want        Net
	}{
		{"none", "", Net{}},
		{"within a node", "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", Net{}},
		{"two NICs", `a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA
b:1:2 [0] NCCL INFO Channel 01/0 : 8[0] -> 7[7] [send] via NET/IB/1(3)/GDRDMA/Shared
[1,0]<stdout>:b:1:2 [0] NCCL INFO Channel 02/0 : 8[0] -> 7[7] [send] via NET/IB/1
`, Net{Name: "IB", NICs: 2, Ends: 3, Direct: 2}},
		{"a name of two words", "a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/3/GDRDMA\n",
			Net{Name: "AWS Libfabric", NICs: 1, Ends: 1, Direct: 1}},
		{"no number", "a:1:2 [0] NCCL INFO x via NET/IB/y\na:1:2 [0] NCCL INFO x via NET/IB\n", Net{}},
		{"not of NCCL", "a via NET/IB/0\n", Net{}},
	} {
		log, err := Read(strings.NewReader(tc.lines + row))
		if err != nil {
			t.Fatal(err)
		}
		if got := log.Tests[0].System.Net; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
