// SPDX-License-Identifier: Apache-2.0

// Package printer prints the rows of a bench: nccl-tests' table, JSON and comma-separated values.
package printer

import (
	"errors"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// NewBoth returns a printer that prints with a, then with b.
func NewBoth(a, b bench.Printer) bench.Printer { return both{a, b} }

type both struct{ a, b bench.Printer }

func (p both) Begin(h bench.Header) error { return errors.Join(p.a.Begin(h), p.b.Begin(h)) }
func (p both) Row(r bench.Row) error      { return errors.Join(p.a.Row(r), p.b.Row(r)) }
func (p both) End(s bench.Summary) error  { return errors.Join(p.a.End(s), p.b.End(s)) }
