// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// kind is a kind of GPU whose figures are those of a first one, times a factor.
func kind(factor float64) Kind {
	scaled := func(ns float64) time.Duration { return time.Duration(math.Round(ns * factor)) }
	action := func(step float64, rate units.Bandwidth) configs.ActionTime {
		return configs.ActionTime{Step: scaled(step), Rate: units.Bandwidth(float64(rate) / factor)}
	}
	return Kind{Links: 400e9, Time: &configs.GPUTime{
		Kernel: scaled(5000), Channels: scaled(1000), Call: 4400,
		Links: configs.LinkTime{Rate: units.Bandwidth(300e9 / factor), Latency: scaled(500)},
		LL:    action(600, 160e9), Simple: action(3000, 120e9),
	}}
}

// synthetic is a model that is simpler than that of NCCL: steps one after another, and the bytes by the slower of the
// kernel and the link.
func synthetic(size int64, steps float64, simple bool) Call {
	return func(_ context.Context, t *configs.GPUTime) (time.Duration, error) {
		a := t.LL
		if simple {
			a = t.Simple
		}
		bits := 8e9 * float64(size)
		each := float64(a.Step) + float64(t.Links.Latency) + max(bits/float64(a.Rate), bits/float64(t.Links.Rate))
		return t.Kernel + t.Channels + time.Duration(steps*each), nil
	}
}

// madeTables are the rows of tables that a kind with these figures makes, with an error of up to noise.
func madeTables(truth Kind, noise float64) *Fit {
	f := &Fit{}
	random := rand.New(rand.NewPCG(1, 2))
	for _, steps := range []float64{1, 2, 4, 7, 14, 20} {
		for size := int64(512); size <= 1<<24; size *= 2 {
			simple := size >= 1<<18
			r := Row{Row: testslog.Row{Size: size}, Table: len(f.Tables), Nodes: 1, Call: synthetic(size, steps, simple),
				Case: bench.Case{Size: size, Decision: &nccllog.Decision{Algo: "RING", Proto: "LL"}}}
			if simple {
				r.Case.Decision.Proto = "SIMPLE"
			}
			took, _ := r.Call(context.Background(), truth.Time)
			r.OutOfPlace.Time = time.Duration(float64(took) * math.Exp(noise*(2*random.Float64()-1)))
			f.Rows = append(f.Rows, r)
		}
		f.Tables = append(f.Tables, string(rune('a'+len(f.Tables))))
	}
	return f
}

// A fit finds the figures that made the tables, from those of other kinds; what only their sum matters of, as a sum.
func TestFitRecovers(t *testing.T) {
	truth := kind(1)
	f := madeTables(truth, 0)
	f.Others = []Kind{kind(1.6), kind(2.1)}
	f.Every = 2
	got, err := f.Run(t.Context(), kind(1.4))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		name string
		of   func(*configs.GPUTime) float64
	}{
		{"launch", func(t *configs.GPUTime) float64 { return float64(t.Kernel + t.Channels) }},
		{"a step of LL", func(t *configs.GPUTime) float64 { return float64(t.LL.Step + t.Links.Latency) }},
		{"the rate of LL", func(t *configs.GPUTime) float64 { return float64(min(t.LL.Rate, t.Links.Rate)) }},
		{"a step of Simple", func(t *configs.GPUTime) float64 { return float64(t.Simple.Step + t.Links.Latency) }},
		{"the rate of Simple", func(t *configs.GPUTime) float64 { return float64(min(t.Simple.Rate, t.Links.Rate)) }},
	} {
		if x, want := q.of(got.Time), q.of(truth.Time); math.Abs(x/want-1) > 0.02 {
			t.Errorf("%s: %g, want %g", q.name, x, want)
		}
	}
	for i, c := range got.Constants {
		if got.Free[i] != (c.Name != "call") {
			t.Errorf("%s: fitted %v", c.Name, got.Free[i])
		}
	}
}

