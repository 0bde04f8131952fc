// SPDX-License-Identifier: Apache-2.0

package emulate

import "github.com/ddlemu/ddlemu/shaper/bench"

// deferred stores the calls of a printer until play.
type deferred struct {
	to    bench.Printer
	calls []func() error
}

func (d *deferred) Begin(h bench.Header) error {
	d.calls = append(d.calls, func() error { return d.to.Begin(h) })
	return nil
}

func (d *deferred) Row(r bench.Row) error {
	d.calls = append(d.calls, func() error { return d.to.Row(r) })
	return nil
}

func (d *deferred) End(s bench.Summary) error {
	d.calls = append(d.calls, func() error { return d.to.End(s) })
	return nil
}

// play makes the stored calls; d may be nil.
func (d *deferred) play() error {
	if d == nil {
		return nil
	}
	for _, call := range d.calls {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}
