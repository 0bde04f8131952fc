// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

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

	pat            bool // the schedule of PAT is known
	broadcastTasks bool // the broadcasts of a group are collected apart from the other collectives

	// Sends and receives.
	unknownSends  bool // their schedule is not known
	groupedSends  bool // ranks serve their peers in groups of a node's ranks, see groupSchedule
	partsBeforeLL bool // a message is divided among channels before its protocol is selected
}

// chunkRule is how much of a buffer of a protocol is data: so many bytes of each of bytes, in multiples of grain.
type chunkRule struct{ data, of, grain uint64 }

// versions are the differences: what each version has changed since the one before it. They are from the source of
// v2.22.3 to v2.30.7.
var versions = []struct {
	since  int // as in ncclGetVersion
	change func(r *rules)
}{
	{22203, func(r *rules) {
		r.minTraffic = 512
		r.chunks = [...]chunkRule{
			LL:     {LLData, LLLine, LLLine},
			LL128:  {ll128Line - 1, ll128Line, LL128Payload},
			Simple: {1, 1, simpleGrain},
		}
	}},
	{22300, func(r *rules) { r.minTraffic, r.coarse = 16<<10, true }},
	{22600, func(r *rules) { r.llFourfold = true }},
	{22602, func(r *rules) { r.pat = true }},
	{22800, func(r *rules) { r.unknownSends = true }},
	{22809, func(r *rules) { r.unknownSends, r.groupedSends = false, true }},
	{22900, func(r *rules) { r.minTraffic, r.rounded, r.partsBeforeLL = 32<<10, true, true }},
	{22902, func(r *rules) { r.broadcastTasks = true }},
}

// rulesOf returns the rules of a version in ncclGetVersion's numbering.
func rulesOf(version int) (rules, error) {
	if version < versions[0].since || version >= firstUnknown {
		return rules{}, fmt.Errorf("NCCL version %s: the model knows %s", versionString(version), Versions)
	}
	var r rules
	for _, v := range versions {
		if version >= v.since {
			v.change(&r)
		}
	}
	return r, nil
}

func versionString(v int) string {
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}
