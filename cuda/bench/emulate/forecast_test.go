// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/bench"
	"github.com/ddlemu/ddlemu/cuda/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

func profile(t *testing.T, name string) *configs.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: name, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A row has the decision on its own type, operator and size, or, where NCCL did not run
// its size, on the largest one of its type and operator.
func TestForecastsHaveTheirDecisions(t *testing.T) {
	o := Options{Config: *profile(t, "eth1"), DecideUpTo: 1000, Bench: bench.Config{
		Collective: bench.AllReduce, Ranks: 2, Iters: 20, Sizes: []int64{8, 512, 1002, 1 << 20},
		Types: []bench.DataType{bench.Half, bench.Double}, Ops: []bench.RedOp{bench.Sum, bench.Max},
	}}
	f, err := fabric.New(&o.Config)
	if err != nil {
		t.Fatal(err)
	}
	name := func(c bench.Case) string { return fmt.Sprintf("%v %v %d", c.Type, c.Op, c.Size) }
	ran := o.Bench
	ran.Sizes, ran.Iters = []int64{8, 512, 1000}, 1
	var decided []bench.Case
	for _, c := range ran.Cases() {
		c.NCCL, c.Choice = "2.22.3", &nccllog.Choice{Algo: name(c)}
		decided = append(decided, c)
	}
	rows, err := o.forecasts(context.Background(), f, decided)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s: %s", name(r.Case), r.Case.Choice.Algo))
		if r.Case.Iters != 20 || r.Case.NCCL == "" {
			t.Errorf("%+v", r.Case)
		}
	}
	var want []string
	for _, typ := range []string{"half", "double"} {
		largest := map[string]int64{"half": 1002, "double": 1000}[typ]
		for _, op := range []string{"sum", "max"} {
			for _, s := range [][2]int64{{8, 8}, {512, 512}, {largest, 1000}, {1 << 20, 1000}} {
				want = append(want, fmt.Sprintf("%s %s %d: %s %s %d", typ, op, s[0], typ, op, s[1]))
			}
		}
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	for i, c := range decided {
		others := append(append([]bench.Case{}, decided[:i]...), decided[i+1:]...)
		if _, err := o.forecasts(context.Background(), f, others); err == nil || !strings.Contains(err.Error(), "NCCL decided nothing for all_reduce of ") {
			t.Errorf("without %s: %v", name(c), err)
		}
	}
}
