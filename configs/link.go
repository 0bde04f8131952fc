// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// This file defines the parameters of a link for users. To add one, add a field to Link
// and LinkPatch, an entry to linkParams, and a key to LinkJSON. Files, flags, variables,
// validation and tables need no other change. The link model's half is in shaper/engine/link.

// Link is a directed pipe from one NIC to another.
type Link struct {
	Bandwidth units.Bandwidth `yaml:"bandwidth"` // line rate; Unlimited = bytes take no time
	Latency   time.Duration   `yaml:"latency"`   // one way, NIC to NIC
	Jitter    Jitter          `yaml:"jitter"`
	Loss      Loss            `yaml:"loss"`
	Queue     Queue           `yaml:"queue"`
	// a packet that finds more ahead of it in a queue is marked; 0 = never
	ECN     units.Size `yaml:"ecn,omitempty"`
	Reorder Reorder    `yaml:"reorder,omitempty"`

	// A packet carries MTU-Header bytes of payload and takes MTU+Framing bytes
	// of the line.
	MTU     int `yaml:"mtu"`
	Header  int `yaml:"header"`
	Framing int `yaml:"framing"`

	Up bool `yaml:"up"`
}

// LinkPatch is a change to a link: the fields that are not nil. It has the fields of
// Link in the same order.
type LinkPatch struct {
	Bandwidth *units.Bandwidth `yaml:"bandwidth,omitempty"`
	Latency   *time.Duration   `yaml:"latency,omitempty"`
	Jitter    *Jitter          `yaml:"jitter,omitempty"`
	Loss      *Loss            `yaml:"loss,omitempty"`
	Queue     *Queue           `yaml:"queue,omitempty"`
	ECN       *units.Size      `yaml:"ecn,omitempty"`
	Reorder   *Reorder         `yaml:"reorder,omitempty"`
	MTU       *int             `yaml:"mtu,omitempty"`
	Header    *int             `yaml:"header,omitempty"`
	Framing   *int             `yaml:"framing,omitempty"`
	Up        *bool            `yaml:"up,omitempty"`
}

// LinkJSON is a link's parameters as `ddlemu status --json` prints them. Keys may be
// added, none renamed.
type LinkJSON struct {
	BandwidthBps uint64  `json:"bandwidth_bps"` // 0 = unlimited
	LatencyNs    int64   `json:"latency_ns"`
	JitterNs     int64   `json:"jitter_ns"`
	Jitter       string  `json:"jitter"`
	Loss         float64 `json:"loss"` // long-run probability per packet
	LossModel    string  `json:"loss_model"`
	Queue        string  `json:"queue"`
	ECN          string  `json:"ecn"` // threshold, or none
	Reorder      string  `json:"reorder"`
	MTU          int     `json:"mtu"`
	Header       int     `json:"header"`
	Framing      int     `json:"framing"`
	Up           bool    `json:"up"`
}

// JSON is l as LinkJSON has it.
func (l *Link) JSON() LinkJSON {
	return LinkJSON{
		BandwidthBps: uint64(l.Bandwidth), LatencyNs: int64(l.Latency), JitterNs: int64(l.Jitter.Value),
		Jitter: l.Jitter.String(),
		Loss:   l.Loss.Mean(), LossModel: l.Loss.String(), Queue: l.Queue.String(), ECN: ecnText(l),
		Reorder: l.Reorder.String(),
		MTU:     l.MTU, Header: l.Header, Framing: l.Framing, Up: l.Up,
	}
}

// PortJSON is a port's parameters, as LinkJSON is a link's.
type PortJSON struct {
	BandwidthBps uint64 `json:"bandwidth_bps"`
	Queue        string `json:"queue"`
	ECN          string `json:"ecn"`
}

// PortJSON is the port l as PortJSON has it.
func (l *Link) PortJSON() PortJSON {
	j := l.JSON()
	return PortJSON{j.BandwidthBps, j.Queue, j.ECN}
}

// Port is the send or the receive port of a NIC whose links are like l. Packets wait
// at the receive port, so that one has the queue.
func (l *Link) Port(receive bool) Link {
	port := Link{
		Bandwidth: l.Bandwidth, MTU: l.MTU, Header: l.Header, Framing: l.Framing,
		Jitter: Jitter{Kind: NoJitter}, Queue: Queue{Policy: Lossless}, Up: true,
	}
	if receive {
		port.Queue, port.ECN = l.Queue, l.ECN
	}
	return port
}

