// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/topology"
)

// topology reads the kind alone, or a mapping. It replaces all of the base's topology, unless it only changes keys
// other than the kind.
func (d *decoder) topology(t *Topology) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		if !d.changes || resolve(n).Kind == yaml.ScalarNode || valueOf(resolve(n), "kind") != nil {
			*t = Topology{}
		}
		var err error
		if resolve(n).Kind == yaml.ScalarNode {
			err = scalar(d, &t.Kind, text)(path, n)
		} else {
			err = d.mapping(path, n, d.topologyKeys(t))
		}
		if t.Kind == topology.Star {
			t.Kind = ""
		}
		return err
	}
}

func (d *decoder) topologyKeys(t *Topology) []field {
	return []field{
		{"kind", scalar(d, &t.Kind, text)},
		{"leaves", scalar(d, &t.Leaves, ParseInt)},
		{"spines", scalar(d, &t.Spines, positive(topology.MaxSpines))},
		{"k", scalar(d, &t.K, ParseInt)},
		{"dims", d.ints(&t.Dims)},
		{"groups", scalar(d, &t.Groups, ParseInt)},
		{"routers", scalar(d, &t.Routers, ParseInt)},
		{"sites", scalar(d, &t.Sites, ParseInt)},
		{"island", scalar(d, &t.Island, ParseInt)},
		{"oversubscription", scalar(d, &t.Oversubscription, ParseOversubscription)},
		{"ecmp", scalar(d, &t.ECMP, ParseECMP)},
		{"trunk", d.section(t.Trunk.fields(d))},
		{"switches", d.texts(&t.Switches)},
		{"attach", list(d, &t.Attach, func(a *Attach) []field {
			return []field{{"match", scalar(d, &a.Match, text)}, {"switch", scalar(d, &a.Switch, text)}}
		})},
		{"links", list(d, &t.Links, func(l *SwitchLink) []field {
			return append([]field{{"between", scalar(d, &l.Between, text)}}, l.fields(d)...)
		})},
		{"routes", list(d, &t.Routes, func(r *Route) []field {
			return []field{{"match", scalar(d, &r.Match, text)}, {"via", d.texts(&r.Via)}}
		})},
	}
}

// list reads a list of mappings.
func list[T any](d *decoder, dst *[]T, fields func(*T) []field) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		*dst = nil
		return d.sequence(path, n, func(path string, n *yaml.Node) error {
			var v T
			err := d.mapping(path, n, fields(&v))
			*dst = append(*dst, v)
			return err
		})
	}
}

func (d *decoder) ints(dst *[]int) func(string, *yaml.Node) error { return values(d, dst, ParseInt) }

func (d *decoder) texts(dst *[]string) func(string, *yaml.Node) error { return values(d, dst, text) }

// values reads a list of single values.
func values[T any](d *decoder, dst *[]T, parse func(string) (T, error)) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		*dst = nil
		return d.sequence(path, n, func(path string, n *yaml.Node) error {
			var v T
			err := scalar(d, &v, parse)(path, n)
			*dst = append(*dst, v)
			return err
		})
	}
}
