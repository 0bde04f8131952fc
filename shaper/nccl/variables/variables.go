// SPDX-License-Identifier: Apache-2.0

package variables

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Versions are the versions of NCCL in the list. The project runs both.
var Versions = []string{"2.22.3", "2.29.7"}

// Variable is a variable of NCCL, or a name that could be taken for one.
type Variable struct {
	Name   string
	In     []string // the Versions that have the name; none for class Other
	Class  Class
	Reason string // why it has no effect, or what the class needs; "" if the class says all
}

//go:embed nccl.tsv
var ncclText string

//go:embed ddlemu.tsv
var ddlemuText string

// List is NCCL's variables, by name.
var List = sync.OnceValue(func() []Variable {
	var list []Variable
	for _, fields := range rows(ncclText) {
		v := Variable{Name: fields[0], Class: Class(fields[2])}
		switch fields[1] {
		case "both":
			v.In = Versions
		case "-":
		default:
			v.In = []string{fields[1]}
		}
		if len(fields) > 3 {
			v.Reason = fields[3]
		}
		list = append(list, v)
	}
	return list
})

// rows are the lines of a list, divided at tabs, without comments.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, strings.Split(line, "\t"))
		}
	}
	return out
}

// find returns a variable of NCCL, nil if there is none of this name.
func find(name string) *Variable {
	list := List()
	i, found := slices.BinarySearchFunc(list, name,
		func(v Variable, name string) int { return strings.Compare(v.Name, name) })
	if !found {
		return nil
	}
	return &list[i]
}

// listed is the version of the list that nccl, such as 2.22 or 2.22.3, is; "" if it is none of them.
func listed(nccl string) string {
	for _, v := range Versions {
		if nccl != "" && (v == nccl || strings.HasPrefix(v, nccl+".")) {
			return v
		}
	}
	return ""
}

// mayFail are the classes of what NCCL uses.
var mayFail = []Class{Used, Modelled, Topology, Ranks, GDR, Host, Node}

// Given are the variables of set that NCCL uses, as NAME=VALUE: if it fails, one of them may be the reason.
func Given(set []Setting) []string {
	var out []string
	for _, s := range set {
		if v := find(s.Name); v != nil && s.Value != "" && slices.Contains(mayFail, v.Class) {
			out = append(out, s.text())
		}
	}
	return out
}

// text is NAME=VALUE, with the file that has it.
func (s *Setting) text() string {
	text := s.Name + "=" + s.Value
	if s.File != "" {
		text += fmt.Sprintf(" (%s)", s.File)
	}
	return text
}
