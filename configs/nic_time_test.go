// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

func TestNICTime(t *testing.T) {
	const keys = "{per_message: 200ns, latency: 1us, rate: 18GB/s, eager: 2K, rendezvous: 7500ns}"
	f, err := Decode("f.yaml", []byte("base: ss11-200\nnic_time: "+keys+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := NICTime{NetTime: NetTime{PerMessage: 200, Latency: time.Microsecond}, Rate: 144 * units.Gbps, Eager: 2 * units.KiB,
		Rendezvous: 7500}
	if f.NICTime == nil || *f.NICTime != want {
		t.Fatalf("%s: %+v", keys, f.NICTime)
	}
	for _, tc := range []struct{ keys, want string }{
		{"{eager: -1}", "eager"}, {"{rate: 1}", "nic_time.rate"}, {"{rendezvous: 11s}", "nic_time.rendezvous"},
		{"{per_message: -1ns}", "nic_time.per_message"}, {"{lateness: 1us}", "lateness"},
	} {
		_, err := Decode("f.yaml", []byte("base: ss11-200\nnic_time: "+tc.keys+"\n"))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want one with %q", tc.keys, err, tc.want)
		}
	}
}

func TestSetNICRate(t *testing.T) {
	for _, tc := range []struct {
		rate float64 // GB/s
		want int     // framing
	}{
		{0, 261}, {49.3, 58}, {47, 261}, {50, 261}, {60, 261}, {25, 4096},
	} {
		f, err := Profile("ndr400")
		if err != nil {
			t.Fatal(err)
		}
		f.NICTime = &NICTime{Rate: units.Bandwidth(tc.rate * 8e9)}
		if f.SetNICRate(); f.Link.Framing != tc.want {
			t.Errorf("%v GB/s: a framing of %d bytes, want %d", tc.rate, f.Link.Framing, tc.want)
		}
		if f.NICTime = nil; f.Validate() != nil {
			t.Errorf("%v GB/s: %v", tc.rate, f.Validate())
		}
	}
}
