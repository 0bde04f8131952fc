// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// forTable returns options with the flags that were given, for one table of a log: what it says of its cluster is not
// for the next one.
func (o *expectOptions) forTable(g *cli.Global) (*expectOptions, error) {
	c := &expectOptions{}
	c.onlyModel = true // as of all tables of a log
	return c, giveAgain(g, o.Flags, c.AddFlags)
}

// place sets the flags that were not given to what a log says of its cluster: nodes, kind of GPU, version of NCCL, and
// how many threads make the calls. The notes say what of it is not known here.
func (o *expectOptions) place(g *cli.Global, log *tables.Table) (notes []string, err error) {
	s := &log.Log.System
	o.nodeTimeIfKnown, o.oneThread = !o.nodeTimeOff(g), s.GPUsPerThread > 1
	if log.IsCSV() {
		o.oneThread = log.Launch == tables.OneThread
		return nil, o.placeTable(g, log, log.GPU, o.nodeTimeIfKnown && !o.Flags.Changed("gpu"))
	}
	if log.NCCL != "" && (o.Soft || !locate.HasGPU()) { // with a GPU, or a path, --nccl has another meaning
		if err := o.setUnlessGiven("the log's", "nccl", log.NearestNCCL()); err != nil {
			return nil, err
		}
	}
	if nodes := log.Nodes; nodes > 0 && g.Fabric == "" && !o.Flags.Changed("file") &&
		!o.Flags.Changed("gpus-per-node") {
		if err := o.setUnlessGiven("the log's", "nodes", strconv.Itoa(nodes)); err != nil {
			return nil, err
		}
		if nodes == 1 && o.Profile == "" && g.Getenv(configs.ProfileEnv) == "" {
			o.Profile = tables.OneNode // nothing crosses its links
		}
	}
	if s.GPU == "" || o.nodeTimeOff(g) {
		return nil, nil
	}
	return o.placeGPU(g, s.GPU)
}

// placeGPU sets the kind of GPU whose product is the log's product, unless the fabric has one.
func (o *expectOptions) placeGPU(g *cli.Global, product string) (notes []string, err error) {
	kind, near, err := configs.KindOfProduct(product)
	if err != nil {
		return nil, err
	}
	c, err := o.fabric(g)
	switch {
	case err != nil:
		return nil, nil // of which setup tells
	case c.GPU != nil:
		if kind != "" && c.GPU.Name != kind {
			notes = append(notes, fmt.Sprintf("the log's GPUs are %s (%s), the fabric's %s", product, kind,
				c.GPU.Name))
		}
		return notes, nil
	case kind == "":
		text := fmt.Sprintf(
			"no kind of GPU is the log's, %s: one fixed cost of a call stands for the time of its nodes, "+
				"and NCCL decides as for compute capability 8.0; --gpu names a kind", product)
		if len(near) > 0 {
			text += ", such as " + strings.Join(near, " or ")
		}
		return []string{text}, nil
	case g.Fabric != "":
		return nil, nil
	}
	return nil, o.setUnlessGiven("the log's", "gpu", kind)
}

// settings are the variables of a log that the ranks here get. One that is set here wins. The notes name both.
func settings(log *tables.Table, getenv func(string) string) (env, notes []string) {
	var own []string
	for _, v := range log.Env {
		if name, _, _ := strings.Cut(v, "="); getenv(name) != "" {
			own = append(own, v)
		} else {
			env = append(env, v)
		}
	}
	if len(env) > 0 {
		notes = append(notes, "set, as in the log: "+strings.Join(env, " "))
	}
	if len(own) > 0 {
		notes = append(notes, "set here to other values than in the log: "+strings.Join(own, " "))
	}
	return env, notes
}
