// SPDX-License-Identifier: Apache-2.0

// Package found has the result of reading a network or node file of another tool.
package found

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/ddlemu/ddlemu/configs"
)

// Fabric is what a file of another tool describes.
type Fabric struct {
	Config configs.Fabric
	Kind   string // what the file is, for people

	// Says are facts of the file that people compare with what they expect, one line each.
	Says []string

	// Notes are what the file does not say, and what a fabric has otherwise than the file, one line each.
	Notes []string

	// Missing are values that the file does not have and that nothing may stand for. The user must give them.
	Missing []Missing
}

// Missing is a value that the user must give.
type Missing struct {
	What string // for people, such as "the latency of the links"
	Flag string // of `ddlemu fabric import`, without dashes
}

// Say adds a fact.
func (f *Fabric) Say(format string, args ...any) {
	f.Says = append(f.Says, line(format, args...))
}

// Note adds a note.
func (f *Fabric) Note(format string, args ...any) {
	f.Notes = append(f.Notes, line(format, args...))
}

// line is one line: names of a file may have any characters.
func line(format string, args ...any) string {
	words := strings.FieldsFunc(fmt.Sprintf(format, args...),
		func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	return strings.Join(words, " ")
}

// Miss adds a value that the user must give.
func (f *Fabric) Miss(flag, format string, args ...any) {
	f.Missing = append(f.Missing, Missing{fmt.Sprintf(format, args...), flag})
}

// Options are what the user says besides the files.
type Options struct {
	// Base is the fabric whose values count where the files have none; nil = none is given. Its topology and overrides
	// count for nothing.
	Base *configs.Fabric

	// Nodes is how many nodes the fabric shall have; 0 = the user does not say. Of a network with more, the first ones.
	Nodes int
}

// Start is a fabric of kind kind that has the base's values, or else the defaults.
func (o Options) Start(kind string) *Fabric {
	c := configs.Default()
	if b := o.Base; b != nil {
		c.Sources, c.Link, c.NCCL, c.CPU, c.GPUDirect, c.NVLinksPerGPU = b.Sources, b.Link, b.NCCL, b.CPU, b.GPUDirect,
			b.NVLinksPerGPU
		c.Transport, c.Endpoint, c.Host, c.JitterTable, c.Seed = b.Transport, b.Endpoint, b.Host, b.JitterTable, b.Seed
		c.Nodes = b.Nodes
	}
	if o.Nodes > 0 {
		c.Nodes = o.Nodes
	}
	return &Fabric{Config: c, Kind: kind}
}