// trunk is what a link between switches inherits from the fabric's link l.
func (l Link) trunk() Link {
	l.Jitter, l.Loss, l.Reorder, l.Up = Jitter{Kind: NoJitter}, Loss{}, Reorder{}, true
	return l
}

// LinkParam is one parameter of a link: its names, its text and its limits.
type LinkParam struct {
	Key       string // in fabric files
	Flag      string // of the commands that bring up or change links; "" = none
	Usage     string // help of the flag, with the name of its value in backquotes
	ShapeOnly bool   // the flag is of `ddlemu shape` alone, and there is no variable
	Label     string // in lists of changes
	Column    string // header in tables of links, ending in a space if numbers stand below; "" = no column
	Optional  bool   // the column is shown only if some link has another value than none

	parse func(string) (any, error)  // a pointer to the value that a user wrote
	check func(*Link) error          // refuses a value that no link may have
	fits  func(*Fabric, *Link) error // refuses a value that a link of this fabric cannot have; may be nil
	text  func(*Link) string         // nil prints the value as Go does
	index int                        // of the field in Link and LinkPatch
}

// linkParams are in the order of the fields of Link.
var linkParams = numbered([]LinkParam{
	{
		Key: "bandwidth", Flag: "bw", Usage: "line `rate`: 100Gbps, 25Gbit, 12.5GB/s or unlimited",
		Column: "bandwidth ",
		parse:  pointer(units.ParseBandwidth),
		check:  func(l *Link) error { return inRate(l.Bandwidth) },
	},
	{
		Key: "latency", Flag: "lat", Usage: "one-way `latency`: 5us, 1.2ms", Column: "latency ",
		parse: pointer(ParseDuration),
		check: func(l *Link) error { return inRange(l.Latency, 0, MaxLatency) },
	},
	{
		Key: "jitter", Flag: "jitter", Column: "jitter",
		Usage: "`jitter` of the latency: 2us (normal), uniform:2us, pareto:2us, table:2us or none",
		parse: pointer(ParseJitter),
		check: func(l *Link) error { return l.Jitter.validate() },
		fits: func(f *Fabric, l *Link) error {
			if l.Jitter.Kind == TableJitter && f.JitterTable == nil {
				return fmt.Errorf("%q needs the fabric's jitter_table, which is missing", l.Jitter)
			}
			return nil
		},
	},
	{
		Key: "loss", Flag: "loss", Usage: "packet `loss`: 0.1%, 1e-4, gilbert:P,R[,LOSSBAD[,LOSSGOOD]] or none",
		Column: "loss",
		parse:  pointer(ParseLoss),
		check:  func(l *Link) error { return l.Loss.validate() },
		fits: func(f *Fabric, l *Link) error {
			if f.OnKernel() {
				return nil
			}
			return l.Loss.validateModelled()
		},
		text: func(l *Link) string { return l.Loss.text() },
	},
	{
		Key: "queue", Flag: "queue",
		Usage: "`queue` limit and policy: lossless:1M, taildrop:1M, fair:1M, lossless or fair", Column: "queue",
		parse: pointer(ParseQueue),
		check: func(l *Link) error { return l.Queue.validate(l.segment()) },
		fits: func(f *Fabric, l *Link) error {
			if f.OnKernel() && !l.Queue.OnKernel() {
				return fmt.Errorf("%v given for the datapath kernel: there a queue is lossless or taildrop", l.Queue)
			}
			return nil
		},
	},
	{
		Key: "ecn", Flag: "ecn", Usage: "mark packets that find this `size` ahead of them in a queue: 200K or none",
		Column: "ECN", Optional: true,
		parse: pointer(ParseECN),
		check: func(l *Link) error { return inRange(l.ECN, 0, MaxQueue) },
		fits: func(f *Fabric, l *Link) error {
			if f.OnKernel() && l.ECN != 0 {
				return errors.New("given for the datapath kernel: there half of a taildrop queue marks")
			}
			return nil
		},
		text: ecnText,
	},
	{
		Key: "reorder", Flag: "reorder",
		Usage:  "`share` of the packets that arrive early, and by how much: 1%,50us or none",
		Column: "reorder", Optional: true,
		parse: pointer(ParseReorder),
		check: func(l *Link) error { return l.Reorder.validate() },
		fits: func(f *Fabric, l *Link) error {
			if f.OnKernel() && !slices.Contains([]string{"", AutoShaper, WireShaper}, f.Shaper) &&
				l.Reorder != (Reorder{}) {
				return fmt.Errorf("%s given with the shaper %s: only wire reorders; give --set shaper=%s or %s",
					l.Reorder.text(), f.Shaper, AutoShaper, WireShaper)
			}
			return nil
		},
		text: func(l *Link) string { return l.Reorder.text() },
	},
	{
		Key: "mtu", Flag: "mtu", Usage: "`bytes` of a packet, headers included", ShapeOnly: true,
		parse: pointer(whole(MinMTU, MaxMTU)),
		check: func(l *Link) error { return inRange(l.MTU, MinMTU, MaxMTU) },
		fits: func(f *Fabric, l *Link) error {
			if f.OnKernel() && l.MTU != f.Link.MTU {
				return fmt.Errorf(
					"%d, others have %d: the kernel datapath has one for all NICs: give it to all in the fabric file, "+
						"as link: {mtu: %[1]d}", l.MTU, f.Link.MTU)
			}
			return nil
		},
	},
	{
		Key: "header", Flag: "header", Usage: "`bytes` of a packet that are not payload", ShapeOnly: true,
		parse: pointer(ParseInt),
		check: func(l *Link) error {
			if l.Header < 0 || l.Header >= l.MTU {
				return fmt.Errorf("%d is out of range: must be 0 to %d, below the mtu", l.Header, l.MTU-1)
			}
			return nil
		},
	},
	{
		Key: "framing", Flag: "framing", Usage: "`bytes` on the line around each packet", ShapeOnly: true,
		parse: pointer(whole(0, MaxMTU)),
		check: func(l *Link) error { return inRange(l.Framing, 0, MaxMTU) },
	},
	{
		Key: "up", Label: "state", Column: "state", // shape has the flags --up and --down
		parse: pointer(parseBool),
		check: func(*Link) error { return nil },
		text: func(l *Link) string {
			if l.Up {
				return "up"
			}
			return "DOWN"
		},
	},
})

