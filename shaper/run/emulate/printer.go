// SPDX-License-Identifier: Apache-2.0

package emulate

import "github.com/ddlemu/ddlemu/shaper/run/bench"

// deferred keeps printed rows until play.
type deferred struct {
	to     bench.Printer
	header *bench.Header
	rows   []bench.Row
	end    *bench.Summary
}

func (d *deferred) Begin(h bench.Header) error {
	d.header = &h
	return nil
}

func (d *deferred) Row(r bench.Row) error {
	d.rows = append(d.rows, r)
	return nil
}

func (d *deferred) End(s bench.Summary) error {
	d.end = &s
	return nil
}

// play prints what was kept; d may be nil.
func (d *deferred) play() error {
	if d == nil || d.header == nil {
		return nil
	}
	if err := d.to.Begin(*d.header); err != nil {
		return err
	}
	for _, r := range d.rows {
		if err := d.to.Row(r); err != nil {
			return err
		}
	}
	if d.end == nil {
		return nil
	}
	return d.to.End(*d.end)
}
