// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
	"github.com/ddlemu/ddlemu/test/measure"
)

// Only a reason that says that a rate is too low or a message late is one that late timers can cause.
func TestReasonsOfVerify(t *testing.T) {
	for reason, want := range map[string]measure.Result{
		"node0:node1: rate 0.085 Gb/s, asked 0.095: -10.5 % (limit 1 %)":                        {Low: 0.105},
		"node0:node1: rate 0.105 Gb/s, asked 0.095: +10.5 % (limit 1 %)":                        {Wrong: true},
		"all together: 0.2 Gb/s together, the model's 0.3: -33.3 % (limit 2 %)":                 {Low: 0.333},
		"incast, node0:node1: 0.12 Gb/s, the model's share 0.1: +20.0 % (limit 3 %)":            {Wrong: true},
		"node0:node1: fewer than 10 messages arrived; the rate asked for is 0.095 Gb/s":         {Wrong: true},
		"node0:node1: latency p50 10400 us, asked 10000: +400 us (limit 200)":                   {Late: true},
		"node0:node1: latency p50 12.5 us, asked 10000: -9988 us (limit 200)":                   {Late: true, Wrong: true},
		"node0:node1: messages come 412.5 us late (p99, limit 250)":                             {Late: true},
		"incast: the shaper is late: node0:node1 by 300 us":                                     {Late: true},
		"node0:node1: 12 of 1000 packets were lost, 100 were expected":                          {Wrong: true},
		"all together: 12 packets were lost, although no loss was asked for":                    {Wrong: true},
		"node0:node1: 3 single messages arrived, fewer than 10":                                 {Wrong: true},
		"other programs sent on the fabric while it was measured: node0:node1":                  {Wrong: true},
		"node0:node1: latencies are not distributed as the jitter asked for: distance 0.3 (us)": {Wrong: true},
	} {
		var got measure.Result
		addReason(&got, reason)
		if got.Wrong != want.Wrong || !want.Wrong && (got.Late != want.Late || math.Abs(got.Low-want.Low) > 1e-9) {
			t.Errorf("%s: %+v, want %+v", reason, got, want)
		}
	}
}

