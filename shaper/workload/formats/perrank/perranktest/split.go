// SPDX-License-Identifier: Apache-2.0

// Package perranktest shows tests what each rank of a workload does.
package perranktest

import (
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Split returns the operations of each rank, as [perrank.OfRank] yields them.
func Split(w *workload.Workload) ([][]workload.Op, error) {
	ix, err := w.Index()
	if err != nil {
		return nil, err
	}
	out := make([][]workload.Op, w.Head.Ranks)
	for r := range out {
		for o, err := range perrank.OfRank(ix, r) {
			if err != nil {
				return nil, err
			}
			out[r] = append(out[r], o)
		}
	}
	return out, nil
}
