// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
)

// InForce is what a fabric has in force: what its profile or its file says, and what flags, variables or `ddlemu shape`
// have put in the place of that. Headers print its Text, JSON has all of it. Keys may be added, none renamed.
type InForce struct {
	Profile    string   `json:"profile"` // or the name in the fabric file
	Text       string   `json:"text"`    // all of it but the time of GPUs, in one line
	Link       LinkJSON `json:"link"`    // of the links between NICs
	NICs       int      `json:"nics_per_node"`
	GPUs       int      `json:"gpus_per_node,omitempty"` // that the job uses; 0: not known
	Topology   string   `json:"topology"`                // its kind; star: one switch joins all NICs
	Trunks     *Trunks  `json:"trunks,omitempty"`        // nil if no link joins two switches
	Transport  string   `json:"transport"`
	Congestion string   `json:"congestion"`         // control of the transport, or none
	GPU        string   `json:"gpu"`                // the kind that the fabric names, or none
	GPUTime    string   `json:"gpu_time,omitempty"` // what GPUs cost, and if nothing, why; "" on real GPUs

	Overridden []Override `json:"overridden"`             // values that differ from the profile or file
	Listed     int        `json:"links_listed,omitempty"` // entries of the file for single links, which Link lacks
	Shaped     int        `json:"links_shaped,omitempty"` // links changed by `ddlemu shape`, if Link lacks that
	Faults     int        `json:"faults,omitempty"`       // changes of links at given times

	values []valueInForce
	share  bool // GPUs share the NICs that join the nodes
}

// Override is a value that a flag, a variable or `ddlemu shape` has put in the place of the profile's or file's.
type Override struct {
	What string `json:"what"` // such as bandwidth
	Now  string `json:"now"`
	Was  string `json:"was"` // in the profile or file
}

// valueInForce is a value in force, with the value of the profile or file.
type valueInForce struct {
	Override
	flag  string // that gives a value of links; "" for others
	quiet bool   // the text has it only if it is overridden
}

// Names of values at which the text has more than the value.
const (
	topologyValue = "topology"
	nicsValue     = "NICs per node"
)

// none is the text for a missing value.
const none = "none"

// InForce is what f has in force. base is f as its profile or file has it. The caller sets GPUTime, see
// [InForce.Settle].
func (f *Fabric) InForce(base *Fabric) InForce {
	in := InForce{
		Profile: base.Name, Link: f.Link.JSON(), NICs: f.NICsPerNode, Topology: f.topologyName(),
		Transport: f.Transport.Kind, Congestion: cmp.Or(f.Transport.Congestion, NoCongestion),
		GPU: cmp.Or(f.GPUName(), none), Listed: len(f.Links), Faults: len(f.Faults),
	}
	for i := range linkParams {
		p := &linkParams[i]
		if p.Key == "framing" && f.TimedNodes {
			continue // SetNICRate has set it, and no flag does
		}
		now := p.Text(&f.Link)
		in.values = append(in.values, valueInForce{Override{p.Label, now, p.Text(&base.Link)}, p.Flag,
			p.Column == "" || p.Optional && now == none || p.Key == "up" && f.Link.Up})
	}
	add := func(what, now, was string, quiet bool) {
		in.values = append(in.values, valueInForce{Override: Override{what, now, was}, quiet: quiet})
	}
	add("transport", in.Transport, base.Transport.Kind, false)
	add("congestion control", in.Congestion, cmp.Or(base.Transport.Congestion, NoCongestion), false)
	add(topologyValue, in.Topology, base.topologyName(), f.Topology.IsStar())
	add("ECMP by", cmp.Or(f.Topology.ECMP, "pair"), cmp.Or(base.Topology.ECMP, "pair"), true)
	add(nicsValue, fmt.Sprint(f.NICsPerNode), fmt.Sprint(base.NICsPerNode), f.NICsPerNode == 1)
	add("GPU", in.GPU, cmp.Or(base.GPUName(), none), in.GPU == none)
	add("node time", onOff(f.NodeTime), onOff(base.NodeTime), true)
	add("NVLink", cmp.Or(f.NVLink, "as usual"), cmp.Or(base.NVLink, "as usual"), true)
	in.place(f)
	return in
}

