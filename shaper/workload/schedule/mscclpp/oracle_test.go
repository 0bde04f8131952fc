// SPDX-License-Identifier: Apache-2.0

package mscclpp_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
)

// oracle executes a plan as it stands in the file, one operation after another of randomly chosen thread blocks. What a
// thread block stores in another GPU's memory arrives later, at a random time, but before a signal behind it. It shares
// nothing with the reader.
type oracle struct {
	gpus   []any
	random *rand.Rand
	mem    [][]int // of each GPU: input, output and scratch
	base   []map[string]int
	flags  [][]bool // packets that have arrived, as mem
	blocks []*oracleBlock
	counts map[string]int // signals that have arrived, by receiver, sender, type and number
	taken  map[string]int
	sems   map[string]int
	meet   map[string]int // arrivals at a barrier, ever
}

type oracleBlock struct {
	gpu     int
	doc     map[string]any
	ops     []oracleOp
	next    int
	target  int // of the arrivals at the barrier that it waits at; 0: it is at none
	pending map[int][]func()
}

type oracleOp struct {
	doc        map[string]any
	from, unit int // of a pipeline's iteration, in elements; unit 0: outside of one
}

// Elements of a chunk, and of the iteration of a pipeline: three for a chunk, as many as the reader makes.
const (
	perChunk = 24
	perUnit  = perChunk / 3
)

func number(doc map[string]any, key string) int {
	x, _ := doc[key].(float64)
	return int(x)
}

func list(doc map[string]any, key string) []any {
	x, _ := doc[key].([]any)
	return x
}

func object(x any) map[string]any {
	m, _ := x.(map[string]any)
	return m
}

func newOracle(data []byte, seed uint64) *oracle {
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		panic(err)
	}
	o := &oracle{gpus: list(doc, "gpus"), random: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{},
		taken: map[string]int{}, sems: map[string]int{}, meet: map[string]int{}}
	inPlace, coll := doc["inplace"] == true, doc["collective"].(string)
	for gpu := range o.gpus {
		g := object(o.gpus[gpu])
		in, out, scratch := number(g, "input_chunks")*perChunk, number(g, "output_chunks")*perChunk,
			number(g, "scratch_chunks")*perChunk
		base := map[string]int{"i": 0, "o": in, "s": in + out}
		if inPlace {
			base = map[string]int{"i": 0, "o": 0, "s": max(in, out)}
			switch coll {
			case "allgather":
				base["i"] = gpu * in
			case "reducescatter":
				base["o"] = gpu * out
			}
		}
		o.base = append(o.base, base)
		o.mem = append(o.mem, make([]int, in+out+scratch))
		o.flags = append(o.flags, make([]bool, in+out+scratch))
		for i := range o.mem[gpu] {
			o.mem[gpu][i] = -1 << 40
		}
		for i := range in {
			o.mem[gpu][base["i"]+i] = input(gpu, i)
		}
		for i, s := range list(g, "semaphores") {
			o.sems[fmt.Sprint(gpu, i)] = number(object(s), "init_value")
		}
		for _, b := range list(g, "threadblocks") {
			o.blocks = append(o.blocks, newOracleBlock(gpu, object(b)))
		}
	}
	return o
}

func input(rank, i int) int { return (rank+1)*1_000_003 + i*7919 }

func newOracleBlock(gpu int, doc map[string]any) *oracleBlock {
	b := &oracleBlock{gpu: gpu, doc: doc, pending: map[int][]func(){}}
	for _, x := range list(doc, "ops") {
		op := object(x)
		if op["name"] != "pipeline" {
			b.ops = append(b.ops, oracleOp{doc: op})
			continue
		}
		for i := range 3 * number(object(op["iter_context"]), "num_chunks") {
			for _, inner := range list(op, "ops") {
				b.ops = append(b.ops, oracleOp{object(inner), i * perUnit, perUnit})
			}
		}
	}
	return b
}

// run executes the plan and says whether it ended. Mostly it does what has the highest rank, which is random: so a
// thread block or its stores may be far behind all others.
func (o *oracle) run() bool {
	ranks := o.random.Perm(2 * len(o.blocks))
	for {
		var can []func()
		open := false
		first, best := 0, -1
		add := func(rank int, f func()) {
			if rank > best {
				first, best = len(can), rank
			}
			can = append(can, f)
		}
		for i, b := range o.blocks {
			if b.next < len(b.ops) {
				open = true
				if o.ready(b) {
					add(ranks[2*i], func() { o.do(b) })
				}
			}
			for peer := range o.gpus {
				if len(b.pending[peer]) > 0 {
					add(ranks[2*i+1], func() { b.deliver(peer) })
				}
			}
		}
		if len(can) == 0 {
			return !open
		}
		if o.random.IntN(8) == 0 {
			first = o.random.IntN(len(can))
		}
		can[first]()
	}
}

