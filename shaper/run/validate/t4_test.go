// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

const (
	t4Table = "../../../configs/tables/t4_1gpu_2node_efa.csv"
	t4Page  = "../../../docs/validation.md"
)

// t4Lines are the rows of the table in the model, on profile t4-efa after change, with the decisions of NCCL 2.22.
func t4Lines(t *testing.T, change func(*configs.Fabric)) []Line {
	t.Helper()
	text, err := os.Open(t4Table)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	file, err := tables.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := configs.Profile("t4-efa")
	if err != nil {
		t.Fatal(err)
	}
	change(c)
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	simple := nccllog.Kernel{Algo: nccllog.AlgoRing, Proto: nccllog.ProtoSimple}
	times := expected.New(f, func(rank int) int { return rank }, func(string) string { return "" })
	var lines []Line
	for _, r := range file.Tables[0].Rows {
		e, ok := times.Of(context.Background(), bench.Case{
			Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 2, Size: r.Size, Count: r.Size / 4, Iters: goodIters,
			NCCL: "2.22.3",
			Decision: &nccllog.Decision{Algo: simple.Algo, Proto: simple.Proto, ChannelLo: nccllog.Unknown,
				ChannelHi: nccllog.Unknown},
			Topology: &nccllog.Topology{CollChannels: 2, Rings: [][]int{{0, 1}, {0, 1}},
				Threads: map[nccllog.Kernel]int{simple: 256}},
		})
		if !ok {
			t.Fatal(times.Problem)
		}
		lines = append(lines, newLine(&r, e.Time, 0, 0))
	}
	return lines
}

func outside(lines []Line) int { return len((&Report{Lines: lines}).Outside()) }

// rendezvous is the first row with messages above 64 KiB. For these, EFA asks the receiver first, which is not
// modelled.
const rendezvous = 1 << 20

// The model of the profile is within the limits on every row of the T4 table but one. Without the hosts' costs it is
// not.
func TestT4WithinLimits(t *testing.T) {
	lines := t4Lines(t, func(*configs.Fabric) {})
	if len(lines) != 29 {
		t.Errorf("%d rows, want 29", len(lines))
	}
	for _, l := range lines {
		if l.Within == (l.Size == rendezvous) {
			t.Errorf("%d bytes: %.2f us, %+.1f %% of the published %.2f us", l.Size, l.Expected, l.Error, l.Published)
		}
	}
	if n := outside(t4Lines(t, func(c *configs.Fabric) { c.Host = configs.Host{} })); n < 20 {
		t.Errorf("without the hosts' costs %d rows are beyond their limits, want 20 or more", n)
	}
}

// The rows of docs/validation.md have the current figures of the model.
func TestT4Page(t *testing.T) {
	page, err := os.ReadFile(t4Page)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([0-9.]+) \| ([0-9.]+) \| [0-9.]+ \| ([-+][0-9.]+) \|`)
	var got, want []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		got = append(got, fmt.Sprint(m[1:]))
	}
	for _, l := range t4Lines(t, func(f *configs.Fabric) { f.Clock = configs.VirtualClock }) {
		want = append(want,
			fmt.Sprint([]string{fmt.Sprint(l.Size), fmt.Sprintf("%.2f", l.Published), fmt.Sprintf("%.2f", l.Expected),
				fmt.Sprintf("%+.1f", l.Error)}))
	}
	if len(got) < 5 {
		t.Errorf("only %d rows on the page", len(got))
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("the page has %s, the model:\n%s", row, strings.Join(want, "\n"))
		}
	}
}
