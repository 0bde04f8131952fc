// SPDX-License-Identifier: Apache-2.0

// Package report sums what a job has sent for a page that people look at: the fabric with the load of each
// link over time, which ranks sent to which, and where the time of each call went.
package report

import (
	"encoding/json"

	"github.com/ddlemu/ddlemu/configs"
)

// Format is the name of the document. A change of what a field means changes the number.
const Format = "ddlemu.report/1"

// Data is the document that the page shows. Times are ns of the emulated network, without the time scale,
// from the first thing that was recorded.
type Data struct {
	Format    string    `json:"format"`
	Version   string    `json:"version"` // of ddlemu
	Jobs      []string  `json:"jobs"`
	Clock     string    `json:"clock"`
	TimeScale int64     `json:"time_scale"`
	Span      int64     `json:"span_ns"`
	Notes     []string  `json:"notes"`
	Outcomes  []Outcome `json:"outcomes"` // of the jobs that have one
	Fabric    Map       `json:"fabric"`
	// InForce is what the fabric had in force when the job began.
	InForce   configs.InForce `json:"fabric_in_force"`
	Changes   []Change        `json:"changes"` // of ports and links after the begin, in their order
	Ranks     []Rank          `json:"ranks"`
	Functions []Function      `json:"functions"` // the longest first
	Causes    []Cause         `json:"causes"`
	// what took most of the time of all calls; none if no call took time
	Bottleneck *Bottleneck `json:"bottleneck,omitempty"`
	Upgrades   Upgrades    `json:"upgrades"`
	Calls      []CallTime  `json:"calls"` // in the order of their starts
	AllCalls   int         `json:"all_calls"`
	Load       Load        `json:"load"`
	Messages   Messages    `json:"messages"`
}

// Outcome is what a job's command printed at its end: the verdict, and the rows of bench.
type Outcome struct {
	Job int `json:"job"` // place in Jobs
	// as `ddlemu bench --json` or `ddlemu replay --json` prints it; of `ddlemu run` without rows
	Result json.RawMessage `json:"result"`
}

// Map is the fabric as a graph with places.
type Map struct {
	Drawing
	// all of the fabric on which something happened, and all ports and links between switches
	Hops []HopTraffic `json:"hops"`
}

// Drawing is the NICs and switches of a fabric with their places. The unit is a pixel.
type Drawing struct {
	Name     string   `json:"name"`
	Width    float64  `json:"width"`
	Height   float64  `json:"height"`
	Vertices []Vertex `json:"vertices"`
	// With racks, each NIC is a box of the size Port; without, it is a circle.
	Racks  []Frame    `json:"racks,omitempty"`
	Port   [2]float64 `json:"port"` // width and height
	Switch [2]float64 `json:"switch_size"`
}

// Frame is a rack: a box with the nodes in it. X and Y are its left upper corner.
type Frame struct {
	X        float64     `json:"x"`
	Y        float64     `json:"y"`
	Width    float64     `json:"width"`
	Height   float64     `json:"height"`
	Switches []int       `json:"switches"` // to which its nodes have ports: places in Vertices
	Nodes    []FrameNode `json:"nodes"`
}

