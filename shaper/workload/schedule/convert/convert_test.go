// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/convert"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// Three roots numbered 10, 11 and 12, two chunks each: one tree of two chunks, or two trees of one.
const trees = `<?xml version="1.0"?>
<Algo nchunkspernode="2">
  <tree root="10" index="0" nchunks="2" height="1"><send src="10" dst="11" path="10,99,11"/><send src="10" dst="12" path="10,12"/></tree>
  <tree root="11" index="0" nchunks="1" height="2"><send src="11" dst="12"/><send src="12" dst="10"/></tree>
  <tree root="11" index="1" nchunks="1" height="2"><send src="11" dst="10"/><send src="10" dst="12"/></tree>
  <tree root="12" index="0" nchunks="2" height="1"><send src="12" dst="10"/><send src="12" dst="11"/></tree>
</Algo>`

const flows = `{"3-Epochs_Required": 2, "7-Flows": [
 "Chunk 0 from 3 traveled over 1->2 in epoch 1 via switches 0", "Chunk 0 from 3 traveled over 3->1 in epoch 0",
 "Chunk 0 from 1 traveled over 1->2 in epoch 0", "Chunk 0 from 1 traveled over 1->3 in epoch 1",
 "Chunk 0 from 2 traveled over 2->1 in epoch 0", "Chunk 0 from 2 traveled over 2->3 in epoch 0", "Chunk 0 from 2 traveled over 1->3 in epoch 1"]}`

// paths is an all-to-all of GPUs 1 and 2, of which the second sends half of its chunk over GPU 3.
const paths = `{"6-Flows": ["Chunk 0 from 1 traveled over 1->2 with volume 1.0 in epoch 0"], "7-chunk paths": {
 "Demand at 2 for chunk 0 from 1 met by epoch 0": [[[0, "1->2 with volume 1.0 in epoch 0 via switches 0"]]],
 "Demand at 3 for chunk 1 from 1 met by epoch 0": [[[0, "1->3 with volume 0.9999999 in epoch 0"]]],
 "Demand at 1 for chunk 0 from 2 met by epoch 4": [[[0, "2->1 with volume 0.5 in epoch 0"]], [[2, "2->3 with volume 0.5 in epoch 2"], [4, "3->1 with volume 0.5 in epoch 4"]]],
 "Demand at 3 for chunk 1 from 2 met by epoch 1": [[[1, "2->3 with volume 1.0 in epoch 1"]]],
 "Demand at 1 for chunk 0 from 3 met by epoch 1": [[[1, "3->1 with volume 1.0 in epoch 1"]]],
 "Demand at 2 for chunk 1 from 3 met by epoch 1": [[[1, "3->2 with volume 1.0 in epoch 1"]]]}}`

const sccl = `{"msccl_type": "algorithm", "name": "x", "input_map": {"0": [0], "1": [1]}, "output_map": {"0": [1, 0], "1": [0, 1]},
 "collective": {"msccl_type": "collective", "name": "Allgather(n=2)", "nodes": 2, "runtime_name": "allgather",
  "chunks": [{"pre": [0], "post": [0, 1], "addr": 0}, {"pre": [1], "post": [0, 1], "addr": 1}], "triggers": {}},
 "instance": {"msccl_type": "instance", "steps": 1, "chunks": 1, "pipeline": null},
 "steps": [{"msccl_type": "step", "rounds": 1, "sends": [[0, 0, 1], [1, 1, 0]]}]}`

// exchange is an all-reduce of one step: what a rank receives may not be added to what it still sends.
const exchange = `{"msccl_type": "algorithm", "input_map": {"0": [0], "1": [0]}, "output_map": {"0": [0], "1": [0]},
 "collective": {"name": "Allreduce(n=2)", "nodes": 2, "runtime_name": "allreduce", "chunks": [{"addr": 0}, {"addr": 0}]},
 "steps": [{"sends": [[0, 0, 1], [0, 1, 0]]}]}`

// taccl is an all-reduce of two GPUs and two chunks as TACCL writes it: each chunk is added up at one GPU, which sends
// it back.
const taccl = `{"sccl_type": "algorithm", "name": "x", "input_map": {"0": [0, 1], "1": [0, 1]}, "output_map": {"0": [0, 1], "1": [0, 1]},
 "collective": {"sccl_type": "collective", "name": "Allreduce(n=2),chunks=2", "nodes": 2,
  "chunks": [{"pre": [0], "post": [0, 1], "addr": 0}, {"pre": [0], "post": [0, 1], "addr": 1}, {"pre": [1], "post": [0, 1], "addr": 0}, {"pre": [1], "post": [0, 1], "addr": 1}], "triggers": {}},
 "steps": [{"sccl_type": "step", "rounds": 1, "sends": [[0, 1, 0, 0.5, 0, "rrc"], [1, 0, 1, 0.5, 0, "rrc"]]},
  {"sccl_type": "step", "rounds": 1, "sends": [[0, 0, 1, 1.5, 0, null], [1, 1, 0, 1.5, 0, null]]}]}`

