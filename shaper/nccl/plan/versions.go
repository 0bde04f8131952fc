// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Versions are the versions of NCCL whose schedules the model knows. Older versions divide calls differently.
const Versions = "2.22.3 to 2.30"

// firstUnknown is the first version after them, in ncclGetVersion's numbering.
const firstUnknown = 23100

// rules are all that differs between versions in what NCCL does.
type rules struct {
	// How a call is divided among channels.
	minTraffic uint64 // minimum traffic of a channel in bytes
	coarse     bool   // cells hold minTraffic, not 16 bytes
	llFourfold bool   // LL counts for four times its traffic
	rounded    bool   // the traffic per channel is rounded to 16 bytes and has no minimum

	chunks [Simple + 1]chunkRule // by protocol

	nvlsAlign uint64 // the chunks of the last loop of NVLS are rounded up to so many bytes

	lines [Simple + 1]line // of the messages of LL and LL128

	pat            bool // the schedule of PAT is known
	broadcastTasks bool // the broadcasts of a group are collected apart from the other collectives
	hashOrder      bool // a group's kernels start in the order of the hashes of their communicators, not of their calls

	sends sendRules
}

// chunkRule is how much of a buffer of a protocol is data: so many bytes of each of bytes, in multiples of grain.
type chunkRule struct{ data, of, grain uint64 }

// line is what messages of a protocol are made of: bytes, of which data are the program's.
type line struct{ data, bytes uint64 }

// wire is the size of a message with n bytes of data.
func (l line) wire(n uint64) uint64 { return divUp(n, l.data) * l.bytes }

// payload is how much data a message of so many bytes has.
func (l line) payload(bytes uint64) uint64 { return bytes * l.data / l.bytes }

// sendRules are how sends and receives are served, and divided among channels and messages. A step is a slot of a
// connection's buffer.
type sendRules struct {
	unknown bool // their schedule is not known
	group   int  // ranks of a node that serve their peers together, see groupSchedule; 0: those of a node do

	within, between partRule // if all ranks are on one node, and if not
	chunks          [Simple + 1][]sendChunk

	llThreshold   int  // the most bytes per channel that go by LL
	partsBeforeLL bool // a message is divided among channels before its protocol is selected
}

// partRule limits the parts of a message, in halves, quarters and so on of a step, and in steps.
type partRule struct{ smallest, largest uint64 }

// sendChunk divides the chunk of messages that are shorter than so many steps. The first one that fits is right.
type sendChunk struct{ below, divisor uint64 }

// knownSends says for which versions the schedules of sends and receives are known.
const knownSends = "2.22.3 to 2.27 and from 2.28.9 on"

// versions are the differences: what each version has changed since the one before it. They are from the source of
// v2.22.3 to v2.30.7.
var versions = []struct {
	since  int // as in ncclGetVersion
	change func(r *rules)
}{
	{22203, func(r *rules) {
		r.minTraffic, r.nvlsAlign = 512, 16
		r.chunks = [...]chunkRule{
			LL:     {LLData, LLLine, LLLine},
			LL128:  {ll128Line - 1, ll128Line, LL128Payload},
			Simple: {1, 1, simpleGrain},
		}
		r.lines = [...]line{LL: {LLData, LLLine}, LL128: {LL128Payload, LL128Slice}, Simple: {1, 1}}
		r.sends = sendRules{
			within:      partRule{8, 32},
			between:     partRule{2, 1},
			chunks:      [...][]sendChunk{LL: {{8, 2}}, Simple: {{1, 4}, {8, 2}}},
			llThreshold: 16 << 10,
		}
	}},
	{22300, func(r *rules) { r.minTraffic, r.coarse = 16<<10, true }},
	{22600, func(r *rules) { r.llFourfold = true }},
	{22602, func(r *rules) { r.pat, r.hashOrder = true, true }},
	{22800, func(r *rules) { r.sends.unknown = true }},
	{22809, func(r *rules) { r.sends.unknown, r.sends.group = false, 8 }},
	{22900, func(r *rules) {
		r.minTraffic, r.rounded, r.sends.partsBeforeLL = 32<<10, true, true
		r.nvlsAlign = 16 << 10
	}},
	{22902, func(r *rules) { r.broadcastTasks = true }},
}

// StartsByHash says whether a version starts the kernels of a group in the order of the hashes of their communicators.
// Those before it start them in the order of their first calls.
func StartsByHash(version int) (bool, error) {
	r, err := rulesOf(version)
	return r.hashOrder, err
}

// rulesOf returns the rules of a version in ncclGetVersion's numbering.
func rulesOf(version int) (rules, error) {
	if version < versions[0].since || version >= firstUnknown {
		return rules{}, fmt.Errorf("NCCL version %s: the model knows %s", nccl.VersionText(version), Versions)
	}
	var r rules
	for _, v := range versions {
		if version >= v.since {
			v.change(&r)
		}
	}
	return r, nil
}
