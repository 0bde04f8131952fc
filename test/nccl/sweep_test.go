// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// usedHop is a hop of the table of hops.
type usedHop struct {
	Name  string   `json:"name"`
	Bytes uint64   `json:"bytes"`
	Rate  float64  `json:"average_bps"`
	Busy  *float64 `json:"busy"`
	Peak  *float64 `json:"peak"`
}

type withHops struct {
	Time float64   `json:"time_us"`
	Hops []usedHop `json:"hops"`
}

// jsonOf is what a command prints with --json.
func jsonOf[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	cmd := ddlemu(t.Context(), t, folder(t), nil, append(args, "--json")...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		t.Fatalf("ddlemu %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return v
}

// What a replay's counters say of the hops is what the model says: payload, and for how long they were busy. A message
// has its bytes, and its hops are busy for all of them and their headers.
func TestHopsOfReplay(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4`, `{"op":"calc","ns":2000000}`,
		`{"op":"coll","func":"AllReduce","count":1000000,"type":"float32"}`,
		`{"rank":0,"op":"send","peer":2,"count":3000000,"type":"int8"}`,
		`{"rank":2,"op":"recv","peer":0,"count":3000000,"type":"int8"}`, `{"op":"step"}`)
	on := []string{"--profile", "eth10", "--nodes", "2"}
	played := jsonOf[withHops](t, append([]string{"replay", path, "--steps", "2"}, on...)...)
	model := jsonOf[withHops](t, append([]string{"expect", "--workload", path, "--steps", "2"}, on...)...)
	near(t, "time", played.Time, model.Time)
	byName := func(a, b usedHop) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(played.Hops, byName)
	slices.SortFunc(model.Hops, byName)
	if len(played.Hops) != 4 || len(model.Hops) != 4 {
		t.Fatalf("%+v, %+v", played.Hops, model.Hops)
	}
	for i, l := range played.Hops {
		m := model.Hops[i]
		if l.Name != m.Name || l.Bytes != m.Bytes || math.Abs(*l.Busy-*m.Busy) > 1e-4 || *l.Peak < *l.Busy ||
			*l.Peak > 1+1e-9 {
			t.Errorf("%+v, by the model %+v", l, m)
		}
		if want := float64(l.Bytes) * 8 / (played.Time / 1e6); math.Abs(l.Rate/want-1) > 1e-6 || *l.Busy < l.Rate/10e9 {
			t.Errorf("%s: %g bit/s, want %g, and busy for %g", l.Name, l.Rate, want, *l.Busy)
		}
	}
	if more := int64(played.Hops[1].Bytes) - int64(played.Hops[3].Bytes); more != 2*3_000_000 {
		t.Errorf("%s has %d bytes more than %s, want those of the messages", played.Hops[1].Name, more,
			played.Hops[3].Name)
	}
}

// A decode step with two tensor parallel ranks and two stages, on two fabrics: the sweep of the model has the times of
// the replayed one, and names the same changes of NCCL's choice.
func TestSweepOfDecode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decode.jsonl")
	if out, err := ddlemu(t.Context(), t, folder(t), nil, "workload", "make", "inference", "--model", "llama3-8b",
		"--tp", "2", "--pp", "2", "--batch", "64",
		"--decode", "1", "--decode-compute", "5ms", "-o", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	type swept struct {
		Points []struct {
			Value  string   `json:"value"`
			Result withHops `json:"result"`
		} `json:"points"`
		Conclusion string   `json:"conclusion"`
		Changes    []string `json:"changes"`
		Reversals  []string `json:"reversals"`
	}
	for profile, change := range map[string]string{"eth10": "AllReduce of 524288 bytes on tp of 2: Ring Simple at bw ",
		"ndr400": ""} {
		args := []string{"--profile", profile, "--nodes", "4", "--sweep", "bw=10G..200G"}
		played, model := jsonOf[swept](t, append([]string{"replay", path}, args...)...),
			jsonOf[swept](t, append([]string{"expect", "--workload", path}, args...)...)
		choices := func(all []string) (out []string) { // without times, which differ by some ns
			for _, c := range all {
				what, _, _ := strings.Cut(c, " (")
				out = append(out, what)
			}
			return out
		}
		if !slices.Equal(choices(played.Changes), choices(model.Changes)) ||
			len(played.Reversals) != len(model.Reversals) || len(played.Points) != 6 {
			t.Fatalf("%s: %q %q, by the model %q %q", profile, played.Changes, played.Reversals, model.Changes,
				model.Reversals)
		}
		for i, p := range played.Points {
			if got, want := p.Result.Time, model.Points[i].Result.Time; math.Abs(got/want-1) > 1e-3 {
				t.Errorf("%s %s: %.3f us, by the model %.3f us", profile, p.Value, got, want)
			}
		}
		if found := len(played.Changes) > 0 && strings.HasPrefix(played.Changes[0], change); change != "" && !found {
			t.Errorf("%s: %q", profile, played.Changes)
		}
		if (len(played.Reversals) > 0) != (change != "") {
			t.Errorf("%s: %q", profile, played.Reversals)
		}
	}
}

// A sweep of a collective has the times of each value alone.
func TestSweepOfCollective(t *testing.T) {
	t.Parallel()
	type forecast struct {
		Rows []struct {
			Size     int64   `json:"size"`
			Proto    string  `json:"proto"`
			Expected float64 `json:"expected_us"`
		} `json:"rows"`
	}
	of := []string{"expect", "allreduce", "--profile", "eth10", "--ranks", "2", "-b", "64K", "-e", "1M", "-f", "4"}
	swept := jsonOf[struct {
		Points []struct {
			Value  string   `json:"value"`
			Result forecast `json:"result"`
		} `json:"points"`
		Changes     []string `json:"changes"`
		Conclusions []string `json:"conclusions"`
	}](t, append(slices.Clone(of), "--sweep", "bw=10G..100G")...)
	if len(swept.Points) != 5 || len(swept.Conclusions) == 0 || len(swept.Changes) == 0 {
		t.Fatalf("%+v", swept)
	}
	for _, p := range swept.Points[1:3] {
		alone := jsonOf[forecast](t, append(slices.Clone(of), "--bw", p.Value)...)
		if !slices.Equal(alone.Rows, p.Result.Rows) || len(alone.Rows) != 3 {
			t.Errorf("%s: %+v, alone %+v", p.Value, p.Result.Rows, alone.Rows)
		}
	}
}