func TestFiguresOfVerify(t *testing.T) {
	want := figures{rate: 0.1, latency: 10_000, tolerance: 200}
	for name, tc := range map[string]struct {
		rate, latency float64
		loss          *verify.Loss
		want          measure.Result
	}{
		"right":   {0.1, 10_100, nil, measure.Result{}},
		"low":     {0.09, 10_000, nil, measure.Result{Low: 0.09}},
		"high":    {0.11, 10_000, nil, measure.Result{Wrong: true}},
		"late":    {0.1, 10_300, nil, measure.Result{Late: true}},
		"early":   {0.1, 20, nil, measure.Result{Wrong: true}},
		"losses":  {0.1, 10_000, &verify.Loss{}, measure.Result{Wrong: true}},
		"a mixup": {0.09, 20, nil, measure.Result{Low: 0.09, Wrong: true}},
	} {
		l := verify.Link{Name: "node0:node1", Rate: verify.Rate{Got: tc.rate * 1e9}, Loss: tc.loss,
			Latency: verify.Latency{P50: tc.latency}}
		var got measure.Result
		want.judgeLink(&got, l)
		if got.Wrong != tc.want.Wrong || got.Late != tc.want.Late ||
			math.Abs(got.Low-tc.want.Low) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestJudgeVerdict(t *testing.T) {
	late := "ddlemu: host: lateness p99 7.34ms on node0:node1, wanted 5us\n" +
		"ddlemu: node0:node1, messages <= 4 KiB: 86 of 202 were later than max(5 us, 5 % of their time), at most 1 in 100\n"
	for out, want := range map[string]measure.Result{
		"verdict: VALID\n":                {},
		late + "verdict: INVALID\n":       {Late: true},
		late + "verdict: incomplete\n":    {Wrong: true},
		"verdict: INVALID\n":              {Wrong: true},
		"no job has run on this fabric\n": {Wrong: true},
		late + "ddlemu: a link's latency is shorter than the shaper can emulate\nverdict: INVALID\n": {Wrong: true},
		late + "ddlemu: this host lost packets that the link model did not\nverdict: INVALID\n":      {Wrong: true},
	} {
		if got := judgeVerdict(out); got.Wrong != want.Wrong || !want.Wrong && got.Late != want.Late {
			t.Errorf("%q: %+v, want %+v", out, got, want)
		}
	}
}

// Each planted fault is found on this machine as it is, and on one whose first processor is kept for half of the time.
// Only faults that late timers hide need not be judged.
func TestPlantedFaults(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2", "--lat", "10ms")
	plants := []plant{
		{"rate x 0.9", []string{"--bw", "90Mbps"}, plantedRate(fab, 100e6), true},
		{"rate x 1.1", []string{"--bw", "110Mbps"}, plantedRate(fab, 100e6), false},
		{"rate x 10", []string{"--bw", "1Gbps"}, plantedRate(fab, 100e6), false},
		{"no loss", []string{"--loss", "0%"}, lossOf(w, fab, 2000, 0.1), false},
		{"no latency", []string{"--lat", "0s"}, roundTrip(fab, 10*time.Millisecond), false},
		// Traffic on the link without latency has made it INVALID for another reason than late packets.
		{"wrong verdict", []string{"--lat", "10ms"}, func() (measure.Result, error) {
			return judgeVerdict(w.run("status", "--last", "--verbose")), nil
		}, false},
	}
	w.tryPlants(t, plants)
}

// As TestPlantedFaults, with the shaper htb, which adds no latency. Late timers cost HTB rate: on the disturbed machine,
// a link of 110 Mb/s carries 77 to 93, so that x 1.1 cannot be seen there either.
func TestPlantedFaultsOfHTB(t *testing.T) {
	w := newUser(t)
	fab := w.measured("htb", "--nodes", "2", "--lat", "0s")
	w.tryPlants(t, []plant{
		{"rate x 0.9", []string{"--bw", "90Mbps"}, plantedRate(fab, 100e6), true},
		{"rate x 1.1", []string{"--bw", "110Mbps"}, plantedRate(fab, 100e6), true},
		{"rate x 10", []string{"--bw", "1Gbps"}, plantedRate(fab, 100e6), false},
		{"no loss", []string{"--loss", "0%"}, lossOf(w, fab, 2000, 0.1), false},
	})
}

// plant is a fault: a fabric that is shaped otherwise than a check is told.
type plant struct {
	name  string
	shape []string // arguments of `ddlemu shape`
	try   func() (measure.Result, error)
	// hidden says that late timers hide the fault: on the disturbed machine it need not be judged. It never passes.
	hidden bool
}

// tryPlants tries them on this machine as it is, and on a disturbed one.
func (w *user) tryPlants(t *testing.T, plants []plant) {
	t.Helper()
	w.tryPlantsOn(t, "quiet", plants)
	stop := measure.Disturb()
	w.tryPlantsOn(t, "disturbed", plants)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func (w *user) tryPlantsOn(t *testing.T, machine string, plants []plant) {
	t.Helper()
	for _, p := range plants {
		w.run(append([]string{"shape"}, p.shape...)...)
		got, text, err := measure.Check(4*time.Second, p.try)
		if err == nil && got == measure.NotJudged && !p.hidden {
			got, text, err = measure.Check(30*time.Second, p.try)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s machine, %s: %v: %s", machine, p.name, got, text)
		if got == measure.Passes || got == measure.NotJudged && !p.hidden {
			t.Errorf("%s machine, %s: %v", machine, p.name, got)
		}
	}
}

// plantedRate returns a try that is told another rate than the link has.
func plantedRate(fab *measure.Running, told uint64) func() (measure.Result, error) {
	return func() (measure.Result, error) {
		f, err := fab.StartFlow(0, 1)
		if err != nil {
			return measure.Result{}, err
		}
		defer f.Close()
		if _, err := f.Rate(200 * time.Millisecond); err != nil { // slow start
			return measure.Result{}, err
		}
		got, err := f.Rate(300 * time.Millisecond)
		return measure.Rate(got, fab.Payload(told), 0.02), err
	}
}