// A table that is left out has no part in its prediction: one with all times doubled is predicted at half its times,
// and does not change the others much.
func TestPredict(t *testing.T) {
	truth := kind(1)
	f := madeTables(truth, 0.03)
	f.Others = []Kind{kind(1.6), kind(2.1)}
	for i := range f.Rows {
		if f.Rows[i].Table == 2 {
			f.Rows[i].OutOfPlace.Time *= 2
		}
	}
	told := []string{}
	f.Progress = func(what string, part float64) {
		if part < 0 || part > 1 {
			t.Errorf("%s: %g is done", what, part)
		}
		told = append(told, what)
	}
	all, err := f.Predict(t.Context(), kind(1.2), []int{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 || !slices.Contains(told, "without c") {
		t.Fatalf("%d predictions; told %q", len(all), told)
	}
	for i, p := range all {
		if len(p.Lines) != 16 || p.Name != f.Tables[i] {
			t.Fatalf("%s has %d rows", p.Name, len(p.Lines))
		}
		var errs []float64
		for _, l := range p.Lines {
			errs = append(errs, l.Error)
		}
		slices.Sort(errs)
		want := 0.0
		if i == 2 {
			want = -50
		}
		if median := errs[8]; math.Abs(median-want) > 6 {
			t.Errorf("%s: median error %.1f %%, want %g", p.Name, median, want)
		}
	}
}

// If one table alone determines figures, it is predicted with those of other kinds, and not with what itself says.
func TestPredictedAlone(t *testing.T) {
	truth := kind(1)
	f := madeTables(truth, 0)
	f.Others = []Kind{kind(2), kind(2)}
	const alone = 3
	f.Rows = slices.DeleteFunc(f.Rows, func(r Row) bool {
		return r.Table != alone && r.Case.Decision.Proto == "SIMPLE"
	})
	all, err := f.Predict(t.Context(), truth, []int{alone})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all[0].Lines {
		if isSimple := l.Size >= 1<<18; isSimple && l.Error < 60 || !isSimple && math.Abs(l.Error) > 3 {
			t.Errorf("%d bytes: %+.1f %%", l.Size, l.Error)
		}
	}
}

// What no row depends on stays at the figures of the other kinds, and not at the kind's own.
func TestUndetermined(t *testing.T) {
	truth := kind(1)
	f := madeTables(truth, 0)
	f.Others = []Kind{kind(1.6), kind(1.6)}
	f.Rows = slices.DeleteFunc(f.Rows, func(r Row) bool { return r.Case.Decision.Proto == "SIMPLE" })
	got, err := f.Run(t.Context(), truth)
	if err != nil {
		t.Fatal(err)
	}
	if got.Time.Simple.Step != 4800 || got.Time.Simple.Rate != 75e9 {
		t.Errorf("simple: %+v", got.Time.Simple)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f := madeTables(kind(1), 0)
	f.Others = []Kind{kind(2)}
	for i := range f.Rows {
		f.Rows[i].Call = func(context.Context, *configs.GPUTime) (time.Duration, error) {
			stop()
			return 0, context.Canceled
		}
	}
	if _, err := f.Predict(ctx, kind(1), []int{0}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What was predicted before an interruption is not lost.
func TestInterruptedLater(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f := madeTables(kind(1), 0)
	f.Others = []Kind{kind(2)}
	f.Progress = func(what string, _ float64) {
		if what == "without b" {
			stop()
		}
	}
	all, err := f.Predict(ctx, kind(1), []int{0, 1})
	if !errors.Is(err, context.Canceled) || len(all) != 1 || all[0].Name != "a" || len(all[0].Lines) != 16 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestConstants(t *testing.T) {
	own := kind(1).Time
	own.LL128 = configs.ActionTime{Step: 1, Rate: 8e9, Occupies: 1.25}
	own.SendNet = configs.SendNetTime{ActionTime: configs.ActionTime{Step: 2, Rate: 8e9}, PerChannel: 3, Start: 4}
	own.FittedTo = []configs.FittedRows{{Table: "x", UpTo: 8}}
	var names []string
	for _, c := range constantsOf(own) {
		names = append(names, c.Name+" "+c.Text(own))
	}
	want := []string{"kernel 5000ns", "channels 1000ns", "call 4400ns", "links.rate 37.50GB/s", "links.latency 500ns",
		"ll.step 600ns", "ll.rate 20.00GB/s", "ll128.step 1ns", "ll128.rate 1.00GB/s", "ll128.occupies 1.250",
		"simple.step 3000ns", "simple.rate 15.00GB/s", "send_net.step 2ns", "send_net.rate 1.00GB/s",
		"send_net.per_channel 3ns", "send_net.start 4ns"}
	if !slices.Equal(names, want) {
		t.Errorf("%q\nwant %q", names, want)
	}
	all := constantsOf(own)
	changed := *own
	all[9].set(&changed, 0.3)
	all[0].set(&changed, 12.4)
	all[3].set(&changed, 8.4e9)
	if changed.LL128.Occupies != 1 || changed.Kernel != 12 || changed.Links.Rate != 8400000000 || own.Kernel != 5000 {
		t.Errorf("set %+v, from %+v", changed, own)
	}
}

func TestIndependent(t *testing.T) {
	own, a, b, copied := kind(1), kind(2), kind(8), kind(1)
	b.Links = 2 * own.Links
	constants := constantsOf(own.Time)
	start, free := independent(own, constants, []Kind{copied, a, a, b})
	if start.Kernel != 20000 || own.Time.Kernel != 5000 { // of 10000 and 40000, a counts once
		t.Errorf("kernel %v", start.Kernel)
	}
	// 150 Gb/s of links of 400, 37.5 of 800: the mean ratio is that of 53 Gb/s to 400.
	if got := float64(start.Links.Rate); math.Abs(got/(300e9/math.Sqrt(2*8*2))-1) > 1e-6 {
		t.Errorf("links %g", got)
	}
	if free[2] || start.Call != 4400 {
		t.Errorf("call: %v, %v", free[2], start.Call)
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]float64{"a100-sxm": 12 * 25 * 8e9, "l40s": 16 * 16e9} {
		g, err := configs.BuiltInGPU(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := KindOf(g).Links; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
}

func TestUses(t *testing.T) {
	row := func(algo, proto string, nodes int) *Row {
		return &Row{Nodes: nodes, Case: bench.Case{Decision: &nccllog.Decision{Algo: algo, Proto: proto}}}
	}
	for _, tc := range []struct {
		figure string
		row    *Row
		want   bool
	}{
		{"kernel", row("RING", "LL", 1), true}, {"ll.step", row("RING", "LL", 1), true},
		{"ll128.step", row("TREE", "LL", 1), false}, {"ll128.rate", row("TREE", "LL128", 1), true},
		{"net.latency", row("TREE", "LL", 1), false}, {"net.latency", row("TREE", "LL", 2), true},
		{"nvls_head.step", row("NVLS", "SIMPLE", 1), true}, {"simple.step", row("NVLSTREE", "SIMPLE", 2), true},
		{"ll.step", row("NVLS", "SIMPLE", 1), false}, {"send.rate", &Row{Nodes: 1}, true}, {"ll.rate", &Row{}, true},
		{"send_net.rate", &Row{Nodes: 2}, true}, {"send_net.rate", &Row{Nodes: 1}, false},
		{"send_net.rate", row("RING", "SIMPLE", 2), false}, {"nvls_copy.step", &Row{}, false},
		{"nvls_tree_copy.rate", row("NVLSTREE", "SIMPLE", 2), true}, {"nvls_tree_copy.rate", row("NVLS", "SIMPLE", 1), false},
		{"something.new", &Row{}, true},
	} {
		if got := uses(tc.figure, tc.row); got != tc.want {
			t.Errorf("%s, %+v: %v", tc.figure, tc.row.Case.Decision, got)
		}
	}
}

func TestUsed(t *testing.T) {
	f := Fit{Rows: make([]Row, 9)}
	for i := 5; i < 9; i++ {
		f.Rows[i].Table = 1
	}
	for every, want := range map[int][]int{0: {0, 1, 2, 3, 4, 5, 6, 7, 8}, 2: {0, 2, 4, 5, 7, 8}, 3: {0, 3, 4, 5, 8}} {
		if f.Every = every; !slices.Equal(f.used(), want) {
			t.Errorf("every %d: %v, want %v", every, f.used(), want)
		}
	}
}

func TestStep(t *testing.T) {
	// Two rows determine two parameters, but for the pull: the second has twice the effect in the second row.
	s := search{start: []float64{0, 0}}
	p := point{at: []float64{0, 0}, errors: []float64{0.2, -0.1, math.NaN()},
		slopes: [][]float64{{1, 1}, {0, 2}, {9, 9}}}
	weight := func(e float64) float64 { return 1 / math.Hypot(e, robust) }
	a, b := weight(0.2), weight(-0.1)
	// pull*x + a*(x+y+0.2) = 0 and pull*y + a*(x+y+0.2) + 2*b*(2*y-0.1) = 0
	x, y := s.step(&p)[0], s.step(&p)[1]
	if r := pull*x + a*(x+y+0.2); math.Abs(r) > 1e-9 {
		t.Errorf("x %g, y %g: %g", x, y, r)
	}
	if r := pull*y + a*(x+y+0.2) + 2*b*(2*y-0.1); math.Abs(r) > 1e-9 {
		t.Errorf("x %g, y %g: %g", x, y, r)
	}
	p.errors[0] = 5
	if got := s.step(&p)[0]; got != -longestStep {
		t.Errorf("step %g is not bounded", got)
	}
}

// A parameter that begins farther from the start than a search may go does not stop the others.
func TestFarAway(t *testing.T) {
	truth := []float64{-farthest - 0.5, 1}
	p := problem{uses: func(parameter, row int) bool { return parameter == row },
		errors: func(_ context.Context, at []float64, rows []int) (errs []float64, _ error) {
			for _, row := range rows {
				errs = append(errs, at[row]-truth[row])
			}
			return errs, nil
		}}
	begin := point{at: []float64{truth[0], 0}, errors: []float64{0, -1}}
	got, err := minimize(t.Context(), p, []int{0, 1}, []float64{0, 0}, begin, rounds)
	if err != nil || math.Abs(got.at[0]-truth[0]) > 0.01 || math.Abs(got.at[1]-truth[1]) > 0.01 {
		t.Errorf("%v, want %v; %v", got.at, truth, err)
	}
	begin = point{at: []float64{0, 0}, errors: []float64{farthest + 0.5, -1}}
	got, err = minimize(t.Context(), p, []int{0, 1}, []float64{0, 0}, begin, rounds)
	if err != nil || got.at[0] != -farthest {
		t.Errorf("%v: too far; %v", got.at, err)
	}
}

// A search does not go where the model knows fewer rows: there the loss of those that are left is lower.
func TestRowsThatGetUnknown(t *testing.T) {
	const limit = 1.5
	p := problem{uses: func(int, int) bool { return true },
		errors: func(_ context.Context, at []float64, rows []int) ([]float64, error) {
			errs := make([]float64, len(rows))
			for i := range errs {
				if errs[i] = 2 - at[0]; at[0] > limit {
					errs[i] = math.NaN()
				}
			}
			return errs, nil
		}}
	got, err := minimize(t.Context(), p, []int{0, 1}, []float64{0}, point{at: []float64{0}, errors: []float64{2, 2}}, rounds)
	if err != nil || got.at[0] > limit || got.at[0] < limit-0.2 {
		t.Errorf("%v, want a little less than %g; %v", got.at, limit, err)
	}
}

// Rows that the model knows no time of are told with the reason; they have no part in the figures.
func TestUnknownRows(t *testing.T) {
	truth := kind(1)
	f := madeTables(truth, 0)
	f.Others = []Kind{kind(1.6), kind(2.1)}
	unknown := func(context.Context, *configs.GPUTime) (time.Duration, error) { return 0, errors.New("no schedule") }
	f.Rows[1].Call = unknown
	f.Rows[2].Call = func(context.Context, *configs.GPUTime) (time.Duration, error) { return 0, nil }
	all, err := f.Predict(t.Context(), kind(1.2), []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := []tables.LeftOut{{Size: f.Rows[1].Size, Reason: "no schedule"},
		{Size: f.Rows[2].Size, Reason: "the model has a time of 0 for it"}}
	if !slices.Equal(all[0].LeftOut, want) || len(all[0].Lines) != 14 || len(all[1].LeftOut) != 0 {
		t.Errorf("left out %+v and %+v; %d rows", all[0].LeftOut, all[1].LeftOut, len(all[0].Lines))
	}
	for i := range f.Rows {
		f.Rows[i].Call = unknown
	}
	for _, try := range []func() error{
		func() error { _, err := f.Run(t.Context(), kind(1.2)); return err },
		func() error { _, err := f.Predict(t.Context(), kind(1.2), []int{0}); return err },
	} {
		if err := try(); !errors.Is(err, validate.ErrNoRow) || !strings.Contains(err.Error(), "no schedule") {
			t.Error(err)
		}
	}
}

// Figures that a file writes alike are different ones for the model.
func TestFiguresThatRoundAlike(t *testing.T) {
	f := madeTables(kind(1), 0)
	f.Others = []Kind{kind(2)}
	calls := 0
	f.Rows[0].Call = func(context.Context, *configs.GPUTime) (time.Duration, error) { calls++; return time.Second, nil }
	m, _ := f.model(kind(1))
	at := *kind(1).Time
	for _, more := range []units.Bandwidth{0, 0, 1} {
		figures := at
		figures.LL.Rate += more
		m.answer(t.Context(), &figures, 0)
	}
	if calls != 2 {
		t.Errorf("%d calls for two different rates", calls)
	}
}

// Figures that were estimated are those of the kinds that they name: the geometric mean, of rates of links in
// proportion to the raw rate.
func TestEstimatedKinds(t *testing.T) {
	gpus, err := configs.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	estimated := 0
	for _, g := range gpus {
		if g.Time == nil || len(g.Time.EstimatedFrom) == 0 {
			continue
		}
		estimated++
		if len(g.Time.FittedTo) > 0 {
			t.Errorf("%s: fitted and estimated", g.Name)
		}
		own := KindOf(g)
		for _, c := range constantsOf(g.Time) {
			sum := 0.0
			for _, name := range g.Time.EstimatedFrom {
				from, err := configs.BuiltInGPU(name)
				if err != nil {
					t.Fatal(err)
				}
				other := KindOf(from)
				x := c.of(other.Time)
				if strings.HasPrefix(c.Name, "links.") && c.Name != "links.latency" {
					x *= own.Links / other.Links
				}
				sum += math.Log(x)
			}
			want := math.Exp(sum / float64(len(g.Time.EstimatedFrom)))
			if got := c.of(g.Time); math.Abs(got/want-1) > 0.01 {
				t.Errorf("%s: %s is %s, not within 1 %% of the estimate %g", g.Name, c.Name, c.Text(g.Time), want)
			}
		}
	}
	if estimated == 0 {
		t.Error("no kind is estimated")
	}
}