// FrameNode is the name of a node in a rack, and the place of its left end.
type FrameNode struct {
	Node int     `json:"node"`
	Name string  `json:"name"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
}

// Vertex is a NIC or a switch.
type Vertex struct {
	Name   string  `json:"name"`
	Switch bool    `json:"switch"`
	Node   int     `json:"node"` // of a NIC
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
}

// HopTraffic is what a port of a NIC or a link carried. Its load is the entry of Load with the same place.
type HopTraffic struct {
	Line         // as it was at the begin; Down also if it was down later
	Bytes uint64 `json:"bytes"`
	Busy  int64  `json:"busy_ns"`
	Again uint64 `json:"packets_sent_again"`
	// Changes are its parameters after the begin, each until the next one.
	Changes []HopChange `json:"changes,omitempty"`
}

// HopChange is the parameters of a port or link from a time on.
type HopChange struct {
	Time      int64   `json:"time_ns"`
	What      string  `json:"what"`          // what was changed, old and new
	Bandwidth float64 `json:"bandwidth_bps"` // 0 is unlimited
	Latency   int64   `json:"latency_ns"`
	Loss      bool    `json:"loss"`
	Down      bool    `json:"down"`
}

// Change is what was changed of ports and links at a time.
type Change struct {
	Time int64  `json:"time_ns"`
	Text string `json:"text"`
	Hops []int  `json:"hops"` // places in Map.Hops; a link between NICs that carried nothing has none
}

// Line is how a port or link is drawn, and how it is set: at the begin of a report, or now.
type Line struct {
	Name      string  `json:"name"`
	From      int     `json:"from"` // place in Vertices; -1: it is not drawn
	To        int     `json:"to"`
	Bandwidth float64 `json:"bandwidth_bps"` // 0 is unlimited
	Latency   int64   `json:"latency_ns"`
	Loss      bool    `json:"loss"`
	Down      bool    `json:"down"`
}

// Rank is a rank of a job.
type Rank struct {
	Job  int `json:"job"` // place in Jobs
	Rank int `json:"rank"`
	Node int `json:"node"`
}

// Function is the calls of one function.
type Function struct {
	Name     string  `json:"name"`
	Calls    int     `json:"calls"`
	Time     int64   `json:"time_ns"`
	Messages int     `json:"messages"`
	Bytes    uint64  `json:"bytes"`
	Parts    []Part  `json:"parts"`   // the largest first
	Traffic  []Pair  `json:"traffic"` // who sent how much to whom
	Sizes    []Class `json:"sizes"`
}

// Pair is what one rank sent to another. Ranks are places in Data.Ranks.
type Pair struct {
	From     int    `json:"from"`
	To       int    `json:"to"`
	Messages int    `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Class is the messages of more than half of Most bytes, up to Most.
type Class struct {
	Most     uint64 `json:"most"`
	Messages int    `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Cause is why time passed.
type Cause struct {
	Kind string `json:"kind"` // as of `ddlemu why --json`
	Text string `json:"text"`
	Link string `json:"link,omitempty"` // if it is about one; of what waits for a congested link, that one
}

// Bottleneck is a link, or a kind of cause.
type Bottleneck struct {
	Text  string   `json:"text"` // as `ddlemu why` says it
	Link  string   `json:"link,omitempty"`
	Alike []string `json:"alike,omitempty"` // links within 2 % of Link, itself included
	Kind  string   `json:"kind,omitempty"`  // as in Cause
	Links int      `json:"links,omitempty"` // on how many ports and links a cause of this kind was
	Time  int64    `json:"time_ns"`
	All   int64    `json:"all_ns"` // of all calls
}

// Part is a time with one cause, a place in Data.Causes.
type Part struct {
	Cause int   `json:"cause"`
	Time  int64 `json:"time_ns"`
}

// CallTime is where the time of a call went.
type CallTime struct {
	Function int    `json:"function"` // place in Functions
	Sequence int    `json:"sequence"`
	Job      int    `json:"job"`
	Start    int64  `json:"start_ns"`
	Time     int64  `json:"time_ns"`
	Ended    bool   `json:"ended"` // false: Time is until the ledgers end, and LastRank waits for a message
	Bytes    uint64 `json:"bytes"`
	Messages int    `json:"messages"`
	LastRank string `json:"last_rank"`
	Parts    []Part `json:"parts"`          // the largest first
	Path     []Part `json:"path,omitempty"` // of the longest calls: the same time in its order
}

// Upgrades are what `ddlemu whatif` says of faster links. There are none if no call has ended.
type Upgrades struct {
	Advice string    `json:"advice,omitempty"`
	Notes  []string  `json:"notes"` // what the times do not rest on
	List   []Upgrade `json:"list"`
}

// Upgrade is a change of links. The times are from the start of the first call to the end of the last one.
type Upgrade struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`  // as of `ddlemu whatif --json`
	Links   []string `json:"links"` // as patterns of links: a cable is one, a NIC is one
	Advised bool     `json:"advised"`
	Before  int64    `json:"before_ns"`
	After   int64    `json:"after_ns"`
	Gain    float64  `json:"gain"` // -0.2 is a fifth less time
	// The same if the ranks computed during their calls too; before, if they computed only when a call had ended.
	During     int64   `json:"after_during_ns"`
	GainDuring float64 `json:"gain_during"`
	Difference string  `json:"difference"` // for people: one gain, or both
}

// Load is what each hop of Map.Hops did in each window of time.
type Load struct {
	Window int64      `json:"window_ns"`
	Hops   []HopLoads `json:"hops"`
}

// HopLoads are the windows of one hop; empty if nothing happened.
type HopLoads struct {
	Busy  []int    `json:"busy"`           // per mille of each window
	Queue []int64  `json:"queue"`          // the most bytes that waited in each
	Down  []Period `json:"down,omitempty"` // when it was down
}

// Period is a time from its begin to its end.
type Period [2]int64

// Messages is messages in columns, in the order of their posts.
type Messages struct {
	All      int      `json:"all"`
	Arrived  int      `json:"arrived"` // of these, those with the longest transfers are here
	Call     []int    `json:"call"`
	From     []int    `json:"from"` // places in Data.Ranks
	To       []int    `json:"to"`
	Bytes    []uint64 `json:"bytes"`
	Posted   []int64  `json:"posted_ns"`
	Transfer []int64  `json:"transfer_ns"` // from the sender's post to the last byte
	Waited   []int64  `json:"waited_ns"`   // its first segment, on all its hops
	Again    []uint64 `json:"packets_sent_again"`
}
