// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// parse reads text as Prometheus does, and returns the value of each metric with its labels.
func parse(t *testing.T, text string) (map[string]float64, map[string]*dto.MetricFamily) {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	values := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values, families
}

func TestWrite(t *testing.T) {
	f := &status.Reading{
		Name: `my "fabric"`, Profile: "ndr400", Transport: "rdma", Datapath: "shm", Clock: "real", Nodes: 2,
		TimeScale: 4, Up: 1500 * time.Millisecond, Time: 375 * time.Millisecond,
		Hops: []status.HopReading{{
			Place: &status.Place{Kind: link.Link, Name: "node0:node1"}, Spec: link.Spec{Bandwidth: 4e11,
				Latency: 1200}, Messages: 7,
			Counters: link.Counters{Bytes: 1 << 60, LineBytes: 2, Drops: 3, BusyNs: 4e9, ECNMarks: 5, Pauses: 6,
				PausedNs: 5e8},
		}, {
			Place: &status.Place{Kind: link.Link, Name: "node1:node0"}, Spec: link.Spec{Down: true},
		}, {
			Place: &status.Place{Kind: link.TxPort, Name: "node0 tx", NIC: "node0", Direction: "tx"},
			Spec:  link.Spec{Bandwidth: 4e11}, Counters: link.Counters{Bytes: 9},
		}},
		Jobs: []status.Job{{Number: 3, Running: true, Joined: 2, Died: 1, Messages: 7, Bytes: 70}},
	}
	var b bytes.Buffer
	if err := Write(&b, []*status.Reading{f}); err != nil {
		t.Fatal(err)
	}
	values, families := parse(t, b.String())
	onLink := ` fabric=my "fabric" link=node0:node1`
	for key, want := range map[string]float64{
		`ddlemu_fabric_info fabric=my "fabric" profile=ndr400 transport=rdma datapath=shm clock=real time_scale=4`: 1,
		`ddlemu_fabric_nodes fabric=my "fabric"`:                                      2,
		`ddlemu_fabric_up_seconds fabric=my "fabric"`:                                 1.5,
		`ddlemu_fabric_clock_seconds_total fabric=my "fabric"`:                        0.375,
		"ddlemu_link_bandwidth_bits_per_second" + onLink:                              4e11,
		"ddlemu_link_latency_seconds" + onLink:                                        1.2e-6,
		"ddlemu_link_up" + onLink:                                                     1,
		`ddlemu_link_up fabric=my "fabric" link=node1:node0`:                          0,
		"ddlemu_link_transmit_bytes_total" + onLink:                                   1 << 60,
		"ddlemu_link_wire_bytes_total" + onLink:                                       2,
		"ddlemu_link_drops_total" + onLink:                                            3,
		"ddlemu_link_busy_seconds_total" + onLink:                                     4,
		"ddlemu_link_ecn_marked_total" + onLink:                                       5,
		"ddlemu_link_pauses_total" + onLink:                                           6,
		"ddlemu_link_paused_seconds_total" + onLink:                                   0.5,
		"ddlemu_link_messages_total" + onLink:                                         7,
		`ddlemu_port_transmit_bytes_total fabric=my "fabric" port=node0 direction=tx`: 9,
		`ddlemu_job_running fabric=my "fabric" job_number=3`:                          1,
		`ddlemu_job_ranks fabric=my "fabric" job_number=3 state=joined`:               2,
		`ddlemu_job_ranks fabric=my "fabric" job_number=3 state=died`:                 1,
		`ddlemu_job_messages_total fabric=my "fabric" job_number=3`:                   7,
		`ddlemu_job_bytes_total fabric=my "fabric" job_number=3`:                      70,
	} {
		if got, ok := values[key]; !ok || got != want {
			t.Errorf("%s is %g (there: %t), want %g", key, got, ok, want)
		}
	}
	for name, f := range families {
		if counter := f.GetType() == dto.MetricType_COUNTER; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s: a counter ends in _total, and nothing else does", name)
		}
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
	for _, c := range link.ShownCounters() {
		if families["ddlemu_link_"+c.Metric] == nil || families["ddlemu_port_"+c.Metric] == nil {
			t.Errorf("no metrics of %s", c.Name)
		}
	}
	if _, ok := families["ddlemu_port_latency_seconds"]; ok {
		t.Error("a port has no latency")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteError(t *testing.T) {
	if err := Write(full{}, []*status.Reading{{Name: "f"}}); err == nil ||
		!strings.Contains(err.Error(), "ddlemu_fabric_info: disk full") {
		t.Error(err)
	}
}
