// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"
)

// A job that is written as the messages of NCCL and read again takes about as long as the job: its collectives are the
// same messages.
func TestJobAsGOAL(t *testing.T) {
	t.Parallel()
	path := workloadFile(t,
		`"ranks":4,"comms":[{"name":"all","ranks":"0-3"},{"name":"pair","ranks":"0-1"},{"name":"pair","ranks":"2-3"}]`,
		`{"id":1,"op":"calc","ns":2000000,"stream":"c"}`,
		`{"id":2,"op":"coll","comm":"all","func":"AllReduce","count":4194304,"type":"float32","stream":"n","after":[1]}`,
		`{"id":3,"op":"calc","ns":3000000,"stream":"c"}`,
		`{"id":4,"op":"coll","comm":"pair","func":"ReduceScatter","count":1000000,"type":"float32","stream":"p","after":[2]}`,
		`{"op":"coll","comm":"all","func":"Broadcast","root":2,"count":2000000,"type":"float32","stream":"n","after":[4]}`,
		`{"op":"coll","comm":"all","func":"AllToAll","count":200000,"type":"float32","stream":"n"}`,
		`{"op":"wait"}`,
		`{"op":"calc","ns":1000000,"stream":"c"}`,
		`{"op":"step"}`)
	dir := t.TempDir()
	file, again := filepath.Join(dir, "job.goal"), filepath.Join(dir, "again.jsonl")
	want := output(t, "expect", "--workload", path, "--profile", "eth10", "--nodes", "4", "--goal", file)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := ddlemu(ctx, t, folder(t), nil, "workload", "convert", file, "-o",
		again).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := output(t, "expect", "--workload", again, "--profile", "eth10", "--nodes", "4")
	if a, b := want.Steps[0].Time, got.Steps[0].Time; math.Abs(a-b) > 0.02*a {
		t.Errorf("the job takes %.0f us, its messages %.0f", a, b)
	}
}