// LinkParams are the parameters of a link, in the order of its fields.
func LinkParams() []LinkParam { return linkParams }

// LinkDifference lists the parameters in which two links differ, old and new.
func LinkDifference(old, now Link) string {
	var parts []string
	for _, m := range LinkParams() {
		if a, b := m.Text(&old), m.Text(&now); a != b {
			parts = append(parts, m.Label+" "+a+" -> "+b)
		}
	}
	return strings.Join(parts, ", ")
}

func numbered(params []LinkParam) []LinkParam {
	for i := range params {
		params[i].index = i
		if params[i].Label == "" {
			params[i].Label = params[i].Key
		}
	}
	return params
}

// pointer makes parse return a pointer to the value.
func pointer[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) {
		v, err := parse(text)
		return &v, err
	}
}

// Set gives p the value in text.
func (m *LinkParam) Set(p *LinkPatch, text string) error {
	v, err := m.parse(text)
	if err == nil {
		reflect.ValueOf(p).Elem().Field(m.index).Set(reflect.ValueOf(v))
	}
	return err
}

// Given says whether p gives the parameter.
func (m *LinkParam) Given(p *LinkPatch) bool {
	return !reflect.ValueOf(p).Elem().Field(m.index).IsNil()
}

// Text is the parameter's value in l, for people.
func (m *LinkParam) Text(l *Link) string {
	if m.text != nil {
		return m.text(l)
	}
	return fmt.Sprint(reflect.ValueOf(l).Elem().Field(m.index))
}

// Reorder is a share of a link's packets that overtakes others: each of them, drawn
// separately, arrives earlier by a given time, but not before it was sent. The zero value
// keeps packets in order.
type Reorder struct {
	Share float64 // 0 to 1
	Early time.Duration
}

const reorderHelp = `write the share of the packets (up to 100%) and how much earlier they arrive, as 1%,50us, or none; in a file in quotes: "1%,50us"`

// ParseReorder reads a reordering from a file or flag: SHARE,DURATION, or none. SHARE is a
// number from 0 to 1 or in percent.
func ParseReorder(s string) (Reorder, error) {
	if s == "none" {
		return Reorder{}, nil
	}
	share, early, ok := strings.Cut(s, ",")
	p, err := parseProbability(share)
	d, errTime := ParseDuration(strings.TrimSpace(early))
	if err = cmp.Or(err, errTime); err != nil || !ok {
		return Reorder{}, fmt.Errorf("%q is not a reordering: %s", s, reorderHelp)
	}
	return Reorder{p, d}, nil
}