func (b *oracleBlock) deliver(peer int) {
	q := b.pending[peer]
	b.pending[peer] = q[1:]
	q[0]()
}

// flush delivers all that a thread block has stored.
func (b *oracleBlock) flush() {
	for peer := range b.pending {
		for len(b.pending[peer]) > 0 {
			b.deliver(peer)
		}
	}
}

// cells are the elements of a chunk of an operation: the GPU, and their places in its memory.
func (o *oracle) cells(b *oracleBlock, op *oracleOp, chunk map[string]any) (gpu int, places []int) {
	gpu, buffer := b.gpu, chunk["type"]
	if id, ok := chunk["buffer_id"]; ok {
		var ids []any
		for _, r := range list(b.doc, "remote_buffer_refs") {
			if object(r)["access_channel_type"] == op.doc["channel_type"] {
				ids = append(ids, list(object(r), "remote_buffer_ids")...)
			}
		}
		remote := object(list(object(o.gpus[gpu]), "remote_buffers")[int(ids[int(id.(float64))].(float64))])
		gpu, buffer = number(remote, "rank"), remote["type"]
	}
	if _, ok := chunk["switch_channel_id"]; ok {
		for _, c := range list(object(o.gpus[gpu]), "channels") {
			if x := object(c); x["channel_type"] == "switch" {
				buffer = x["buffer_type"]
				if buffer == nil {
					buffer = x["buff"]
				}
			}
		}
	}
	from, n := number(chunk, "index")*perChunk, number(chunk, "size")*perChunk
	if g := object(op.doc["tbg_info"]); g != nil {
		n /= number(g, "tbg_size")
		from += n * number(g, "tb_id")
	}
	if op.unit > 0 {
		from, n = from+op.from, max(min(op.unit, n-op.from), 0)
	}
	for i := range n {
		places = append(places, o.base[gpu][buffer.(string)]+from+i)
	}
	return gpu, places
}

// channel names channel n of an operation from both ends.
func (o *oracle) channel(b *oracleBlock, op *oracleOp, n int) (out, in string, peer int) {
	kind := op.doc["channel_type"]
	var ids, peers []any
	for _, c := range list(b.doc, "channels") {
		if object(c)["channel_type"] == kind {
			ids = append(ids, list(object(c), "channel_ids")...)
		}
	}
	for _, c := range list(object(o.gpus[b.gpu]), "channels") {
		if object(c)["channel_type"] == kind {
			peers = append(peers, list(object(c), "connected_to")...)
		}
	}
	id := int(ids[n].(float64))
	peer = int(peers[id].(float64))
	k := 0
	for _, x := range peers[:id] {
		if x == peers[id] {
			k++
		}
	}
	return fmt.Sprint(peer, b.gpu, kind, k), fmt.Sprint(b.gpu, peer, kind, k), peer
}

func (o *oracle) channels(op *oracleOp) (out []int) {
	for _, x := range list(op.doc, "channel_ids") {
		out = append(out, int(x.(float64)))
	}
	return out
}

func (o *oracle) ready(b *oracleBlock) bool {
	op := &b.ops[b.next]
	switch name := op.doc["name"]; name {
	case "wait", "rlxwait":
		for _, n := range o.channels(op) {
			if _, in, _ := o.channel(b, op, n); o.counts[in] <= o.taken[in] {
				return false
			}
		}
	case "sem_acquire":
		for _, x := range list(op.doc, "semaphore_ids") {
			if o.sems[fmt.Sprint(b.gpu, x)] == 0 {
				return false
			}
		}
	case "barrier":
		key, all := fmt.Sprint(b.gpu, op.doc["barrier_id"]), number(op.doc, "num_threadblocks")
		if b.target == 0 {
			b.flush()
			b.target = (o.meet[key]/all + 1) * all
			o.meet[key]++
		}
		return o.meet[key] >= b.target
	case "upkt", "rppkt", "gstorepkt", "repkt", "respkt", "recpkt", "recspkt":
		src := list(op.doc, "src_buff")
		if slices.Contains([]any{"repkt", "respkt", "recpkt", "recspkt"}, name) {
			src = src[1:]
		}
		for _, c := range src {
			gpu, cells := o.cells(b, op, object(c))
			for _, p := range cells {
				if !o.flags[gpu][p] {
					return false
				}
			}
		}
	}
	return true
}

