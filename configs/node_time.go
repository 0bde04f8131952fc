// SPDX-License-Identifier: Apache-2.0

package configs

import "fmt"

// HasGPUTime reports whether it is known what nodes of f cost: its kind of GPU has the section time.
func (f *Fabric) HasGPUTime() bool { return f.GPU != nil && f.GPU.Time != nil }

// CostsGPUTime reports whether nodes of f cost time: it is asked for and known.
func (f *Fabric) CostsGPUTime() bool { return f.NodeTime && f.HasGPUTime() }

// GPUTimeText says in a few words for a header what GPUs cost in the times below it, and if they cost nothing, why.
// With runs the times are those of an emulated run, which cannot have it.
func (f *Fabric) GPUTimeText(runs bool) string {
	switch {
	case f.GPU == nil:
		return "none (add --gpu)"
	case !f.HasGPUTime():
		return fmt.Sprintf("none (%s has no section time: see docs/node-time.md)", f.GPU.Name)
	case runs:
		return "none (emulated runs do not have it yet; ddlemu expect --node-time has it)"
	case !f.NodeTime:
		return "none (add --node-time)"
	}
	return "that of " + f.GPU.Name
}

// validateNodeTime checks that there are GPUs that could cost time.
func (f *Fabric) validateNodeTime() error {
	if f.NodeTime && f.GPU == nil {
		return Errorf("node_time", "a kind of GPU has times: give gpu or --gpu, see `ddlemu gpus`")
	}
	return nil
}