// String returns r in the form that ParseReorder reads.
func (r Reorder) String() string {
	if r == (Reorder{}) {
		return "none"
	}
	return Loss{P: r.Share}.String() + "," + r.Early.String()
}

// text is r for people, in a form that ParseReorder reads.
func (r Reorder) text() string {
	if r == (Reorder{}) {
		return "none"
	}
	return percent(r.Share) + "," + r.Early.String()
}

// MarshalText is String, for Encode.
func (r Reorder) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r Reorder) validate() error {
	if r != (Reorder{}) && !(r.Share > 0 && r.Share <= 1 && r.Early > 0 && r.Early <= MaxLatency) {
		return fmt.Errorf("%v is out of range: the share must be above 0 and at most 1, the time 1ns to %v; %s", r,
			MaxLatency, reorderHelp)
	}
	return nil
}

func ecnText(l *Link) string {
	if l.ECN == 0 {
		return "none"
	}
	return l.ECN.String()
}

// Apply changes the fields of l that p gives.
func (p *LinkPatch) Apply(l *Link) {
	from, to := reflect.ValueOf(p).Elem(), reflect.ValueOf(l).Elem()
	for i := range from.NumField() {
		if v := from.Field(i); !v.IsNil() {
			to.Field(i).Set(v.Elem())
		}
	}
}

// drop removes from p what other gives.
func (p *LinkPatch) drop(other *LinkPatch) {
	to, from := reflect.ValueOf(p).Elem(), reflect.ValueOf(other).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsNil() {
			to.Field(i).SetZero()
		}
	}
}

// Overlaps says whether p and other give a parameter both.
func (p *LinkPatch) Overlaps(other *LinkPatch) bool {
	return slices.ContainsFunc(linkParams, func(m LinkParam) bool { return m.Given(p) && m.Given(other) })
}

// Empty says whether p changes nothing.
func (p *LinkPatch) Empty() bool { return *p == LinkPatch{} }

// fields reads the keys of a link.
func (p *LinkPatch) fields(d *decoder) []field {
	var fields []field
	for _, m := range linkParams {
		fields = append(fields, field{m.Key, d.scalar(func(text string) error { return m.Set(p, text) })})
	}
	return fields
}

// linkKeys are the keys of a link in words: "bandwidth, latency or up".
func linkKeys() string {
	var keys []string
	for _, m := range linkParams {
		keys = append(keys, m.Key)
	}
	return OrList(keys)
}

// Validate checks every value of l. Fields in the error are as in a file, from
// the link on.
func (l *Link) Validate() error {
	if err := l.validateValues(); err != nil {
		return err
	}
	return l.validateECN()
}

// validateValues is Validate without validateECN.
func (l *Link) validateValues() error {
	for _, m := range linkParams {
		if err := m.check(l); err != nil {
			return &Error{Field: m.Key, Err: err}
		}
	}
	return nil
}

// validateECN checks that l marks before one sender has filled its queue: a full one
// drops, or delays the sender, so that marks would come too late. Several overrides
// may give the one and the other, so it is checked after the last.
func (l *Link) validateECN() error {
	if l.ECN != 0 && l.Queue.Bytes != 0 && l.ECN >= l.Queue.Bytes {
		return Errorf("ecn", "%v is not below the queue limit, %v: one sender fills it before a packet is marked",
			l.ECN, l.Queue)
	}
	return nil
}

// ValidateLink checks that a link of f can be like l: on f's datapath, and with the
// other values of f. Fields in the error are as Link.Validate has them.
func (f *Fabric) ValidateLink(l *Link) error {
	for _, m := range linkParams {
		if m.fits == nil {
			continue
		}
		if err := m.fits(f, l); err != nil {
			return &Error{Field: m.Key, Err: err}
		}
	}
	return nil
}

// PayloadRate is the highest rate of payload on l, in bytes per second; 0 if the
// bandwidth is unlimited.
func (l *Link) PayloadRate() float64 {
	return float64(l.Bandwidth) / 8 * float64(l.MTU-l.Header) / float64(l.MTU+l.Framing)
}

// segment is about the bytes that the link model moves at once: what the line
// carries in 100 us, at least one packet and at most 64 KiB.
func (l *Link) segment() units.Size {
	const most = 64 * units.KiB
	if l.Bandwidth == units.Unlimited {
		return most
	}
	packet := units.Size(min(max(l.MTU, MinMTU), MaxMTU))
	return max(packet, min(most, units.Size(l.Bandwidth/8/10_000)))
}