// portPlan is an all-gather of two GPUs over a port channel, as MSCCL++'s language writes it: each says that it is
// ready, then puts its chunk into the output of the other.
var portPlan = `{"name": "ag", "collective": "allgather", "protocol": "Simple", "inplace": true, "gpus": [` +
	portGPU(0) + "," + portGPU(1) + `],
 "num_threads_per_block": 1024, "min_message_size": 0, "max_message_size": 18446744073709551615}`

func portGPU(gpu int) string {
	return fmt.Sprintf(`{"id": %[1]d, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 0, "semaphores": [],
 "channels": [{"channel_type": "port", "connected_to": [%[2]d]}], "remote_buffers": [{"rank": %[2]d, "type": "o", "access_channel_types": ["port"]}],
 "threadblocks": [{"id": 0, "channels": [{"channel_type": "port", "channel_ids": [0]}], "remote_buffer_refs": [{"access_channel_type": "port", "remote_buffer_ids": [0]}],
  "ops": [{"name": "signal", "channel_ids": [0], "channel_type": "port"}, {"name": "wait", "channel_ids": [0], "channel_type": "port"}, {"name": "nop"},
   {"name": "pwsf", "src_buff": [{"type": "o", "index": %[1]d, "size": 1}], "dst_buff": [{"buffer_id": 0, "index": %[1]d, "size": 1}], "channel_ids": [0], "channel_type": "port"},
   {"name": "wait", "channel_ids": [0], "channel_type": "port"}]}]}`, gpu, 1-gpu)
}

func read(text string, o mk.Options) (*schedule.Schedule, error) {
	return convert.Read(strings.NewReader(text), "x", o, false)
}

func TestFormats(t *testing.T) {
	colls := []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce}
	for _, coll := range colls {
		for _, outOfPlace := range []bool{false, true} {
			o := mk.Options{Coll: coll, OutOfPlace: outOfPlace}
			mustBeGood(t, trees, o, 3, coll)
			mustBeGood(t, flows, o, 3, schedule.AllGather)
			mustBeGood(t, paths, o, 3, schedule.AllToAll)
			mustBeGood(t, sccl, o, 2, schedule.AllGather)
			mustBeGood(t, exchange, o, 2, schedule.AllReduce)
			mustBeGood(t, taccl, o, 2, schedule.AllReduce)
		}
	}
	ring, err := mk.Ring(mk.Options{Coll: schedule.AllReduce, GPUs: 3, K: 1})
	if err != nil {
		t.Fatal(err)
	}
	var xml bytes.Buffer
	if err := msccl.Write(&xml, ring); err != nil {
		t.Fatal(err)
	}
	mustBeGood(t, xml.String(), mk.Options{}, 3, schedule.AllReduce)
	mustBeGood(t, portPlan, mk.Options{}, 2, schedule.AllGather)
}

