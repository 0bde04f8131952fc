// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// A run that does not fit into memory is refused before anything starts: the folder and the libraries are not there.
func TestTooLittleMemoryIsRefused(t *testing.T) {
	has := func(kib int) host.Machine {
		return host.Machine{Root: fstest.MapFS{"proc/meminfo": {Data: fmt.Appendf(nil, "MemAvailable: %d kB\n", kib)}}}
	}
	for _, c := range []struct {
		name       string
		collective nccl.Collective
		cuda       string
		gib        int
		refused    string
	}{
		{"two buffers of 16 ranks", nccl.AllReduce, locate.Soft, 32,
			"16 ranks need 32.4 GiB of memory for sizes up to 1.0 GiB, and 32.0 GiB are available: "},
		{"it fits", nccl.AllReduce, locate.Soft, 33, ""},
		{"the input is a share", nccl.AllGather, locate.Soft, 18, ""},
		{"the output is whole", nccl.AllGather, locate.Soft, 17, "16 ranks need 17.4 GiB"},
		{"not known", nccl.AllReduce, locate.Soft, 0, ""},
		{"on GPUs", nccl.AllReduce, "gpu", 1, ""},
	} {
		o := Options{Host: has(c.gib << 20), Libraries: locate.Libraries{CUDA: c.cuda}}
		o.Bench = bench.Config{Collective: c.collective, Sizes: []int64{8, 1 << 30, 64}, Ranks: 16}
		err := o.checkMemory(o.Host.AvailableMemory())
		if c.refused == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.refused == "" {
			continue
		}
		_, err = Run(t.Context(), o)
		if err == nil || !configs.IsUserError(err) || !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
	}
}

func TestKillForWantOfMemory(t *testing.T) {
	killed := &bench.RanksError{Step: "init",
		Failures: []bench.Failure{{Rank: 3, Name: "exit", Message: "it ended: signal: killed"}}}
	for _, c := range []struct {
		name          string
		err           error
		before, after uint64
		explained     bool
	}{
		{"killed", killed, 4, 6, true},
		{"by somebody else", killed, 4, 4, false},
		{"not killed",
			&bench.RanksError{Step: "init", Failures: []bench.Failure{{Name: "ncclRemoteError", Message: "killed"}}}, 4,
			6, false},
		{"another error", errors.New("killed"), 4, 6, false},
		{"none", nil, 4, 6, false},
	} {
		err := explainKill(c.err, c.before, c.after)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v is not the error itself", c.name, err)
		}
		if got := err != nil &&
			strings.Contains(err.Error(),
				"the kernel killed 2 processes for want of memory meanwhile"); got != c.explained {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
