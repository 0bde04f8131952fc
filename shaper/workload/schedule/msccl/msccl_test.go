// SPDX-License-Identifier: Apache-2.0

package msccl_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// pair is an all-reduce of two GPUs. attrs are those of <algo> behind inplace; comments and copy go into GPU 0.
func pair(attrs, inside string) string {
	gpu := func(id, peer, own, other string) string {
		return `<gpu id="` + id + `" i_chunks="2" o_chunks="0" s_chunks="0">` + inside + `<tb id="0" send="` + peer +
			`" recv="` + peer + `" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="` + other + `" dstbuf="i" dstoff="` + other + `" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="rrcs" srcbuf="i" srcoff="` + own + `" dstbuf="i" dstoff="` + own + `" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="2" type="r" srcbuf="i" srcoff="` + other + `" dstbuf="i" dstoff="` + other + `" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb></gpu>`
	}
	return `<algo name="pair" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1"` +
		attrs + ">\n" +
		gpu("0", "1", "0", "1") + gpu("1", "0", "1", "0") + "</algo>"
}

const sizes = ` outofplace="0" minBytes="0" maxBytes="0"`

func read(t *testing.T, text string) *schedule.Schedule {
	t.Helper()
	s, err := msccl.Read(strings.NewReader(text), "x.xml", "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustBeGood(t *testing.T, s *schedule.Schedule) {
	t.Helper()
	r, err := check.Check(s)
	if err != nil || !r.Good() {
		t.Errorf("%v, %+v", err, r)
	}
}

// SCCL's files of 2021 do not say where the result is.
func TestWithoutInPlace(t *testing.T) {
	s := read(t, strings.Replace(pair("", ""), ` inplace="1"`, "", 1))
	if s.InPlace || !s.OutOfPlace ||
		!strings.Contains(strings.Join(s.Warnings, "\n"),
			"<algo> has no inplace: MSCCL's executor refuses such a file") {
		t.Errorf("in place %v, %q", s.InPlace, s.Warnings)
	}
}

func TestDialects(t *testing.T) {
	for name, tc := range map[string]struct{ text, warning string }{
		"MSCCL":           {pair(sizes, ""), ""},
		"old msccl-tools": {pair("", ""), "outofplace, minBytes, maxBytes"},
		"RCCL with comments": {"<!-- a licence -->\n" + pair(sizes+` maxcount="1" nthreadblocks="24"`,
			"<!-- block 0 -->"), ""},
		"without ngpus":    {strings.Replace(pair(sizes, ""), ` ngpus="2"`, "", 1), "has no ngpus"},
		"XML declaration":  {`<?xml version="1.0"?>` + pair(sizes, ""), ""},
		"ASCII":            {`<?xml version='1.0' encoding='us-ascii'?>` + pair(sizes, ""), ""},
		"byte order mark":  {"\ufeff" + pair(sizes, ""), ""},
		"TE-CCL":           {pair(sizes+` redop="nop"`, `<copy i_off="0" o_off="0"/>`), ""},
		"too few channels": {strings.Replace(pair(sizes, ""), `chan="0"`, `chan="3"`, 1), "nchannels is 1"},
		"msccl-tools' own": {strings.Replace(pair(sizes, ""), `coll="allreduce"`, `coll="alltonext"`, 1),
			"taken for custom"},
		"a block of copies": {
			strings.Replace(pair(sizes, ""), "</tb></gpu>", `</tb><tb id="1" send="-1" recv="-1" chan="-1"></tb></gpu>`,
				1), ""},
		"own attribute": {strings.Replace(pair(sizes, ""), `cnt="1"`, `cnt="1" colour="red"`, 1),
			`<step> has attribute "colour", which is not known: it is ignored`},
		"no dependencies": {strings.Replace(pair(sizes, ""), ` depid="-1" deps="-1"`, "", 1),
			"a <step> has no depid: MSCCL's executor refuses such a file"},
		"alias of a collective": {strings.Replace(pair(sizes, ""), "allreduce", "all_reduce", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, tc.text)
			if got := strings.Join(s.Warnings, "\n"); (tc.warning == "") != (got == "") ||
				!strings.Contains(got, tc.warning) {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
			if name != "too few channels" {
				mustBeGood(t, s)
			}
			if s.Coll != schedule.AllReduce && name != "msccl-tools' own" || !s.InPlace || s.OutOfPlace ||
				s.Steps() != 6 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A file without coll is for the collective that the caller says.
func TestNoCollective(t *testing.T) {
	text := strings.Replace(pair(sizes, ""), ` coll="allreduce"`, "", 1)
	s, err := msccl.Read(strings.NewReader(text), "x.xml", schedule.AllReduce)
	if err != nil || s.Coll != schedule.AllReduce ||
		!strings.Contains(strings.Join(s.Warnings, "\n"), "it is taken for allreduce") {
		t.Errorf("%v, %+v", err, s)
	}
}

// Newer msccl-tools write <op> with one chunk, and leave out what is not needed.
func TestNewerTools(t *testing.T) {
	s := read(t, `<algo name="ag" proto="LL" nchannels="1" ngpus="2" coll="allgather" inplace="1">
<gpu id="0" i_chunks="0" o_chunks="2" s_chunks="0"><tb id="0" send="1" recv="1" chan="0">
<op step="0" type="s" buf="o" off="0"/><op step="1" type="r" buf="o" off="1"/></tb></gpu>
<gpu id="1" i_chunks="0" o_chunks="2" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">
<op step="0" type="s" buf="o" off="1"/><op step="1" type="r" buf="o" off="0"/></tb></gpu></algo>`)
	mustBeGood(t, s)
	if s.LoopChunks != 2 || s.Proto != schedule.LL {
		t.Errorf("%d chunks, %s", s.LoopChunks, s.Proto)
	}
}

func TestRefusals(t *testing.T) {
	good := pair(sizes, "")
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, tc := range map[string]struct{ text, want string }{
		"empty":      {"", "x.xml:1: no <algo>"},
		"JSON":       {`{"a": 1}`, "not MSCCL's XML"},
		"cut":        {good[:len(good)/2], "x.xml:5: the file ends in the middle: it was cut"},
		"other root": {"<system/>", "<system>"},
		"two":        {good + good, "a file has one schedule"},
		"step type":  {with(`type="rrcs"`, `type="zap"`), `x.xml:4: <step>: type "zap" is not known`},
		"no collective": {with(` coll="allreduce"`, ""),
			"x.xml:1: <algo>: attribute coll is missing: say with --coll"},
		"twice":       {with(`cnt="1"`, `cnt="1" cnt="1"`), "twice"},
		"huge number": {with(`cnt="1"`, `cnt="99999999999999999999"`), "must be a number from 0 to"},
		"huge GPUs":   {with(`ngpus="2"`, `ngpus="2000000000"`), "ngpus"},
		"peer":        {with(`send="1"`, `send="7"`), "send"},
		"no channel":  {with(`chan="0"`, `chan="-1"`), "has peers, but no channel"},
		"own peer":    {with(`send="1"`, `send="0"`), "its own GPU as a peer"},
		"buffer":      {with(`srcbuf="i"`, `srcbuf="q"`), "must be i, o or s"},
		"order":       {with(` s="1"`, ` s="2"`), "numbered from 0"},
		"block":       {with(`tb id="0"`, `tb id="1"`), "none with id 0"},
		"GPU":         {with(`gpu id="1"`, `gpu id="0"`), "GPU 0 is there twice"},
		"peer not there": {strings.Replace(with(` ngpus="2"`, ""), `send="1"`, `send="7"`, 1),
			"block 0 of GPU 0 has GPU 7 as a peer: there are 2"},
		"GPU not there": {strings.Replace(with(` ngpus="2"`, ""), `gpu id="1"`, `gpu id="3"`, 1),
			"GPU 1 of 4 is missing"},
		"missing GPU": {with(`ngpus="2"`, `ngpus="3"`), "GPU 2 of 3 is missing"},
		"collective": {with("allreduce", "allreduce2"),
			`"allreduce2" is not a collective: did you mean all_reduce?`},
		"protocol":        {with("Simple", "simple"), "must be Simple, LL or LL128"},
		"half dependency": {with(`depid="-1"`, `depid="0"`), "both name a step"},
		"sends to nobody": {with(`send="1"`, `send="-1"`), "sends to nobody"},
		"no source":       {with(`srcoff="1"`, `srcoff="-1"`), "has no source"},
		"flag":            {with(`inplace="1"`, `inplace="2"`), "must be 0 or 1"},
		"missing":         {with(` nchunksperloop="2"`, ""), "no nchunksperloop"},
		"sizes":           {with(`minBytes="0" maxBytes="0"`, `minBytes="9" maxBytes="8"`), "below minBytes"},
		"child":           {with("<tb", "<note/><tb"), "<note> inside <gpu>"},
		"long attribute":  {with(`name="pair"`, `name="`+strings.Repeat("x", 5000)+`"`), "5000 bytes"},
		"copy op": {with(`<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1"`,
			`<op step="0" type="cpy" buf="i" off="1"`), "does not say where the source is"},
		"entities":       {`<!DOCTYPE a [<!ENTITY b "cccc"><!ENTITY d "&b;&b;&b;&b;">]>` + good, "document type"},
		"encoding":       {`<?xml version="1.0" encoding="koi8-r"?>` + good, `encoding "koi8-r": must be UTF-8`},
		"unknown entity": {with(`name="pair"`, `name="&boom;"`), "x.xml:1: "},
		"chunks per GPU": {strings.Replace(with("allreduce", "allgather"), `nchunksperloop="2"`,
			`nchunksperloop="3"`, 1), "multiple of the number of GPUs"},
		"text":              {with("<tb", "hello <tb"), `text "hello"`},
		"many attributes":   {with(`name="pair"`, strings.Repeat(` a="1"`, 30)), "attributes"},
		"step without type": {with(` type="s"`, ""), "type"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := msccl.Read(strings.NewReader(tc.text), "x.xml", "")
			if err == nil {
				t.Fatalf("read as %+v", s)
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want %q in one line", err, tc.want)
			}
		})
	}
}

// endless repeats a step for ever.
type endless struct {
	head string
	sent int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.head)
	e.head = e.head[n:]
	const step = `<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="-1" deps="-1" hasdep="0"/>`
	for n == 0 || n < len(p)-len(step) {
		n += copy(p[n:], step)
	}
	e.sent += int64(n)
	return n, nil
}

// A file without an end is refused early: its steps have wrong numbers; with a long text its size is limited.
func TestEndless(t *testing.T) {
	head, _, _ := strings.Cut(pair(sizes, ""), "<step")
	if _, err := msccl.Read(&endless{head: head}, "x.xml", ""); err == nil ||
		!strings.Contains(err.Error(), "numbered from 0") {
		t.Error(err)
	}
	in := &endless{head: "<!-- "}
	const most = 1 << 20
	if _, err := msccl.ReadUpTo(in, "x.xml", "", most); err == nil ||
		!strings.Contains(err.Error(), "larger than 1048576 bytes") || in.sent > 2*most {
		t.Errorf("%v after %d bytes", err, in.sent)
	}
}

// What is written is read again, equal.
func TestRoundTrip(t *testing.T) {
	for _, coll := range []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce} {
		for name, make := range map[string]func(mk.Options) (*schedule.Schedule, error){"ring": mk.Ring,
			"allpairs": mk.AllPairs, "tree": mk.BinaryTree} {
			s, err := make(mk.Options{Coll: coll, GPUs: 5, K: 2, Grain: 4096})
			if err != nil {
				t.Fatal(err)
			}
			s.Name = `quotes " & <tags>`
			roundTrip(t, name, s)
		}
	}
	s := read(t, pair(sizes, `<copy i_off="0" o_off="1"/>`))
	roundTrip(t, "copies", s)
}

func roundTrip(t *testing.T, name string, s *schedule.Schedule) {
	t.Helper()
	var out bytes.Buffer
	if err := msccl.Write(&out, s); err != nil {
		t.Fatal(err)
	}
	again := read(t, out.String())
	for _, x := range []*schedule.Schedule{s, again} {
		for g := range x.GPUs {
			for b := range x.GPUs[g].Blocks {
				x.GPUs[g].Blocks[b].Line = 0
				for k := range x.GPUs[g].Blocks[b].Steps {
					x.GPUs[g].Blocks[b].Steps[k].Line = 0
				}
			}
		}
	}
	if !reflect.DeepEqual(s, again) {
		t.Errorf("%s: %+v is read again as %+v", name, s, again)
	}
}

// Whatever is read can be checked, cut and written.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{pair(sizes, ""), pair("", "<!-- x -->"), pair(sizes, `<copy i_off="0" o_off="1"/>`),
		"<algo", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := msccl.Read(bytes.NewReader(data), "x.xml", "")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has several lines", err)
			}
			return
		}
		if s.LoopChunks*len(s.GPUs) < 1<<16 { // more takes seconds
			if _, err := check.Check(s); err != nil {
				t.Log(err)
			}
		}
		if _, err := s.Cut(1<<20, 4); err != nil {
			t.Log(err)
		}
		var out bytes.Buffer
		if err := msccl.Write(&out, s); err != nil {
			t.Fatal(err)
		}
		if _, err := msccl.Read(&out, "y.xml", ""); err != nil {
			t.Errorf("what was written is refused: %v", err)
		}
	})
}
