// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// The fields that scripts rely on, as the documentation has them.
type documentedStatus struct {
	Fabric string `json:"fabric"`
	Links  []struct {
		From         string  `json:"from"`
		To           string  `json:"to"`
		BandwidthBps uint64  `json:"bandwidth_bps"`
		LatencyNs    int64   `json:"latency_ns"`
		JitterNs     int64   `json:"jitter_ns"`
		Loss         float64 `json:"loss"`
		Up           bool    `json:"up"`
		Bytes        uint64  `json:"bytes"`
		Messages     uint64  `json:"messages"`
		Drops        uint64  `json:"drops"`
	} `json:"links"`
}

func TestStatusJSONHasTheDocumentedFields(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "eth1", "--no-measure", "--set", "link.jitter=uniform:2us", "--set", "link.loss=1%")
	w.must("shape", "--down", "--link", "node1>node0")
	text := w.must("status", "--json")

	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	link, ok := fields["links"].([]any)[0].(map[string]any)
	if !ok {
		t.Fatalf("links: %v", fields["links"])
	}
	for _, name := range []string{
		"from", "to", "bandwidth_bps", "latency_ns", "jitter_ns", "loss", "up", "bytes", "messages", "drops",
		"jitter", "loss_model", "queue", "mtu", "header", "framing", "wire_bytes", "ecn", "ecn_marked", "pauses",
		"paused_ns",
	} {
		if _, ok := link[name]; !ok {
			t.Errorf("a link has no field %q", name)
		}
	}
	var got documentedStatus
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Fabric != "eth1" || len(got.Links) != 2 {
		t.Fatalf("got %+v", got)
	}
	l := got.Links[0]
	if l.From != "node0" || l.To != "node1" || l.BandwidthBps != 1e9 || l.LatencyNs != 25_000 || l.JitterNs != 2_000 ||
		l.Loss != 0.01 || !l.Up {
		t.Errorf("got %+v", l)
	}
	if got.Links[1].From != "node1" || got.Links[1].Up {
		t.Errorf("got %+v, which is down", got.Links[1])
	}
	// Lists are there when they are empty too.
	for _, name := range []string{"jobs", "participants", "events", "ports"} {
		if _, ok := fields[name].([]any); !ok {
			t.Errorf("%s: %v is not a list", name, fields[name])
		}
	}
}

func TestUnlimitedBandwidthIsZero(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "loopback")
	var got documentedStatus
	if err := json.Unmarshal([]byte(w.must("status", "--json")), &got); err != nil || got.Links[0].BandwidthBps != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What queues did is shown, in the fabric's own time, where they did anything.
func TestStatusOfQueues(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "eth1", "--no-measure", "--set", "time_scale=4", "--set", "link.ecn=200K")
	if out := w.must("status"); strings.Contains(out, "ECN marks") || strings.Contains(out, "paused") {
		t.Errorf("nothing happened:\n%s", out)
	}
	dir, err := state.OpenDir(w.dir, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open("eth1")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i, h := range file.Hops() {
		if h.Kind == link.Link && h.Src == 0 || h.Kind == link.TxPort && h.Src == 1 {
			file.Count(i, link.Counters{ECNMarks: 17, Pauses: 3, PausedNs: 4e6})
		}
	}
	var got struct {
		Links, Ports []struct {
			From, NIC, ECN string
			Marked         uint64 `json:"ecn_marked"`
			Pauses         uint64
			PausedNs       int64 `json:"paused_ns"`
		}
	}
	if err := json.Unmarshal([]byte(w.must("status", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if l := got.Links[0]; l.From != "node0" || l.ECN != "200K" || l.Marked != 17 || l.Pauses != 3 || l.PausedNs != 1e6 {
		t.Errorf("got %+v", l)
	}
	if l := got.Links[1]; l.Marked != 0 || l.Pauses != 0 || l.PausedNs != 0 {
		t.Errorf("got %+v", l)
	}
	out := w.must("status")
	for _, want := range []string{"ECN marks", "paused for", "1ms",
		"port node1 tx: ECN marks 17, pauses 3, paused for 1ms"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestShapeJSONReadsBackWhatIsInForce(t *testing.T) {
	w := newWorld(t)
	w.must("up", "--profile", "eth1", "--no-measure")
	var got, again documentedStatus
	if err := json.Unmarshal([]byte(w.must("shape", "--bw", "500Mbps", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Links[0].BandwidthBps != 5e8 || got.Links[1].BandwidthBps != 5e8 {
		t.Errorf("got %+v", got)
	}
	if err := json.Unmarshal([]byte(w.must("shape", "--json")), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Error(diff)
	}
}
