// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// rankMemory is what NCCL and the software CUDA of one rank write to besides the buffers, in bytes. Measured with NCCL
// 2.22 on a virtual clock: 24 MiB with 2 ranks, 47 MiB with 16 ranks and 32 channels; on the real clock up to 97 MiB.
const rankMemory = 24 << 20

// buffers is the memory in bytes that a rank's input and output take for the largest row, and the size of that row.
func buffers(b *bench.Config) (most, size int64) {
	types := b.Types
	if len(types) == 0 {
		types = []nccl.DataType{nccl.Float}
	}
	for _, s := range b.Sizes {
		for _, t := range types {
			c := b.Collective.Counts(s, t, b.Ranks)
			if n := (c.Send + c.Recv) * t.Size(); n > most {
				most, size = n, c.Bytes(t)
			}
		}
	}
	return most, size
}

// checkMemory refuses a run on the software CUDA whose ranks write to more memory than is available: the kernel would
// kill them. On GPUs the buffers are in their memory.
func (o *Options) checkMemory(available uint64) error {
	most, size := buffers(&o.Bench)
	need := uint64(o.Bench.Ranks) * uint64(most+rankMemory)
	if o.fits(need, available) {
		return nil
	}
	return configs.Errorf("",
		"%s need %s of memory for sizes up to %s, and %s are available: ask for smaller sizes (-e), fewer --ranks, or "+
			"use a machine with more memory",
		units.Count(o.Bench.Ranks, "rank"), gibibytes(need), gibibytes(uint64(size)), gibibytes(available))
}

// fits says whether ranks that write to need bytes are not killed.
func (o *Options) fits(need, available uint64) bool {
	return o.Libraries.CUDA != locate.Soft || available == 0 || need <= available
}

// CheckBuffers refuses a job whose ranks have so many bytes of buffers together, if the software CUDA has not the
// memory.
func (o *Options) CheckBuffers(bytes uint64) error {
	need, available := bytes+uint64(o.Bench.Ranks)*rankMemory, o.Host.AvailableMemory()
	if o.fits(need, available) {
		return nil
	}
	return configs.Errorf("",
		"%s need %s of memory for their buffers, and %s are available: use a machine with more memory, or a workload "+
			"with smaller messages",
		units.Count(o.Bench.Ranks, "rank"), gibibytes(need), gibibytes(available))
}

func gibibytes(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// explainKill adds to the error of a run in which a rank was killed that the kernel killed processes for want of memory
// meanwhile. before and after are what [host.Machine.OOMKills] counted.
func explainKill(err error, before, after uint64) error {
	var ranks *bench.RanksError
	if after <= before || !errors.As(err, &ranks) {
		return err
	}
	for _, f := range ranks.Failures {
		if f.Name == "exit" && strings.Contains(f.Message, "killed") {
			return fmt.Errorf(
				"%w; the kernel killed %s for want of memory meanwhile (see dmesg): ask for smaller sizes (-e) or "+
					"fewer --ranks", err, units.Count(int(after-before), "process"))
		}
	}
	return err
}