// A plan is checked like any schedule: without the last wait nobody takes the chunk, a put of another chunk is wrong.
func TestWrongPlans(t *testing.T) {
	lastWait := `,
   {"name": "wait", "channel_ids": [0], "channel_type": "port"}]`
	for name, tc := range map[string]struct {
		old, new string
		kind     check.Kind
	}{
		"no wait": {lastWait, "]", check.Connection},
		"another chunk": {`"src_buff": [{"type": "o", "index": 1`, `"src_buff": [{"type": "o", "index": 0`,
			check.WrongResult},
		"outside": {`{"buffer_id": 0, "index": 1`, `{"buffer_id": 0, "index": 2`, check.Bounds},
	} {
		s, err := read(strings.Replace(portPlan, tc.old, tc.new, 1), mk.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, err := check.Check(s); err != nil || r.Good() || r.Findings[0].Kind != tc.kind {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

func mustBeGood(t *testing.T, text string, o mk.Options, gpus int, coll schedule.Collective) {
	t.Helper()
	s, err := read(text, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.GPUs) != gpus || s.Coll != coll {
		t.Errorf("%s on %d GPUs, want %s on %d", s.Coll, len(s.GPUs), coll, gpus)
	}
	if r, err := check.Check(s); err != nil || !r.Good() {
		t.Errorf("%s %v: %v, %+v", coll, o, err, r)
	}
}

func TestRefusals(t *testing.T) {
	ag := mk.Options{Coll: schedule.AllGather}
	for name, tc := range map[string]struct{ text, want string }{
		"pickle":      {"\x80\x04\x95", "a Python pickle"},
		"other JSON":  {`{"a": 1}`, "not a schedule"},
		"broken JSON": {`{"7-Flows": [`, "it was cut"},
		"MSCCL++": {
			`{"gpus": [{"channels": [{"type": "port"}], "threadblocks": [{"ops": [{"name": "wait"}]}]}]}`, "GPU 0 thread block 0 operation 0 (wait): names no channel"},
		"memory channels": {strings.Replace(portPlan, `"channels": [{"channel_type": "port", "connected_to"`,
			`"channels": [{"channel_type": "memory", "connected_to"`, 1),
			"an MSCCL++ plan: GPU 0 thread block 0 operation 0 (signal): port channel 0: the GPU has 0"},
		"packets": {strings.Replace(portPlan, `"pwsf"`, `"ppkt"`, 1),
			"an MSCCL++ plan: GPU 0 thread block 0 operation 3 (ppkt): dst_buff 0 must be remote scratch"},
		"no such peer": {strings.Replace(portPlan, `"connected_to": [1]`, `"connected_to": [7]`, 1),
			"connected to GPU 7"},
		"no such channel": {strings.Replace(portPlan, `"channel_ids": [0]}], "remote`, `"channel_ids": [3]}], "remote`,
			1), "channel 3: the GPU has 1"},
		"remote buffer": {strings.Replace(portPlan, `"buffer_id": 0`, `"buffer_id": 4`, 1),
			"remote buffer 4 over a port channel does not exist"},
		"other remote": {strings.Replace(portPlan, `"rank": 1`, `"rank": 0`, 1),
			"remote buffer 0 is of GPU 0: must be another of the 2"},
		"negative size": {strings.Replace(portPlan, `"size": 1`, `"size": -1`, 1), "-1 chunks"},
		"no signal": {
			strings.Replace(portPlan, `{"name": "signal", "channel_ids": [0], "channel_type": "port"}, `, "", 1),
			"it waits for signal 1 of GPU 0, which sends 1"},
		"ids": {strings.Replace(portPlan, `"id": 1`, `"id": 5`, 1), "GPU 1 has id 5"},
		"huge buffers": {strings.Replace(portPlan, `"output_chunks": 2`, `"output_chunks": 2000000000`, 1),
			"must be 0 to"},
		"volumes alone": {`{"7-Flows": ["Chunk 5 from 11 traveled over 11->6 with volume 0.025 in epoch 0"]}`,
			"understood only with 8-Chunk paths"},
		"another flow": {`{"7-Flows": ["hello"]}`, `flow "hello": must be like`},
		"no all-gather": {
			strings.Replace(flows,
				`, "Chunk 0 from 2 traveled over 2->3 in epoch 0", "Chunk 0 from 2 traveled over 1->3 in epoch 1"`, "",
				1), "never comes to rank 2 whole"},
		"before it has it": {strings.Replace(flows, "over 3->1 in epoch 0", "over 3->1 in epoch 9", 1),
			"before it has it"},
		"many chunks": {strings.Replace(flows, "Chunk 0", "Chunk 1000000000", 1), "with a chunk below 256"},
		"another demand": {strings.Replace(paths, "Demand at 2 for", "Wish at 2 for", 1),
			`"Wish at 2 for chunk 0 from 1 met by epoch 0": must be like`},
		"a demand less": {strings.Replace(paths, "Demand at 2 for chunk 0 from 1", "Demand at 3 for chunk 0 from 1",
			1), "the demands at 3 from 1 are more or less than the 1 of others"},
		"unequal demands": {strings.Replace(paths, `,
 "Demand at 2 for chunk 1 from 3 met by epoch 1": [[[1, "3->2 with volume 1.0 in epoch 1"]]]`, "", 1), "5 demands between 3 GPUs"},
		"another hop": {strings.Replace(paths, "1->2 with volume 1.0 in epoch 0 via", "1 to 2 via", 1),
			`hop "1 to 2 via switches 0": must be like`},
		"negative volume": {strings.Replace(paths, "1->2 with volume 1.0 in epoch 0 via",
			"1->2 with volume -1 in epoch 0 via", 1), "must be like"},
		"broken path": {strings.Replace(paths, "3->1 with volume 0.5", "2->1 with volume 0.5", 1),
			"are no paths"},
		"path to nowhere": {strings.Replace(paths, "3->1 with volume 0.5", "3->2 with volume 0.5", 1),
			"do not end there"},
		"too early": {strings.Replace(paths, "volume 0.5 in epoch 4", "volume 0.5 in epoch 2", 1),
			"are no paths"},
		"half a chunk": {strings.Replace(paths, `[[0, "2->1 with volume 0.5 in epoch 0"]], `, "", 1),
			"carry less than the chunk"},
		"more than a chunk": {strings.Replace(paths, `[[0, "2->1 with volume 0.5 in epoch 0"]], `,
			`[[0, "2->1 with volume 0.5 in epoch 0"]], [[0, "2->1 with volume 0.5 in epoch 0"]], `, 1),
			"carry more than the chunk"},
		"odd volumes": {strings.Replace(paths, "1->2 with volume 1.0 in epoch 0 via",
			"1->2 with volume 0.0717 in epoch 0 via", 1), "parts such as 0.0717, which are no multiples"},
		"address": {strings.Replace(sccl, "[0, 0, 1]", "[7, 0, 1]", 1),
			"step 0: rank 0 sends address 7 before it has it"},
		"rank":       {strings.Replace(sccl, "[0, 0, 1]", "[0, 0, 9]", 1), "rank 9"},
		"short send": {strings.Replace(sccl, "[0, 0, 1]", "[0, 0]", 1), "a send of 2 parts"},
		"long send": {strings.Replace(sccl, "[0, 0, 1]", `[0, 0, 1, 0, 0, "max"]`, 1),
			`a send with the operation "max"`},
		"pipelined": {strings.Replace(sccl, `"pipeline": null`, `"pipeline": 2`, 1), "a pipelined algorithm"},
		"rank of a map": {strings.Replace(sccl, `"input_map": {"0"`, `"input_map": {"7"`, 1),
			`input_map has rank "7"`},
		"no chunks": {strings.Replace(sccl, `"chunks": [`, `"pieces": [`, 1), "no collective with chunks"},
		"nodes":     {strings.Replace(sccl, `"nodes": 2`, `"nodes": 2000000000`, 1), "2000000000 nodes"},
		"another layout": {strings.Replace(sccl, `"input_map": {"0": [0], "1": [1]}`,
			`"input_map": {"0": [1], "1": [0]}`, 1),
			"chunk 0 of the output of rank 0 is not at the address of chunk 0 of the input of rank 0, as allgather demands"},
		"twice":     {strings.Replace(sccl, `"0": [0]`, `"0": [0, 0]`, 1), "twice in its input"},
		"twice out": {strings.Replace(sccl, `"0": [1, 0]`, `"0": [1, 1]`, 1), "twice in its output"},
		"added twice": {strings.Replace(taccl, `[0, 0, 1, 1.5, 0, null]`, `[0, 0, 1, 1.5, 0, "rrc"]`, 1),
			"step 1: rank 0 sends address 0 to rank 1 to be added up, which has a part of it already"},
		"stored, not added": {strings.Replace(taccl, `[0, 1, 0, 0.5, 0, "rrc"]`, `[0, 1, 0, 0.5, 0, null]`, 1),
			"address 0 never comes to rank 0 whole"},
		"type": {`{"msccl_type": "topology"}`, "must be algorithm"},
		"missing tree": {strings.Replace(trees, `nchunks="2" height="1"><send src="12"`,
			`nchunks="1" height="1"><send src="12"`, 1), "5 trees: must be 2 for each of 3 roots"},
		"loop": {strings.Replace(trees, `<send src="10" dst="12" path="10,12"/>`,
			`<send src="12" dst="12"/>`, 1), "not connected"},
		"two parents": {strings.Replace(trees, `<send src="12" dst="10"/></tree>`,
			`<send src="12" dst="10"/><send src="11" dst="10"/></tree>`, 1), "the tree of root 11 has two edges to 10"},
		"foreign rank": {strings.Replace(trees, `dst="12" path`, `dst="77" path`, 1), "77"},
		"huge": {strings.Replace(trees, `nchunkspernode="2"`, `nchunkspernode="2000000000"`, 1),
			"nchunkspernode=2000000000"},
		"huge tree":         {strings.Replace(trees, `nchunks="2"`, `nchunks="2000000000"`, 1), "nchunks=2000000000"},
		"trees cut":         {trees[:len(trees)/2], "x: the file ends in the middle: it was cut"},
		"JSON cut":          {sccl[:len(sccl)/2], "x: the file ends in the middle: it was cut"},
		"nothing of either": {"hello", "x:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := read(tc.text, ag)
			if err == nil {
				t.Fatalf("read as %+v", s)
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "x") {
				t.Errorf("%q, want %q", err, tc.want)
			}
		})
	}
	if _, err := convert.Read(broken{}, "x", ag, false); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no luck") }

func FuzzRead(f *testing.F) {
	for _, seed := range []string{trees, flows, paths, sccl, taccl, portPlan} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := read(text, mk.Options{Coll: schedule.AllReduce})
		if err != nil || s.LoopChunks*len(s.GPUs) > 1<<14 || strings.Contains(text, "<algo") {
			return
		}
		// What is made of trees and transfers is always good.
		if r, err := check.Check(s); !strings.Contains(text, "gpus") && (err != nil || !r.Good()) {
			t.Error(fmt.Sprint(err, r))
		}
	})
}
