// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The software CUDA's executor and the plugin have NCCL's constants in C and C++. They are those of the plan.
func TestConstantsOfTheExecutorAndThePlugin(t *testing.T) {
	for _, tc := range []struct {
		file, pattern string // the pattern's group is the constant
		want          string
	}{
		{"cuda/soft/exec/layout.h", `kSteps = (\d+);`, fmt.Sprint(Steps)},
		{"cuda/soft/exec/algos.cc", `slices_per_chunk = spec\.steps_per_slice = (\d+);`,
			fmt.Sprint(ChunkSteps / SliceSteps)},
		{"cuda/soft/exec/algos.cc", `slices_per_chunk = spec\.steps_per_slice = (\d+);`, fmt.Sprint(SliceSteps)},
		{"cuda/soft/exec/prims_ll.cc", `kData = (\d+), `, fmt.Sprint(LLData)},
		{"cuda/soft/exec/prims_ll.cc", `kBytes = (\d+), `, fmt.Sprint(LLLine)},
		{"cuda/soft/exec/prims_ll128.cc", `kData = (\d+), `, fmt.Sprint(8 * (ll128Line - 1))},
		{"cuda/soft/exec/prims_ll128.cc", `kBytes = (\d+), `, fmt.Sprint(8 * ll128Line)},
		{"cuda/soft/exec/prims_ll128.cc", `kGroupLines = (\d+), `, fmt.Sprint(LL128Slice / (8 * ll128Line))},
		{"cuda/soft/exec/shares.cc", `case kLL:\s+return (\d+);`, fmt.Sprint(LLLine)},
		{"cuda/soft/exec/shares.cc", `case kLL128:\s+return (.*?);`,
			fmt.Sprintf("32 * 8 / %d * %d * 8", ll128Line, ll128Line-1)},
		{"cuda/soft/exec/shares.cc", `default:\s+return (\d+);`, fmt.Sprint(simpleGrain)},
		{"nccl-plugin/internal/shm/conn.h", `DDLEMU_MAX_REQUESTS (\d+)`, fmt.Sprint(MaxRequests)},
	} {
		text, err := os.ReadFile(filepath.Join("../../..", tc.file))
		if err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(tc.pattern).FindSubmatch(text)
		if got == nil {
			t.Errorf("%s has no %s", tc.file, tc.pattern)
		} else if string(got[1]) != tc.want {
			t.Errorf("%s: %s is %s, the plan has %s", tc.file, tc.pattern, got[1], tc.want)
		}
	}
	if 32*8/ll128Line*(ll128Line-1)*8 != LL128Payload {
		t.Error("the grain of LL128 is not its payload")
	}
}
