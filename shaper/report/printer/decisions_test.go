// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

func TestDecisions(t *testing.T) {
	row := func(typ nccl.DataType, size int64, algo, proto string, channels int) bench.Row {
		r := bench.Row{Size: size, Type: typ, Op: "sum"}
		if algo != "" {
			r.OutOfPlace.Decision = &nccllog.Decision{Algo: algo, Proto: proto}
		}
		r.OutOfPlace.Channels = channels
		return r
	}
	rows := []bench.Row{
		row(nccl.Float, 8, "Ring", "LL", 1), row(nccl.Float, 64, "Ring", "LL", 1), row(nccl.Float, 512, "Ring", "LL",
			2),
		row(nccl.Float, 4096, "", "", 0), row(nccl.Float, 32768, "Ring", "Simple", 0),
	}
	half := []bench.Row{row(nccl.Half, 8, "Tree", "LL", 1), row(nccl.Int8, 8, "", "", 0)}
	const floats = "8 to 64 bytes Ring LL x1; 512 bytes Ring LL x2; 32768 bytes Ring Simple"
	for _, tc := range []struct {
		name string
		rows []bench.Row
		want []string
	}{
		{"one kind", rows, []string{floats}},
		{"two cycles", append(rows[:5:5], rows...), []string{floats}},
		{"several kinds", append(rows[:5:5], half...),
			[]string{"float sum: " + floats, "half sum: 8 bytes Tree LL x1"}},
		{"not known", half[1:], nil},
		{"no rows", nil, nil},
	} {
		var c decisions
		for _, r := range tc.rows {
			c.add(r)
		}
		if d := cmp.Diff(tc.want, c.lines()); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
}
