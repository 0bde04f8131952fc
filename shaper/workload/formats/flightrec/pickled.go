// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"fmt"
	"io"
	"math"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pickle"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// maxPickle is the memory that a pickle may need beside its entries, in bytes.
const maxPickle = 128 << 20

// pickle reads a dump as a pickle.
func (r *reader) pickle(in *input.Reader, d *Dump) error {
	stop := &stopper{Reader: in}
	var decoder *pickle.Decoder
	decoder = pickle.NewDecoder(stop, maxPickle, func(dict *pickle.Dict) bool {
		if dict.Get("profiling_name") == nil || dict.Get("retired") == nil {
			return false
		}
		if stop.why == nil {
			stop.why = decoder.Weigh(dict)
		}
		if stop.why == nil {
			stop.why = r.add(d, pickledRecord(dict))
		}
		return true
	})
	value, err := decoder.Read()
	if err == nil {
		err = decoder.Weigh(value)
	}
	if stop.why != nil {
		err = stop.why
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.File, err)
	}
	if list, ok := value.(*pickle.List); ok {
		return d.plainList(list)
	}
	top, ok := value.(*pickle.Dict)
	if !ok || top.Get("entries") == nil && top.Get("pg_config") == nil {
		return fmt.Errorf("%s: %w", d.File, errNoDump)
	}
	d.Version, _ = top.Get("version").(string)
	for _, key := range []string{"nccl_version", "comm_lib_version", "xccl_version"} {
		if text, ok := top.Get(key).(string); ok {
			d.Library = text
		}
	}
	if rank, ok := top.Get("rank").(int64); ok && rank >= 0 && rank < workload.MaxRanks {
		d.Rank = int(rank)
	}
	if config, ok := top.Get("pg_config").(*pickle.Dict); ok {
		for i, name := range config.Keys {
			d.pickledGroup(name, config.Values[i])
		}
	}
	for _, item := range items(top.Get("entries")) {
		if _, ok := item.(*pickle.Dict); ok {
			d.Unread++ // it lacks what each entry has
		}
	}
	return nil
}

// plainList ends the reading of a dump of PyTorch 2.2, which is the list of entries alone: NCCLTraceBuffer::dump in
// TraceUtils.h. Its entries have no record_id. A process group numbers its calls from 1, so the first number of each
// group says how many calls of that group the recorder has overwritten; it says nothing of a group of which no entry
// is left.
func (d *Dump) plainList(list *pickle.List) error {
	foreign := 0
	for _, item := range list.Items {
		if item != nil { // an entry leaves nil
			foreign++
		}
	}
	if d.Len()+d.Unread == 0 && foreign > 0 {
		return fmt.Errorf("%s: %w", d.File, errNoDump)
	}
	d.Unread += foreign
	overwritten := int64(0)
	seen := map[*GroupName]bool{}
	for i := range d.Len() {
		if e := d.At(i); !seen[e.Group] {
			seen[e.Group] = true
			overwritten += max(int64(e.Coll)-1, 0)
		}
	}
	for i := range d.Len() {
		d.At(i).Record += overwritten
	}
	d.Unnumbered = true
	return nil
}

// stopper is a reader that ends when there is a reason.
type stopper struct {
	io.Reader
	why error
}

func (s *stopper) Read(p []byte) (int, error) {
	if s.why != nil {
		return 0, s.why
	}
	return s.Reader.Read(p)
}

// pickledGroup reads a group of pg_config: a dict, before version 2 a list of ranks.
func (d *Dump) pickledGroup(name string, value any) {
	desc, list := "", value
	if config, ok := value.(*pickle.Dict); ok {
		desc, _ = config.Get("desc").(string)
		list = config.Get("ranks")
	}
	if text, ok := list.(string); ok {
		d.addGroup(name, desc, pytorch.ParseRanks(text, -1, 0, 0))
		return
	}
	var ranks workload.Ranks
	for _, item := range items(list) {
		r, ok := item.(int64)
		if !ok || r < 0 || r >= workload.MaxRanks {
			return
		}
		ranks = append(ranks, int(r))
	}
	d.addGroup(name, desc, ranks)
}

func items(v any) []any {
	if list, ok := v.(*pickle.List); ok {
		return list.Items
	}
	return nil
}

// pickledRecord is the record of an entry.
func pickledRecord(dict *pickle.Dict) *record {
	rec := &record{}
	ok := true
	integer := func(v any) int64 {
		n, is := v.(int64)
		ok = ok && (is || v == nil)
		return n
	}
	for i, key := range dict.Keys {
		v := dict.Values[i]
		switch key {
		case "record_id":
			n := integer(v)
			rec.Record = &n
		case "pg_id":
			rec.PG = integer(v)
		case "process_group":
			rec.Group = texts(v)
		case "collective_seq_id":
			n := integer(v)
			rec.Coll = &n
		case "p2p_seq_id":
			rec.P2P = integer(v)
		case "seq_id":
			rec.Seq = integer(v)
		case "profiling_name":
			rec.Name, _ = v.(string)
		case "time_created_ns":
			rec.Created = integer(v)
		case "time_created_us":
			rec.Plain, rec.Created = true, integer(v)
			ok = ok && rec.Created >= 0 && rec.Created <= math.MaxInt64/1000
			rec.Created *= 1000
		case "input_sizes":
			rec.In = shapes(v)
		case "input_dtypes":
			rec.InTypes = texts(v)
		case "output_sizes":
			rec.Out = shapes(v)
		case "output_dtypes":
			rec.OutTypes = texts(v)
		case "state":
			rec.State, _ = v.(string)
		case "retired":
			rec.Retired, _ = v.(bool)
		case "is_p2p":
			rec.IsP2P, _ = v.(bool)
		case "frames":
			rec.Frames = codeLines(v)
		}
	}
	rec.wrongTypes = !ok
	return rec
}

func texts(v any) (out []string) {
	for _, item := range items(v) {
		text, _ := item.(string)
		out = append(out, text)
	}
	return out
}

func shapes(v any) (out [][]int64) {
	for _, item := range items(v) {
		var size []int64
		for _, n := range items(item) {
			k, _ := n.(int64)
			size = append(size, k)
		}
		out = append(out, size)
	}
	return out
}

func codeLines(v any) (out []codeLine) {
	for _, item := range items(v) {
		if frame, ok := item.(*pickle.Dict); ok {
			var line codeLine
			line.Name, _ = frame.Get("name").(string)
			line.Filename, _ = frame.Get("filename").(string)
			line.Line, _ = frame.Get("line").(int64)
			out = append(out, line)
		}
	}
	return out
}
