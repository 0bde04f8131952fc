// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// sweptRows are rows of 8, 16 and so on bytes with times in us and a protocol; a time of 0 is not known.
func sweptRows(proto string, times ...float64) *Report {
	r := &Report{}
	for i, us := range times {
		row := ReportRow{Size: 8 << i, Algo: "Ring", Proto: proto}
		if us > 0 {
			row.ExpectedUS = &us
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func TestSweep(t *testing.T) {
	v, err := sweep.Parse("bw=10G,100G,400G")
	if err != nil {
		t.Fatal(err)
	}
	reports := []*Report{
		sweptRows("Simple", 100, 100, 200, 900, 0), sweptRows("Simple", 101, 100, 104, 300, 5),
		sweptRows("LL", 100, 99, 100, 400, 5),
	}
	s := NewSweep(v, "all_reduce", reports)
	want := []string{
		"8 to 16 bytes: the network does not matter at any of these: at bw 10Gbps, the slowest, a call takes at most 5 % longer than on the fastest",
		"32 bytes: the network stops mattering at bw 100Gbps: faster ones make a call at most 5 % shorter",
		"64 bytes: the network stops mattering at bw 100Gbps: faster ones make a call at most 5 % shorter",
	}
	want = []string{want[0], "32 to 64 bytes" + want[1][len("32 bytes"):]}
	if got := s.Conclusions(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := s.Changes(); len(got) != 5 ||
		got[3] != "all_reduce of 64 bytes: Ring Simple at bw 100Gbps, Ring LL at 400Gbps (300.00 us, 400.00 us): the faster network takes longer" {
		t.Errorf("%q", got)
	}
	wantReversals := []string{
		"all_reduce of 64 bytes takes longer at bw 400Gbps than at 100Gbps, which is slower: 400.00 us, 300.00 us",
		"all_reduce of 64 bytes is shortest at bw 100Gbps: 300.00 us"}
	if got := s.Reversals(); !slices.Equal(got, wantReversals) {
		t.Errorf("%q", got)
	}
	if r := s.Report(); r.Verdict != nil || len(r.Points) != 3 || r.Points[2].Value != "400Gbps" {
		t.Errorf("%+v", r)
	}
	if r := NewSweep(v, "all_reduce", reports[:1]).Report(); *r.Verdict != verdict.Incomplete || r.Conclusions != nil {
		t.Errorf("%+v", r)
	}
}

// Values without an order have no conclusion.
func TestSweepWithoutOrder(t *testing.T) {
	v, err := sweep.Parse("queue=fair,lossless")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSweep(v, "all_reduce", []*Report{sweptRows("LL", 100), sweptRows("LL", 50)})
	if s.Conclusions() != nil || s.Reversals() != nil {
		t.Errorf("%q, %q", s.Conclusions(), s.Reversals())
	}
}
