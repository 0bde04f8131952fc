// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// doctor names a bench only where NCCL can run.
func TestDoctorNamesWhatCanRun(t *testing.T) {
	for _, tc := range []struct {
		gpus, soft host.Grade
		want       string
	}{
		{host.OK, host.Missing, "ddlemu bench"},
		{host.Missing, host.OK, "ddlemu bench"},
		{host.Missing, host.Missing, "ddlemu verify"},
	} {
		var b strings.Builder
		printNext(&b, []host.Check{{Name: host.GPUs, Grade: tc.gpus}, {Name: host.SoftCUDA, Grade: tc.soft}})
		if bench := strings.Contains(b.String(), "ddlemu bench"); !strings.Contains(b.String(), tc.want) ||
			bench != (tc.want == "ddlemu bench") {
			t.Errorf("GPUs %v, software CUDA %v: %s", tc.gpus, tc.soft, b.String())
		}
	}
}
