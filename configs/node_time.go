// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"strings"
)

// HasGPUTime reports whether it is known what nodes of f cost: its kind of GPU has the section time.
func (f *Fabric) HasGPUTime() bool { return f.GPU != nil && f.GPU.Time != nil }

// CostsGPUTime reports whether nodes of f cost time: it is asked for and known.
func (f *Fabric) CostsGPUTime() bool { return f.NodeTime && f.HasGPUTime() }

// CheckTimedNodes says why nodes cost nothing in an emulated run on f, whose ranks have the software CUDA or GPUs; nil:
// they can cost time.
func (f *Fabric) CheckTimedNodes(soft bool) error {
	switch {
	case f.NICTime != nil && f.NICTime.Rendezvous > 0:
		return errors.New("emulated runs do not know the rendezvous of NICs (nic_time) yet")
	case f.NodeNVLink().Connection == GraphNVLink:
		return errors.New("emulated runs do not know NVLinks that connect some pairs only yet")
	case f.OnKernel():
		return errors.New("runs on the datapath kernel do not have it")
	case !soft:
		return errors.New("a GPU takes its own time: only the software CUDA has the time of another")
	}
	return nil
}

// TimeNodes makes the nodes of f cost time in emulated runs, whose ranks have the software CUDA. It is an error if that
// cannot be.
func (f *Fabric) TimeNodes() error {
	if !f.HasGPUTime() {
		return fmt.Errorf("%s has no section time: see docs/node-time.md", f.GPUName())
	}
	if err := f.CheckTimedNodes(true); err != nil {
		return fmt.Errorf("%w; ddlemu expect has calculated times", err)
	}
	f.NodeTime, f.TimedNodes = true, true
	f.SetNICRate()
	return nil
}

// GPUTimeText says in a few words for a header what GPUs cost in the times below it, and if they cost nothing, which
// flags change that. not is why no flags of this command do, nil if they do or if GPUs cost time.
func (f *Fabric) GPUTimeText(not error) string {
	switch {
	case f.GPU != nil && !f.HasGPUTime():
		return fmt.Sprintf("none (%s has no section time: see docs/node-time.md)", f.GPU.Name)
	case not != nil:
		return fmt.Sprintf("none (%v)", not)
	case f.GPU == nil:
		return "none (add --gpu KIND --set node_time=on)"
	case !f.NodeTime:
		return "none (add --set node_time=on)"
	}
	text := "that of " + f.GPU.Name
	if from := f.GPU.Time.EstimatedFrom; len(from) > 0 {
		text += " (estimated from " + strings.Join(from, " and ") + ")"
	}
	return text
}

// validateNodeTime checks that there are GPUs that could cost time.
func (f *Fabric) validateNodeTime() error {
	if f.NodeTime && f.GPU == nil {
		return Errorf("node_time", "a kind of GPU has times: give gpu or --gpu, see `ddlemu gpus`")
	}
	if f.TimedNodes && !f.CostsGPUTime() {
		return Errorf("timed_nodes", "needs node_time: on, and a kind of GPU whose times are known")
	}
	return nil
}
