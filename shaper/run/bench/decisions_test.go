// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

func TestDecisions(t *testing.T) {
	row := func(typ nccl.DataType, size int64, algo, proto string, channels int) Row {
		r := Row{Size: size, Type: typ, Op: "sum"}
		if algo != "" {
			r.OutOfPlace.Decision = &nccllog.Decision{Algo: algo, Proto: proto}
		}
		r.OutOfPlace.Channels = channels
		return r
	}
	rows := []Row{
		row(nccl.Float, 8, "Ring", "LL", 1), row(nccl.Float, 64, "Ring", "LL", 1), row(nccl.Float, 512, "Ring", "LL",
			2),
		row(nccl.Float, 4096, "", "", 0), row(nccl.Float, 32768, "Ring", "Simple", 0),
	}
	half := []Row{row(nccl.Half, 8, "Tree", "LL", 1), row(nccl.Int8, 8, "", "", 0)}
	const floats = "8 to 64 bytes Ring LL x1; 512 bytes Ring LL x2; 32768 bytes Ring Simple"
	for _, tc := range []struct {
		name string
		rows []Row
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

// Channels from the log have precedence over those of the model.
func TestChannels(t *testing.T) {
	for _, tc := range []struct {
		decision *nccllog.Decision
		model    int
		want     int
	}{
		{&nccllog.Decision{ChannelLo: 0, ChannelHi: 3}, 2, 4},
		{&nccllog.Decision{ChannelLo: nccllog.Unknown, ChannelHi: nccllog.Unknown}, 2, 2},
		{nil, 2, 2},
		{nil, 0, 0},
	} {
		var m Measurement
		m.decided(tc.decision)
		m.compare(Expectation{Channels: tc.model})
		if m.Channels != tc.want {
			t.Errorf("%+v and %d of the model: %d channels, want %d", tc.decision, tc.model, m.Channels, tc.want)
		}
	}
}
