// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
)

// NoRun names the part that the numbers lack if nothing was run.
const NoRun = "a run (only the model)"

// NotIn lists what a real run on a fabric like c would spend time on, and the times of this one lack, as c has it in
// force. model says that only times of the model are meant; else there are measured ones too.
func (o *Options) NotIn(c *configs.Fabric, model bool) (all []string) {
	if text := o.notInNodes(c, model); text != "" {
		all = append(all, text)
	}
	if o.Nodes(c) > 1 {
		all = append(all, o.notInNetwork(c, model)...)
	}
	return all
}

// onlyMeasured begins the parts that measured times have and times of the model lack.
const onlyMeasured = "in expected times, "

// notInNodes is what nodes cost and the times lack; "" if they have it.
func (o *Options) notInNodes(c *configs.Fabric, model bool) string {
	if c.CostsGPUTime() {
		return ""
	}
	text := "GPU and launch time"
	if o.gpus(c) > 1 {
		text += ", links within a node"
	}
	if o.Libraries.CUDA != locate.Soft && !model {
		return onlyMeasured + text
	}
	if why, found := strings.CutPrefix(o.Header.Fabric.GPUTime, "none"); found {
		text += why
	}
	return text
}

// notInNetwork is what NICs, hosts and switches would do and the times lack.
func (o *Options) notInNetwork(c *configs.Fabric, model bool) (all []string) {
	inNICs := c.Host.Any() || c.Endpoint != configs.Endpoint{} || c.CostsGPUTime()
	switch {
	case inNICs:
	case c.Transport.Kind != configs.TCP:
		all = append(all, "NIC time per message")
	case c.OnKernel() && !model:
		all = append(all, onlyMeasured+"kernel network stack")
	default:
		all = append(all, "kernel network stack")
	}
	switch {
	case c.Topology.IsStar():
		all = append(all, "trunks (topology star)")
	case c.Topology.ECMP != configs.PerFlow && c.HasSeveralPaths():
		all = append(all, "several paths between two NICs (ECMP by pair)")
	}
	if o.Shared == "" || model {
		all = append(all, "other traffic")
	}
	return all
}
