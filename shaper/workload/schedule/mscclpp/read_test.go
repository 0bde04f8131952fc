// SPDX-License-Identifier: Apache-2.0

package mscclpp_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/mscclpp"
)

func file(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func read(t *testing.T, text string) *schedule.Schedule {
	t.Helper()
	s, err := mscclpp.ReadStores([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// play plays a plan with one GPU on each node of a star, with links of 8 bytes for each ns and a latency of 10 us.
func play(t *testing.T, s *schedule.Schedule, size uint64) (*model.Result, *schedule.Cut) {
	t.Helper()
	c, err := configs.Profile("dgx-a100-nvlink")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Link.Bandwidth, c.Link.Latency = len(s.GPUs), 64_000_000_000, 10*time.Microsecond
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	place, err := model.NewPlace(f, len(s.GPUs))
	if err != nil {
		t.Fatal(err)
	}
	e, err := place.Expect()
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.For(size); err != nil {
		t.Fatal(err)
	}
	cut, err := s.Cut(size, 4)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Play(t.Context(), s, &cut, e, 2)
	if err != nil {
		t.Fatal(err)
	}
	return r, &cut
}

// Small calls take the latencies of the messages that wait for each other: a signal and what was stored before it one,
// a load two, packets one. Large calls take the bytes that a GPU sends or receives; packets are twice as many.
func TestTimes(t *testing.T) {
	const large = 12 << 20 // of the larger buffer
	for name, tc := range map[string]struct {
		latencies float64
		bytes     float64 // through the busiest port, as a part of the larger buffer
	}{
		"put_allgather":      {2, 3. / 4},
		"get_reducescatter":  {1 + 2*2 + 1, 2. / 3},
		"rres_allreduce":     {1 + 2 + 1, 4. / 3},
		"packet_allreduce":   {2, 2 * 4. / 3},
		"packet_allgather":   {2, 2 * 3. / 4},
		"group_allgather":    {2, 1. / 2},
		"group_exchange":     {1, 1. / 2},
		"pipeline_alltoall":  {2, 1. / 2},
		"port_reducescatter": {1 + 2*2 + 1 + 1, 3. / 4},
		"send_allreduce":     {2, 1},
		"packet_nodes":       {2, 2 * 3. / 4},
		"port_flush":         {1, 3. / 4}, // one of the chunks comes twice
	} {
		s := read(t, file(t, name))
		r, _ := play(t, s, 4<<10)
		if took, want := float64(r.Times[1]), tc.latencies*10_000; took < want || took > 1.1*want {
			t.Errorf("%s: %.0f ns for a small call, want %.0f", name, took, want)
		}
		r, cut := play(t, s, large)
		if got, want := float64(r.Loads[0].Bytes), tc.bytes*float64(cut.Bytes); math.Abs(got-want) > 1e-3*want {
			t.Errorf("%s: %.0f bytes through the busiest port, want %.0f", name, got, want)
		}
		// What waits for something else than the port makes it slower, never faster.
		if took, least := float64(r.Times[1]), tc.bytes*float64(cut.Bytes)/8; took < least || took > 2.6*least {
			t.Errorf("%s: %.0f ns for a large call, at least %.0f", name, took, least)
		}
	}
}

// A put of all bytes is over before the next operation begins: a reduction waits for the whole chunk.
func TestWhole(t *testing.T) {
	r, cut := play(t, read(t, file(t, "send_allreduce")), 32<<20)
	if took, want := float64(r.Times[1]), 20_000+float64(cut.Bytes)/8; math.Abs(took-want) > 0.02*want {
		t.Errorf("%.0f ns, want %.0f: half of the bytes twice, one after the other", took, want)
	}
}

// A pipeline has an iteration for each unit_size of a chunk.
func TestPipeline(t *testing.T) {
	s := read(t, file(t, "pipeline_alltoall"))
	for _, tc := range []struct {
		size       uint64
		iterations int
	}{{64 << 10, 1}, {128 << 10, 1}, {256 << 10, 2}, {1 << 20, 8}} {
		sized, err := s.For(tc.size)
		if err != nil {
			t.Fatal(err)
		}
		puts := 0
		for _, b := range sized.GPUs[0].Blocks {
			for _, st := range b.Steps {
				if st.Kind == schedule.SendStep {
					puts++
				}
			}
		}
		if puts != tc.iterations || sized.Parts != tc.iterations {
			t.Errorf("%d bytes: %d puts of %d parts, want %d", tc.size, puts, sized.Parts, tc.iterations)
		}
	}
	if _, err := s.For(1 << 40); err == nil || !strings.Contains(err.Error(), "a pipeline with 8388608 iterations") {
		t.Error(err)
	}
	s = read(t,
		replace(t, "pipeline_alltoall", `{"name":"put",`, `{"name":"put","tbg_info":{"tb_id":0,"tbg_size":1000},`))
	if _, err := s.For(1 << 20); err != nil || s.Parts != 3000 {
		t.Errorf("%d parts, %v", s.Parts, err)
	}
	if _, err := s.For(128 * 7 << 10); err == nil || !strings.Contains(err.Error(), "divide a chunk into 7000 parts") {
		t.Error(err)
	}
	s = read(t, strings.Replace(file(t, "pipeline_alltoall"), `"reuse_resources":false`, `"reuse_resources":true`, 1))
	if _, err := s.For(1 << 28); err == nil ||
		!strings.Contains(err.Error(), "a chunk has more than the 67108864 bytes of its scratch") {
		t.Error(err)
	}
}

// Chunks are multiples of buffer_alignment, and the parts of a group of thread blocks of an element.
func TestAlignment(t *testing.T) {
	for name, want := range map[string]uint64{"put_allgather": 16, "group_allgather": 16} {
		s := read(t, file(t, name))
		cut, err := s.Cut(1001, 4)
		if err != nil {
			t.Fatal(err)
		}
		if chunk := cut.Chunk * uint64(s.Parts); chunk%want != 0 || cut.Chunk%4 != 0 || cut.Bytes < 900 {
			t.Errorf("%s: %d parts of %d bytes, %d in all", name, s.Parts, cut.Chunk, cut.Bytes)
		}
	}
}

// replace changes the first place where a plan has old.
func replace(t *testing.T, name, before, after string) string {
	t.Helper()
	text := file(t, name)
	if !strings.Contains(text, before) {
		t.Fatalf("%s has no %s", name, before)
	}
	return strings.Replace(text, before, after, 1)
}

// An operation cannot name so many channels that the memory for their steps is much more than the file.
func TestManyChannels(t *testing.T) {
	text := replace(t, "put_allgather", `"channel_ids":[0,1,2],"channel_type":"memory"`,
		`"channel_ids":[0`+strings.Repeat(",0", 1024)+`],"channel_type":"memory"`)
	if _, err := mscclpp.Read([]byte(text)); err == nil ||
		!strings.Contains(err.Error(), "1025 channels, sources or destinations are too many") {
		t.Errorf("%v", err)
	}
}

// What cannot end is a mistake that says who waits for what.
func TestMistakes(t *testing.T) {
	signal := `{"name":"signal","channel_ids":[0,1,2],"channel_type":"memory"}`
	wait := `{"name":"wait","channel_ids":[0,1,2],"channel_type":"memory"}`
	for name, tc := range map[string]struct {
		text, want string
		kind       check.Kind
	}{
		"no signal": {replace(t, "put_allgather", signal, `{"name":"nop"}`),
			"GPU 1 thread block 0 operation 7 (wait) waits for signal 2 of GPU 0 on memory channel 0, which sends 1",
			check.Deadlock},
		"no wait": {replace(t, "put_allgather", wait, `{"name":"nop"}`),
			"GPU 1 signals GPU 0 2 times on memory channel 0, which waits 1 times", check.Mismatch},
		"no packets": {replace(t, "packet_allreduce", `{"name":"ppkt"`, `{"name":"nop"`),
			"waits for packets of chunk 0 of the scratch buffer, which nobody has written", check.Deadlock},
		"no release": {replace(t, "pipeline_alltoall", `{"name":"sem_release","semaphore_ids":[0]}`,
			`{"name":"nop"}`), "(sem_acquire) waits for semaphore 0, which is 0 at first and is released 0 times",
			check.Deadlock},
		"no barrier": {replace(t, "group_allgather", `{"name":"barrier"`, `{"name":"nop"`),
			"waits for barrier 1, to which 2 of 3 thread blocks come", check.Deadlock},
		"another offset": {replace(t, "put_allgather", `"dst_buff":[{"buffer_id":0,"index":0`,
			`"dst_buff":[{"buffer_id":0,"index":1`), "", check.Unordered},
		"outside": {replace(t, "put_allgather", `"dst_buff":[{"buffer_id":0,"index":0`,
			`"dst_buff":[{"buffer_id":0,"index":4`), "", check.Bounds},
		"relaxed": {replace(t, "put_allgather", signal, strings.Replace(signal, "signal", "rlxsignal", 1)),
			"is relaxed and comes behind a put to GPU 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, tc.text)
			r, err := check.Check(s)
			if err != nil {
				t.Fatal(err)
			}
			if tc.kind == "" {
				if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, tc.want) {
					t.Errorf("warnings %s, want %s", text, tc.want)
				}
				return
			}
			for _, f := range r.Findings {
				if f.Kind == tc.kind && strings.Contains(f.Text, tc.want) {
					return
				}
			}
			t.Errorf("%+v, want %s: %s", r.Findings, tc.kind, tc.want)
		})
	}
}

// If two thread blocks release a semaphore, one that acquires it once does not know which of them did.
func TestTwoRelease(t *testing.T) {
	const plan = `{"name":"x","collective":"custom","protocol":"Simple","inplace":false,"gpus":[{"id":0,"input_chunks":2,"output_chunks":2,"scratch_chunks":0,
 "semaphores":[{"init_value":0}],"threadblocks":[
 {"id":0,"ops":[{"name":"copy","src_buff":[{"type":"i","index":0,"size":1}],"dst_buff":[{"type":"o","index":0,"size":1}]},{"name":"sem_release","semaphore_ids":[0]}]},
 {"id":1,"ops":[{"name":"copy","src_buff":[{"type":"i","index":1,"size":1}],"dst_buff":[{"type":"o","index":1,"size":1}]},{"name":"sem_release","semaphore_ids":[0]}]},
 {"id":2,"ops":[{"name":"sem_acquire","semaphore_ids":[0]},ACQUIRE{"name":"copy","src_buff":[{"type":"o","index":0,"size":1}],"dst_buff":[{"type":"i","index":0,"size":1}]}]}]}]}`
	for acquire, want := range map[string]bool{"": false, `{"name":"sem_acquire","semaphore_ids":[0]},`: true} {
		r, err := check.Check(read(t, strings.Replace(plan, "ACQUIRE", acquire, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if r.Good() != want || !want && r.Findings[0].Kind != check.Unordered {
			t.Errorf("acquired also %q: %+v", acquire, r.Findings)
		}
	}
}

// The destination of a sum may be one of its sources, which then must not be overwritten.
func TestReduceInPlace(t *testing.T) {
	const plan = `{"name":"x","collective":"allreduce","protocol":"Simple","inplace":true,"gpus":[{"id":0,"input_chunks":2,"output_chunks":2,"scratch_chunks":1,
 "threadblocks":[{"id":0,"ops":[{"name":"copy","src_buff":[{"type":"i","index":1,"size":1}],"dst_buff":[{"type":"s","index":0,"size":1}]},
 {"name":"re","src_buff":[{"type":"s","index":0,"size":1},{"type":"i","index":0,"size":1}],"dst_buff":[{"type":"o","index":0,"size":1}]}]}]}]}`
	r, err := check.Check(read(t, plan))
	if err != nil {
		t.Fatal(err)
	}
	if want := "output chunk 0 of GPU 0 has the sum of chunk 0 of rank 0, chunk 1 of rank 0, must have"; r.Good() ||
		!strings.Contains(r.Findings[0].Text, want) {
		t.Errorf("%+v, want %q: the two are the same chunk", r.Findings, want)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no GPUs":      {`{"gpus": []}`, "0 GPUs: must be 1 to 4096"},
		"older format": {`{"gpus": [{"inputChunks": 1}]}`, "the older format of MSCCL++ plans"},
		"no chunks":    {`{"collective":"allreduce","gpus":[{"id":0}]}`, "0 chunks: must be at least 1"},
		"operation": {replace(t, "put_allgather", `"put"`, `"glre"`),
			"(glre): is not known: known are nop, barrier, put"},
		"min": {replace(t, "send_allreduce", `"reduce_op":"sum"`, `"reduce_op":"min"`),
			`reduce_op "min": only sum is supported`},
		"block id": {replace(t, "put_allgather", `"threadblocks":[{"id":0`, `"threadblocks":[{"id":7`),
			"thread block 0 has id 7"},
		"remote rank": {replace(t, "put_allgather", `"rank":1`, `"rank":0`),
			"remote buffer 0 is of GPU 0: must be another of the 4"},
		"remote buffer": {replace(t, "put_allgather", `"buffer_id":0`, `"buffer_id":9`),
			"remote buffer 9 over a memory channel does not exist"},
		"channel": {replace(t, "put_allgather", `"channel_ids":[0,1,2]`, `"channel_ids":[0,1,5]`),
			"memory channel 5: the thread block has 3"},
		"no channel": {replace(t, "put_allgather", `"channel_ids":[0,1,2]`, `"channel_ids":[]`),
			"names no channel"},
		"sizes": {replace(t, "rres_allreduce", `"size":1`, `"size":2`), "its chunks are not equally large"},
		"no sources": {replace(t, "put_allgather", `"src_buff":[{`, `"src":[{`),
			"src_buff has 0 chunks: must have 1"},
		"remote packets": {replace(t, "packet_allreduce", `"type":"s","access`, `"type":"i","access`),
			"dst_buff 0 must be remote scratch"},
		"both": {
			replace(t, "packet_allgather",
				`{"name":"copy","src_buff":[{"type":"i","index":0,"size":1}],"dst_buff":[{"type":"o","index":0`,
				`{"name":"copy","src_buff":[{"type":"i","index":0,"size":1}],"dst_buff":[{"type":"s","index":0`),
			"packets and for plain data too"},
		"group": {replace(t, "group_allgather", `"tbg_size":3`, `"tbg_size":0`),
			"thread block 0 of a group of 0"},
		"large group": {replace(t, "group_allgather", `"tbg_size":3`, `"tbg_size":1025`),
			"the group at most 1024"},
		"unit": {replace(t, "pipeline_alltoall", `"unit_size":65536`, `"unit_size":0`),
			"unit_size 0 and num_chunks 1"},
		"switch ranks": {replace(t, "switch_allreduce", `"ranks":[0,1]`, `"ranks":[1,2]`),
			"a switch channel of ranks [1 2]"},
		"signal of a put": {replace(t, "put_allgather", `"put"`, `"pws"`),
			"over a memory channel MSCCL++'s executor does not signal"},
		"huge buffers": {replace(t, "put_allgather", `"output_chunks":4`, `"output_chunks":2000000000`),
			"must be 0 to 1048576"},
		"channel of a put": {replace(t, "port_flush", `"connected_to":[1]`, `"connected_to":[0]`),
			"port channel 0 is connected to GPU 0"},
		"other receiver": {replace(t, "port_reducescatter", `{"channel_type":"port","connected_to":[2]}`,
			`{"channel_type":"port","connected_to":[3]}`), "destination 0 is of GPU 2, its channel goes to 3"},
		"semaphore": {replace(t, "pipeline_alltoall", `"semaphore_ids":[0]`, `"semaphore_ids":[3]`),
			"semaphore 3: the GPU has 1"},
		"alignment": {replace(t, "put_allgather", `"buffer_alignment":16`, `"buffer_alignment":0`),
			"buffer_alignment 0: must be 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := mscclpp.ReadStores([]byte(tc.text))
			if err == nil {
				t.Fatalf("read as %+v", s)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, want %q", err, tc.want)
			}
		})
	}
}

// A plan with switch channels is checked as if each GPU loaded and stored itself, and says that it cannot be run.
func TestSwitch(t *testing.T) {
	s := read(t, file(t, "switch_allreduce"))
	if !strings.Contains(s.CheckOnly, "switch channels (2 glres of 2 chunks in all)") {
		t.Errorf("%q", s.CheckOnly)
	}
	r, err := check.Check(read(t, replace(t, "switch_allreduce", `{"switch_channel_id":0,"index":0`,
		`{"switch_channel_id":0,"index":1`)))
	if err != nil || r.Good() {
		t.Errorf("%v, %+v", err, r)
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range plans(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := mscclpp.ReadStores(data)
		if err != nil || s.LoopChunks*len(s.GPUs) > 1<<12 {
			return
		}
		if _, err := check.Check(s); err != nil {
			return
		}
		if sized, err := s.For(1 << 20); err == nil {
			_, _ = sized.Cut(1<<20, 4)
		}
	})
}
