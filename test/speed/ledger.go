// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// ledgerCost compares calls with and without a ledger, in turn.
func (d *driver) ledgerCost(ctx context.Context) (*section, error) {
	folder, err := os.MkdirTemp(d.dir, "ledgers-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for ledgers: %w", err)
	}
	without, with := samples{}, samples{}
	for range repeats {
		for _, what := range []string{"pingpong", "rate", "calls"} {
			if err := d.sample(ctx, without, nil, what); err != nil {
				return nil, err
			}
			if err := d.sample(ctx, with, []string{ledger.Env + "=" + folder}, what); err != nil {
				return nil, err
			}
			if err := ledger.Clear(folder); err != nil {
				return nil, fmt.Errorf("remove the ledgers: %w", err)
			}
		}
	}
	s := newSection("With and without a ledger, messages of 8 bytes", "what", "without", "with", "difference")
	row := func(name string, figure func(samples) float64, format string) {
		a, b := figure(without), figure(with)
		s.row(name, fmt.Sprintf(format, a), fmt.Sprintf(format, b), fmt.Sprintf("%+.0f ns", b-a))
	}
	row("one way, through isend, irecv and test", func(s samples) float64 { return s.median("pingpong 8") }, "%.0f ns")
	row("a message of many, 32 outstanding", func(s samples) float64 { return 1e9 / s.median("rate 8") }, "%.0f ns")
	for _, pair := range [][2]string{{"isend", "test_send"}, {"irecv", "test_recv"}} {
		row(pair[0]+" and the test that completes it",
			func(s samples) float64 { return s.median(pair[0]+" 8") + s.median(pair[1]+" 8") }, "%.0f ns")
	}
	return s, nil
}
