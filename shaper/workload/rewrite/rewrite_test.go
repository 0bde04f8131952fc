// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

// job is four ranks with two communicators.
const job = `{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"a","ranks":"0-1"},{"name":"a","ranks":"2-3"},{"name":"b","ranks":"0-3"}]}
{"id":1,"op":"calc","stream":"c","ns":10}
{"id":2,"op":"coll","stream":"n","after":[1],"comm":"b","func":"AllReduce","count":10,"type":"float32","redop":"avg"}
{"id":3,"op":"calc","stream":"c","ns":10}
{"id":4,"op":"coll","stream":"n","after":[3],"comm":"b","func":"AllReduce","count":5,"type":"float32","redop":"avg"}
{"id":5,"op":"coll","stream":"n","after":[3],"comm":"b","func":"AllReduce","count":7,"type":"float32","redop":"avg"}
{"id":6,"op":"coll","stream":"n","comm":"a","func":"AllReduce","count":3,"type":"float32"}
{"id":7,"op":"calc","stream":"c","after":[2,4,5,6]}
{"op":"step"}
`

func apply(t *testing.T, text string, r Rules) string {
	t.Helper()
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Apply(w)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := out.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func scale(t *testing.T, text string) []Scale {
	t.Helper()
	s, err := ParseScale(text)
	if err != nil {
		t.Fatal(err)
	}
	return []Scale{s}
}

// A factor changes the times of all computations, both ends of those that are not known exactly, and nothing else.
func TestScaleCompute(t *testing.T) {
	text := strings.Replace(job, `"ns":10}`, `"ns":10,"max_ns":25}`, 1)
	got := apply(t, text, Rules{Compute: Compute{Factor: 0.25, Basis: "by a table"}})
	for _, want := range []string{`"notes":["rewritten: the time of each computation times 0.25, by a table"]`,
		`"stream":"c","ns":3,"max_ns":6}`, `{"id":3,"op":"calc","stream":"c","ns":3}`,
		`{"id":7,"op":"calc","stream":"c","after":[2,4,5,6]}`} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
	_, was, _ := strings.Cut(text, "\n")
	_, now, _ := strings.Cut(got, "\n")
	if back := strings.NewReplacer(`"ns":3,"max_ns":6}`, `"ns":10,"max_ns":25}`, `"ns":3}`, `"ns":10}`).Replace(now); back != was {
		t.Errorf("other lines changed:\n%s", now)
	}
	if !strings.Contains(apply(t, text, Rules{Compute: Compute{Factor: 2}}), `computation times 2"]`) {
		t.Error("a factor of the user's has a basis")
	}
	for text, want := range map[string]string{
		`{"format":"ddlemu.workload/1","ranks":2}` + "\n" + `{"op":"calc"}` + "\n":                    "no computation has a time",
		`{"format":"ddlemu.workload/1","ranks":2}` + "\n" + `{"op":"calc","ns":9000000000000}` + "\n": "ns",
	} {
		w, err := workload.Read("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r := Rules{Compute: Compute{Factor: 1e6}}
		if _, err := r.Apply(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, good := range map[string]bool{"0.5": true, "1e6": true, "0": false, "-1": false, "NaN": false, "1e7": false, "": false} {
		if _, err := ParseFactor(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func replace(t *testing.T, text string) []Replacement {
	t.Helper()
	r, err := ParseReplacement(text)
	if err != nil {
		t.Fatal(err)
	}
	return []Replacement{r}
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("there is no line\n%s\nin\n%s", line, got)
		}
	}
}

func TestScale(t *testing.T) {
	got := apply(t, job, Rules{Scales: scale(t, "allreduce=0.25")})
	contains(t, got,
		`{"id":2,"op":"coll","stream":"n","after":[1],"comm":"b","func":"AllReduce","count":3,"type":"float32","redop":"avg"}`,
		`{"id":6,"op":"coll","stream":"n","comm":"a","func":"AllReduce","count":1,"type":"float32"}`)
	if !strings.Contains(got, `"notes":["rewritten: the count of each AllReduce times 0.25, rounded, at least 1"]`) {
		t.Error(got)
	}
}

// Both ends of a message change.
func TestScaleMessages(t *testing.T) {
	got := apply(t, `{"format":"ddlemu.workload/1","ranks":2}
{"rank":0,"op":"send","peer":1,"count":9,"type":"int8"}
{"rank":1,"op":"group","ops":[{"op":"recv","count":9,"type":"int8"}]}
`, Rules{Scales: scale(t, "sendrecv=0.5")})
	contains(t, got, `{"rank":0,"op":"send","count":5,"type":"int8","peer":1}`,
		`{"rank":1,"op":"group","ops":[{"op":"recv","count":5,"type":"int8"}]}`)
}

func TestReplace(t *testing.T) {
	got := apply(t, job, Rules{Replacements: replace(t, "all_reduce=reduce_scatter+all_gather")})
	contains(t, got,
		`{"op":"coll","stream":"n","after":[1],"comm":"b","func":"ReduceScatter","count":3,"type":"float32","redop":"avg"}`+"\n"+
			`{"id":2,"op":"coll","stream":"n","comm":"b","func":"AllGather","count":3,"type":"float32"}`,
		`{"op":"coll","stream":"n","comm":"a","func":"ReduceScatter","count":2,"type":"float32"}`)
}

func TestBucket(t *testing.T) {
	// The first two are one bucket of 60 bytes; the third one begins another one, which the next communicator ends.
	got := apply(t, job, Rules{BucketCap: 60})
	contains(t, got,
		`{"id":3,"op":"calc","stream":"c","ns":10}`+"\n"+
			`{"id":4,"op":"coll","stream":"n","after":[1,3],"comm":"b","func":"AllReduce","count":15,"type":"float32","redop":"avg"}`+"\n"+
			`{"id":5,"op":"coll","stream":"n","after":[3],"comm":"b","func":"AllReduce","count":7,"type":"float32","redop":"avg"}`,
		`{"id":7,"op":"calc","stream":"c","after":[4,5,6]}`)
	if n := strings.Count(got, "\n"); n != 8 {
		t.Errorf("%d lines:\n%s", n, got)
	}
}

// What waits for an all-reduce ends its bucket.
func TestBucketEnds(t *testing.T) {
	const head = `{"format":"ddlemu.workload/1","ranks":2}` + "\n" +
		`{"id":1,"op":"coll","stream":"n","func":"AllReduce","count":1,"type":"int8"}` + "\n"
	const again = `{"id":3,"op":"coll","stream":"n","func":"AllReduce","count":1,"type":"int8"}` + "\n"
	for _, between := range []string{
		`{"op":"calc","stream":"c","after":[1]}`,
		`{"op":"wait"}`,
		`{"op":"step","rank":1}`,
		`{"op":"calc","stream":"n"}`,
		`{"op":"coll","stream":"m","func":"AllGather","count":1,"type":"int8"}`,
		`{"op":"group","stream":"m","ops":[{"op":"send","peer":1,"relative":true,"count":1,"type":"int8"},{"op":"recv","peer":1,"relative":true,"count":1,"type":"int8"}]}`,
	} {
		got := apply(t, head+between+"\n"+again, Rules{BucketCap: 100})
		if n := strings.Count(got, "AllReduce\""); n != 2 {
			t.Errorf("%s: %d all-reduces\n%s", between, n, got)
		}
	}
	if got := apply(t, head+`{"op":"calc","stream":"c"}`+"\n"+again, Rules{BucketCap: 100}); strings.Count(got,
		"AllReduce\"") != 1 {
		t.Errorf("a calc on another stream: %s", got)
	}
}

// A rule that can change no call is refused: it is likely a typo. A cap that changes none is a note.
func TestNothingToChange(t *testing.T) {
	w, err := workload.Read("f", strings.NewReader(job))
	if err != nil {
		t.Fatal(err)
	}
	want := "no call is changed by a rule for AllToAll: the calls are AllReduce"
	if _, err := (&Rules{Scales: scale(t, "alltoall=0.5")}).Apply(w); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	w, err = workload.Read("f", strings.NewReader(`{"format":"ddlemu.workload/1","ranks":2}
{"rank":0,"op":"send","peer":1,"count":9,"type":"int8"}
{"rank":1,"op":"group","ops":[{"op":"recv","count":9,"type":"int8"}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want = "no call is changed by a rule for AllReduce: the calls are send and recv"
	for _, r := range []Rules{{Scales: scale(t, "allreduce=0.5")},
		{Replacements: replace(t, "allreduce=reduce+broadcast")}, {BucketCap: 9}} {
		if _, err := r.Apply(w); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	if got := apply(t, job, Rules{BucketCap: 1}); !strings.Contains(got,
		`"notes":["rewritten: no all-reduces could be put together up to 1 B, so no call is changed"]`) {
		t.Error(got)
	}
}

func TestReplaceRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"group","ops":[{"op":"coll","comm":"b","func":"AllReduce","count":1,"type":"int8"}]}`: "line 2: this AllReduce is in a group",
		`{"op":"coll","comm":"a","func":"AllReduce","count":1,"type":"int8"}`:                        "line 2: the communicators with the name a have 2 and 1 ranks",
	} {
		w, err := workload.Read("f",
			strings.NewReader(
				`{"format":"ddlemu.workload/1","ranks":3,"comms":[{"name":"a","ranks":"0-1"},{"name":"a","ranks":"2"},{"name":"b","ranks":"0-2"}]}`+"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		r := Rules{Replacements: replace(t, "allreduce=reduce_scatter+all_gather")}
		if _, err := r.Apply(w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"allreduce", "allreduce=0", "allreduce=-1", "allreduce=x", "allreduce=NaN",
		"allreduce=1e9", "foo=1"} {
		if s, err := ParseScale(text); err == nil {
			t.Errorf("%s is read as %+v", text, s)
		}
	}
	for _, text := range []string{"allreduce", "allreduce=all_gather", "allreduce=all_gather+reduce_scatter"} {
		if r, err := ParseReplacement(text); err == nil {
			t.Errorf("%s is read as %+v", text, r)
		}
	}
}

// Whatever the rules are, a job of real sizes stays one whose calls match, and all of its gradients are still reduced.
func TestRewrittenJobs(t *testing.T) {
	n, err := layers.Named("resnet50")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := parallel.DDP{
			Training: parallel.Training{Network: n, Ranks: 4, Steps: 2, Batch: 8,
				Compute: parallel.Compute{Step: time.Second}, Type: "float32"},
			FirstBucket: 1, BucketCap: rapid.Int64Range(1, 1<<24).Draw(t, "from"),
			Overlap: rapid.Bool().Draw(t, "overlap"), Buffers: rapid.Bool().Draw(t, "buffers"),
		}
		w, err := d.Workload()
		if err != nil {
			t.Fatal(err)
		}
		r := Rules{BucketCap: rapid.Int64Range(0, 1<<26).Draw(t, "to")}
		if rapid.Bool().Draw(t, "replace") {
			r.Replacements = []Replacement{rapid.SampledFrom(replacements).Draw(t, "by")}
		}
		out, err := r.Apply(w)
		if err != nil {
			t.Fatal(err)
		}
		ix, err := out.Index()
		if err != nil {
			t.Fatal(err)
		}
		if found, err := check.Run(context.Background(), ix); err != nil || len(found) > 0 {
			t.Fatal(found, err)
		}
		sum, calls := int64(0), int64(0)
		for _, o := range out.Ops {
			switch o.Func {
			case workload.AllReduce, workload.Reduce:
				sum += o.Count
			case workload.ReduceScatter:
				sum += 4 * o.Count
				calls++
			}
		}
		if want := 2 * n.Elements(); sum < want || sum > want+3*calls {
			t.Fatalf("%d elements are reduced, want %d", sum, want)
		}
	})
}
