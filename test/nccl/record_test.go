// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/recorded"
)

// modelled is the expected part of the output of replay and expect --workload.
type modelled struct {
	Forecast bool   `json:"forecast"`
	Verdict  string `json:"verdict"`
	Steps    []struct {
		Time     float64 `json:"time_us"`
		Expected float64 `json:"expected_us"`
	} `json:"steps"`
	Calls []struct {
		Func     string  `json:"func"`
		Comm     string  `json:"comm"`
		Size     int64   `json:"size"`
		Count    int     `json:"calls"`
		Mean     float64 `json:"mean_us"`
		Expected float64 `json:"expected_us"`
	} `json:"calls"`
}

// output runs ddlemu and reads its JSON.
func output(t *testing.T, args ...string) modelled {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, folder(t), nil, append(args, "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ddlemu %v: %v\n%s%s", args, err, out, stderr.String())
	}
	var m modelled
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("%v in the output of ddlemu %v:\n%s", err, args, out)
	}
	return m
}

// jobs are workloads of 4 ranks on 2 nodes.
func jobs(t *testing.T) map[string]string {
	return map[string]string{
		"two by two": workloadFile(t,
			`"ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0,2"},{"name":"dp","ranks":"1,3"}]`,
			`{"id":1,"op":"calc","ns":2000000,"stream":"c"}`,
			`{"id":2,"op":"coll","comm":"tp","func":"AllReduce","count":1048576,"type":"float16","stream":"t","after":[1]}`,
			`{"id":3,"op":"calc","ns":3000000,"stream":"c","after":[2]}`,
			`{"op":"coll","comm":"dp","func":"AllReduce","count":2097152,"type":"float32","stream":"d","after":[2]}`,
			`{"op":"coll","comm":"dp","func":"ReduceScatter","count":1048576,"type":"float32","stream":"d","after":[3]}`,
			`{"op":"step"}`),
		"pipeline": workloadFile(t, `"ranks":4`,
			`{"rank":"1-3","op":"recv","count":1000000,"type":"float32","peer":-1,"relative":true}`,
			`{"op":"calc","ns":1000000}`,
			`{"rank":"0-2","op":"send","count":1000000,"type":"float32","peer":1,"relative":true}`,
			`{"op":"step"}`),
		// The host thread waits until its stream has room, so the computation begins late.
		"more calls than a stream holds": workloadFile(t, `"ranks":4`, append(
			slices.Repeat([]string{`{"op":"coll","func":"AllReduce","count":1000,"type":"float32","stream":"n"}`}, 300),
			`{"op":"calc","ns":50000000,"stream":"c"}`, `{"op":"step"}`)...),
		"large and small": workloadFile(t, `"ranks":4,"nccl":{"NCCL_BUFFSIZE":"524288","NCCL_ALGO":"Ring"}`,
			`{"op":"coll","func":"AllReduce","count":2000000,"type":"float32"}`,
			`{"op":"coll","func":"AllReduce","count":100,"type":"float32"}`,
			`{"op":"coll","func":"AllGather","count":300000,"type":"int8"}`,
			`{"op":"coll","func":"AllToAll","count":200000,"type":"int8"}`,
			`{"op":"step"}`),
	}
}

// The model gives each step the time that real NCCL takes, played or alone. Each version plays on one of the fabrics.
func TestReplayIsAsExpected(t *testing.T) {
	t.Parallel()
	fabrics := map[string][]string{"2.22": {"--profile", "eth10"},
		"2.29": {"--profile", "hdr200", "--set", "link.jitter=none", "--set", "nics_per_node=2"}}
	for name, path := range jobs(t) {
		for _, version := range replayVersions {
			on := append([]string{"--nodes", "2", "--nccl", version}, fabrics[version]...)
			got := output(t, append([]string{"replay", path}, on...)...)
			alone := output(t, append([]string{"expect", "--workload", path}, on...)...)
			if !alone.Forecast || got.Forecast || len(alone.Steps) != 1 || len(got.Steps) != 1 {
				t.Fatalf("%s, %s: %+v %+v", name, version, got, alone)
			}
			s := got.Steps[0]
			if math.Abs(s.Time-s.Expected) > 0.001*s.Time || alone.Steps[0].Time != s.Expected {
				t.Errorf("%s, %s: took %v us, expected %v, by the model alone %v", name, version, s.Time, s.Expected,
					alone.Steps[0].Time)
			}
		}
	}
}