func (o *oracle) do(b *oracleBlock) {
	op := &b.ops[b.next]
	b.next++
	b.target = 0
	name := op.doc["name"].(string)
	switch name {
	case "wait", "rlxwait":
		for _, n := range o.channels(op) {
			_, in, _ := o.channel(b, op, n)
			o.taken[in]++
		}
	case "sem_acquire":
		for _, x := range list(op.doc, "semaphore_ids") {
			o.sems[fmt.Sprint(b.gpu, x)]--
		}
	case "sem_release":
		b.flush()
		for _, x := range list(op.doc, "semaphore_ids") {
			o.sems[fmt.Sprint(b.gpu, x)]++
		}
	case "rlxsignal":
		for _, n := range o.channels(op) {
			out, _, _ := o.channel(b, op, n)
			o.counts[out]++
		}
	case "signal":
		o.signal(b, op)
	case "nop", "flush", "barrier":
	default:
		o.move(b, op, name)
		if name == "pws" || name == "pwsf" {
			o.signal(b, op)
		}
	}
}

// signal sends signals behind what was stored before.
func (o *oracle) signal(b *oracleBlock, op *oracleOp) {
	for _, n := range o.channels(op) {
		out, _, peer := o.channel(b, op, n)
		for other := range b.pending {
			for other != peer && len(b.pending[other]) > 0 {
				b.deliver(other)
			}
		}
		b.pending[peer] = append(b.pending[peer], func() { o.counts[out]++ })
	}
}

// move moves data: the sum of the sources to all destinations, or each source to its own.
func (o *oracle) move(b *oracleBlock, op *oracleOp, name string) {
	src, dst := list(op.doc, "src_buff"), list(op.doc, "dst_buff")
	var values []int
	add := func(from []int, gpu int) {
		for i, p := range from {
			if i == len(values) {
				values = append(values, 0)
			}
			values[i] += o.mem[gpu][p]
		}
	}
	switch name {
	case "put", "pws", "pwsf", "ppkt", "get":
		for i := range dst {
			values = nil
			gpu, from := o.cells(b, op, object(src[min(i, len(src)-1)]))
			add(from, gpu)
			o.store(b, op, object(dst[i]), values, name == "ppkt", false)
		}
		return
	case "glres":
		_, from := o.cells(b, op, object(src[0]))
		for gpu := range o.gpus {
			add(from, gpu)
		}
	default:
		for _, c := range src {
			gpu, from := o.cells(b, op, object(c))
			add(from, gpu)
		}
	}
	packets := slices.Contains([]string{"cpkt", "rppkt", "gstorepkt"}, name)
	for i, c := range dst {
		o.store(b, op, object(c), slices.Clone(values), packets || len(name) > 3 && i > 0 &&
			name[len(name)-3:] == "pkt", name[0] == 'g' && name != "get")
	}
}

// store stores values, in another GPU's memory later. wide is for all GPUs.
func (o *oracle) store(b *oracleBlock, op *oracleOp, chunk map[string]any, values []int, packets, wide bool) {
	to, places := o.cells(b, op, chunk)
	for gpu := range o.gpus {
		if gpu != to && !wide {
			continue
		}
		write := func() {
			for i, p := range places {
				o.mem[gpu][p] = values[i]
				o.flags[gpu][p] = o.flags[gpu][p] || packets
			}
		}
		if gpu == b.gpu {
			write()
		} else {
			b.pending[gpu] = append(b.pending[gpu], write)
		}
	}
}

// wrong counts the elements of the outputs that are not what the collective must give.
func (o *oracle) wrong(coll string) (n int) {
	all := len(o.gpus)
	for gpu := range o.gpus {
		g := object(o.gpus[gpu])
		in, out := number(g, "input_chunks")*perChunk, number(g, "output_chunks")*perChunk
		sum := func(i int) (s int) {
			for r := range all {
				s += input(r, i)
			}
			return s
		}
		for i := range max(out, map[bool]int{true: in}[coll == "allreduce"]) {
			want := 0
			switch coll {
			case "allreduce":
				want = sum(i)
			case "reducescatter":
				want = sum(gpu*out + i)
			case "allgather":
				want = input(i/in, i%in)
			case "alltoall":
				share := in / all
				want = input(i/share, gpu*share+i%share)
			}
			if o.mem[gpu][o.base[gpu]["o"]+i] != want {
				n++
			}
		}
	}
	return n
}
