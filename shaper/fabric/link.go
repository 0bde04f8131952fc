// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"reflect"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// The words of a configuration, by the link model's constants.
var (
	jitterKinds = []string{link.NoJitter: configs.NoJitter, link.Uniform: configs.UniformJitter,
		link.Normal: configs.NormalJitter, link.Pareto: configs.ParetoJitter, link.Table: configs.TableJitter}
	queuePolicies = []string{link.Lossless: configs.Lossless, link.TailDrop: configs.TailDrop, link.Fair: configs.Fair}
)

// Spec is a link as the link model has it. l must be valid.
func Spec(l configs.Link) (s link.Spec) {
	copyFields(&s, &l)
	s.Jitter = link.Jitter{Kind: link.JitterKind(number(jitterKinds, l.Jitter.Kind)), Value: l.Jitter.Value}
	s.QueueBytes, s.QueuePolicy = uint64(l.Queue.Bytes), link.Policy(number(queuePolicies, l.Queue.Policy))
	s.Down = !l.Up
	return s
}

// LinkOf is Spec's inverse: what a user would have written for s.
func LinkOf(s link.Spec) (l configs.Link) {
	copyFields(&l, &s)
	l.Jitter = configs.Jitter{Kind: word(jitterKinds, int(s.Jitter.Kind)), Value: s.Jitter.Value}
	l.Queue = configs.Queue{Bytes: units.Size(s.QueueBytes), Policy: word(queuePolicies, int(s.QueuePolicy))}
	l.Up = !s.Down
	return l
}

// number is the constant that word stands for, the first for a word that is unknown.
func number(words []string, word string) int { return max(slices.Index(words, word), 0) }

// word is the inverse of number; "" for a number from a damaged file.
func word(words []string, number int) string {
	if number >= len(words) {
		return ""
	}
	return words[number]
}

// copyFields sets the fields of dst to the fields of src of the same name, where their
// types differ in nothing but their names or are both numbers.
func copyFields(dst, src any) {
	to, from := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem()
	for i := range to.NumField() {
		v, field := from.FieldByName(to.Type().Field(i).Name), to.Field(i)
		if v.IsValid() && v.CanConvert(field.Type()) {
			field.Set(v.Convert(field.Type()))
		}
	}
}

// WholePath is a path as if it were one link: its least rate, the sum of its latencies, and whether it is up.
func (f *Fabric) WholePath(path []link.PathHop) configs.Link {
	total := configs.Link{Up: true}
	for _, step := range path {
		l := LinkOf(f.Hops[step.Hop].Spec)
		total.Latency += l.Latency
		if total.Bandwidth == units.Unlimited || l.Bandwidth != units.Unlimited && l.Bandwidth < total.Bandwidth {
			total.Bandwidth = l.Bandwidth
		}
		total.Up = total.Up && l.Up
	}
	return total
}

// WorstPath is the least rate and the largest latency of the paths between two NICs, of which each flow may have its
// own, and whether all of them are up.
func (f *Fabric) WorstPath(src, dst int) configs.Link {
	paths := f.Paths(src, dst)
	worst := f.WholePath(slices.Concat(paths...)) // a rate and a state are those of the worst hop, of whichever path
	worst.Latency = 0
	for _, path := range paths {
		worst.Latency = max(worst.Latency, f.WholePath(path).Latency)
	}
	return worst
}