// randomGroups are steps, each of which is a group of up to six collectives and of messages, on one communicator or, in
// every other step, on most, which have the same ranks in another order. Each step waits for its group.
func randomGroups(rng *rand.Rand, steps, most int) []string {
	funcs := []string{"AllReduce", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"}
	var lines []string
	for step := range steps {
		comms := []string{"a", "b"}[:1+step%most]
		var ops []string
		for range 2 + rng.IntN(5) {
			f := funcs[rng.IntN(len(funcs))]
			op := fmt.Sprintf(`{"op":"coll","comm":"%s","func":"%s","count":%d,"type":"%s"`,
				comms[rng.IntN(len(comms))], f, 1+rng.IntN(1<<(2+rng.IntN(16))),
				[]string{"float32", "float16", "int8"}[rng.IntN(3)])
			if f == "Reduce" || f == "Broadcast" {
				op += `,"root":1`
			}
			ops = append(ops, op+"}")
		}
		if step%4 > 1 {
			for _, comm := range comms {
				peer, count := 1+rng.IntN(3), 1+rng.IntN(1<<(2+rng.IntN(16)))
				ops = append(ops,
					fmt.Sprintf(`{"op":"send","comm":"%s","count":%d,"type":"int8","peer":%d,"relative":true}`, comm,
						count, peer),
					fmt.Sprintf(`{"op":"recv","comm":"%s","count":%d,"type":"int8","peer":%d,"relative":true}`, comm,
						count, -peer))
			}
		}
		rng.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
		lines = append(lines, `{"op":"group","ops":[`+strings.Join(ops, ",")+`]}`, `{"op":"wait"}`, `{"op":"step"}`)
	}
	return lines
}

// Groups of several collectives and messages take the time that the model gives for them.
func TestReplayOfGroupsIsAsExpected(t *testing.T) {
	t.Parallel()
	fabrics := map[string][]string{"2.22": {"--profile", "eth10"},
		"2.29": {"--profile", "hdr200", "--set", "link.jitter=none", "--set", "nics_per_node=2"}}
	// NCCL 2.29 starts the kernels of a group's communicators in the order of a random hash.
	comms := map[string]int{"2.22": 2, "2.29": 1}
	const groups = 40
	for _, version := range replayVersions {
		rng := rand.New(rand.NewPCG(1, 2))
		path := workloadFile(t, `"ranks":4,"comms":[{"name":"a","ranks":"0-3"},{"name":"b","ranks":"3,1,2,0"}]`,
			randomGroups(rng, groups, comms[version])...)
		got := output(t, append([]string{"replay", path, "--nodes", "2", "--nccl", version}, fabrics[version]...)...)
		if len(got.Steps) != groups {
			t.Fatalf("%s: %d steps", version, len(got.Steps))
		}
		for i, s := range got.Steps {
			if math.Abs(s.Time-s.Expected) > 0.001*s.Time {
				t.Errorf("%s: group %d took %v us, expected %v", version, i, s.Time, s.Expected)
			}
		}
	}
}

// A rank that sends for the first time, while others still wait for a call before it, does not keep them from ending
// it.
func TestReplayFirstSendAfterAWait(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4`,
		`{"op":"coll","func":"AllReduce","count":1000,"type":"float32"}`, `{"op":"wait"}`,
		`{"op":"group","ops":[{"op":"send","count":3000,"type":"int8","peer":2,"relative":true},{"op":"recv","count":3000,"type":"int8","peer":-2,"relative":true}]}`,
		`{"op":"wait"}`, `{"op":"step"}`)
	for _, version := range replayVersions {
		replay(t, path, "--profile", "eth10", "--nodes", "2", "--nccl", version)
	}
}

// A job that is recorded and played again on the same fabric takes the same times, to the nanosecond: with two ranks
// on a node, streams that overlap, communicators that share links, groups, and calls that are launched long before
// they begin.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	path := workloadFile(t,
		`"ranks":4,"comms":[{"name":"all","ranks":"0-3"},{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0,2"},{"name":"dp","ranks":"1,3"}]`,
		`{"id":1,"op":"calc","ns":3000000,"stream":"c"}`,
		`{"id":2,"op":"coll","comm":"tp","func":"AllReduce","count":500000,"type":"float32","stream":"t","after":[1]}`,
		`{"rank":"1-2","id":3,"op":"calc","ns":2000000,"stream":"c","after":[2]}`,
		`{"id":4,"op":"coll","comm":"dp","func":"AllReduce","count":300000,"type":"float32","stream":"d","after":[2]}`,
		`{"id":5,"op":"calc","ns":1000000,"stream":"c"}`,
		`{"op":"coll","comm":"dp","func":"ReduceScatter","count":100000,"type":"float32","stream":"d","after":[5]}`,
		`{"op":"group","stream":"d","ops":[{"op":"send","comm":"all","peer":1,"relative":true,"count":200000,"type":"float32"},{"op":"recv","comm":"all","peer":-1,"relative":true,"count":200000,"type":"float32"}]}`,
		`{"op":"wait"}`,
		`{"rank":0,"op":"calc","ns":700000,"stream":"c","id":6}`, `{"rank":0,"op":"wait"}`,
		`{"op":"group","stream":"t","ops":[{"op":"coll","comm":"all","func":"AllReduce","count":1000,"type":"float32"},{"op":"coll","comm":"all","func":"Broadcast","root":3,"count":100000,"type":"float32"}]}`)
	for _, version := range replayVersions {
		on := []string{"--profile", "ndr400", "--set", "link.jitter=none", "--nodes", "2", "--nccl", version}
		dir := t.TempDir()
		trace, again, file := filepath.Join(dir, "trace"), filepath.Join(dir, "again"),
			filepath.Join(dir, "recorded.jsonl")
		replay(t, append([]string{path, "--trace", trace}, on...)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := ddlemu(ctx, t, folder(t), nil, "record", "-o", file, "--from", trace).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		replay(t, append([]string{file, "--trace", again}, on...)...)
		recorded.Compare(t, trace, again, 0)
	}
}
