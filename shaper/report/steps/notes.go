// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
)

// insideNote says what was not emulated of the calls, "" if all data crosses nodes, if GPUs carried it, or if nodes cost
// time.
func (r *Result) insideNote() string {
	in, took := r.Inside, "takes no time here"
	if !r.Forecast && !r.Facts.Fabric.Config.IsVirtual() {
		took = "takes the time of this host's memory"
	}
	switch {
	case r.Facts.CUDA != "soft" || r.Facts.Fabric.Config.NodeTime || in.Calls == 0 && in.Partly == 0:
		return ""
	case in.Calls == 0:
		return fmt.Sprintf(
			"within nodes: the part of %s between ranks of one node %s: NVLink and PCIe are not emulated",
			units.Count(in.Partly, "call"), took)
	}
	text := fmt.Sprintf("within nodes: %s of %s in all stay on one node", units.Count(in.Calls, "call"),
		units.Volume(uint64(in.Bytes)))
	if in.Calls == 1 {
		text = fmt.Sprintf("within nodes: 1 call of %s stays on one node", units.Volume(uint64(in.Bytes)))
	}
	if in.Partly > 0 {
		text += fmt.Sprintf(", and a part of %s", units.Count(in.Partly, "other call"))
	}
	return text + fmt.Sprintf(": this %s, because NVLink and PCIe are not emulated", took)
}

// apart is how many of the steps come before and after the usual ones.
func (r *Result) apart() (warmup, ending int) {
	n := len(r.Steps)
	usual := r.Usual.Of(r.Steps)
	if len(usual) == n {
		return 0, 0
	}
	return r.Usual.From, n - r.Usual.From - len(usual)
}

// usualNote says which steps the mean leaves out; "" if none.
func (r *Result) usualNote() string {
	warmup, ending := r.apart()
	if warmup+ending == 0 {
		return ""
	}
	n := len(r.Steps)
	var apart []string
	if warmup > 0 {
		apart = append(apart, stepsText(1, warmup)+" at the beginning (a warm-up)")
	}
	if ending > 0 {
		apart = append(apart, stepsText(n-ending+1, n)+" at the end")
	}
	return fmt.Sprintf("%s: other calls than most steps, so the mean is of %s", strings.Join(apart, " and "),
		stepsText(warmup+1, n-ending))
}

// stepsText names steps, from 1.
func stepsText(first, last int) string {
	if first == last {
		return fmt.Sprintf("step %d", first)
	}
	return fmt.Sprintf("steps %d to %d", first, last)
}