// place sets what depends on the number of nodes and GPUs, and renders the text.
func (in *InForce) place(f *Fabric) {
	in.GPUs, in.Trunks = f.GPUsPerNode, nil
	in.share = f.Nodes > 1 && f.GPUsPerNode > f.NICsPerNode
	if g, trunks := f.shapedTrunks(); g != nil {
		in.Trunks = f.newTrunks(g, trunks)
	}
	in.render()
}

// topologyName is the kind of topology.
func (f *Fabric) topologyName() string { return cmp.Or(f.Topology.Kind, topology.Star) }

// onOff is the inverse of ParseOnOff.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Settle adds what a command settles after it has read the fabric: the nodes and their GPUs, the time of GPUs, as
// [Fabric.GPUTimeText] says it, and what links then are, see [Fabric.SetNICRate].
func (in InForce) Settle(f *Fabric, gpuTime string) InForce {
	in.Link, in.GPUTime = f.Link.JSON(), gpuTime
	in.place(f)
	return in
}

// WithShaped adds that `ddlemu shape` has changed some of the links, and not all of them alike.
func (in InForce) WithShaped(links int) InForce {
	in.Shaped = links
	in.render()
	return in
}

// Over is in for a table over several values, as a text, of the parameter of links that a flag gives.
func (in InForce) Over(flag, values string) InForce {
	in.values = slices.Clone(in.values)
	for i := range in.values {
		if v := &in.values[i]; v.flag == flag {
			v.Now = values
		}
	}
	in.render()
	return in
}

// render sets Overridden and Text.
func (in *InForce) render() {
	in.Overridden = []Override{}
	var rest []string
	for i := range in.values {
		switch v := &in.values[i]; {
		case v.Now != v.Was:
			in.Overridden = append(in.Overridden, v.Override)
		case v.What == nicsValue && in.share:
			rest = append(rest, fmt.Sprintf("%s for %d GPUs", units.Count(in.NICs, "NIC"), in.GPUs))
		case !v.quiet:
			rest = append(rest, v.What+" "+v.Now)
		}
		if v := &in.values[i]; v.What == topologyValue && in.Trunks != nil {
			rest = append(rest, "trunks "+in.Trunks.Text())
		}
	}
	text := in.Profile + ": "
	if len(in.Overridden) > 0 {
		text = in.Profile + " with " + in.overridden() + "; "
	}
	text += strings.Join(rest, ", ")
	if in.Listed > 0 {
		text += fmt.Sprintf("; some links otherwise (%s)", units.Count(in.Listed, "override"))
	}
	in.Text = strings.Join(append([]string{text}, in.changedLinks()...), "; ")
}

// overridden is a list such as "bandwidth 1Gbps (400Gbps), loss 10% (none)", with the profile's values in brackets.
func (in *InForce) overridden() string {
	var all []string
	for _, o := range in.Overridden {
		all = append(all, fmt.Sprintf("%s %s (%s)", o.What, o.Now, o.Was))
	}
	return strings.Join(all, ", ")
}

// changedLinks says how many links `ddlemu shape` has changed, if Link lacks that, and how many faults change links.
func (in *InForce) changedLinks() (texts []string) {
	if in.Shaped > 0 {
		texts = append(texts, units.Count(in.Shaped, "link")+" changed by ddlemu shape")
	}
	if in.Faults > 0 {
		texts = append(texts, units.Count(in.Faults, "fault"))
	}
	return texts
}

// Changes is the part of Text that is otherwise than in the profile or file; "" if nothing is.
func (in *InForce) Changes() string {
	var all []string
	if len(in.Overridden) > 0 {
		all = append(all, in.Profile+" with "+in.overridden())
	}
	return strings.Join(append(all, in.changedLinks()...), "; ")
}

// Properties are the values in force for JUnit, by names and values in turns.
func (in *InForce) Properties() (pairs []string) {
	if in.Text == "" {
		return nil
	}
	pairs = []string{"in_force", in.Changes(), "fabric_in_force", in.Text}
	for i := range in.values {
		if v := &in.values[i]; !v.quiet || v.Now != v.Was {
			pairs = append(pairs, strings.ToLower(strings.ReplaceAll(v.What, " ", "_")), v.Now)
		}
	}
	if in.Trunks != nil {
		pairs = append(pairs, "trunks", in.Trunks.Text())
	}
	if in.share {
		pairs = append(pairs, "nics_for_gpus", fmt.Sprintf("%d for %d", in.NICs, in.GPUs))
	}
	return append(pairs, "gpu_time", in.GPUTime)
}
