// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// NCCL 2.22.3 decides on 4000 GiB with 2 ranks on 10 Gbit/s, which take an hour, and fails on 8000 GiB.
func TestCheckLongest(t *testing.T) {
	const soft = locate.Soft
	for _, tc := range []struct {
		name, profile, cuda string
		collective          nccl.Collective
		size                int64
		want                string
	}{
		{"within an hour", "eth10", soft, nccl.AllReduce, 3900 << 30, ""},
		{"too long", "eth10", soft, nccl.AllReduce, 8000 << 30, "8589934592000 bytes are too many for this fabric: "},
		{"ends with the size", "eth10", soft, nccl.AllReduce, 8000 << 30, ": ask for at most 256G (-e)"},
		{"more than an int64 of nanoseconds", "eth1", soft, nccl.Broadcast, 1<<62 - 1, "ask for at most 32G (-e)"},
		{"a faster fabric", "ndr400", soft, nccl.AllReduce, 99999 << 30, ""},
		{"sends have no algorithm", "eth10", soft, nccl.SendRecv, 8000 << 30, ""},
		{"a GPU decides on less", "eth10", "", nccl.AllReduce, 8000 << 30, ""},
		{"links without a rate", "loopback", soft, nccl.AllReduce, 8000 << 30, ""},
	} {
		o := Options{Config: *profile(t, tc.profile),
			Bench: bench.Config{Collective: tc.collective, Ranks: 2, Sizes: []int64{8, tc.size},
				Ops: []nccl.RedOp{nccl.Sum}}}
		o.Libraries.CUDA = tc.cuda
		f, err := fabric.New(&o.Config)
		if err != nil {
			t.Fatal(err)
		}
		switch err := o.checkLongest(f); {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}
