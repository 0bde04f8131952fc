// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/measure"
)

// iperf3 measures the payload rate of a link: its rate less headers and framing.
func TestIperf(t *testing.T) {
	w := newUser(t, "iperf3")
	w.shell("ddlemu up --profile eth1 --nodes 2 --set datapath=kernel")
	const server, client = "ddlemu exec node1 -- iperf3 -s -1 -D", "ddlemu exec node0 -- iperf3 -c node1"
	w.documented(server)
	w.documented(client)
	measure.Repeat(t, "a link of 1 Gb/s", func() (measure.Result, error) {
		w.shell(server)
		got, want := rates(t, w.shell(client+" -t 2 -O 1 -J").Stdout)
		return measure.Rate(got, want, 0.02), nil
	})
}

// rates returns the rate that iperf3 measured and the payload rate of a link of 1 Gb/s, in bit/s. Packets have 1500
// bytes with the headers of IP and TCP, including timestamps, and 38 bytes of Ethernet framing.
func rates(t *testing.T, text string) (got, want float64) {
	t.Helper()
	var r struct {
		Start struct {
			Connected []struct {
				Remote string `json:"remote_host"`
			}
		}
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Start.Connected) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	header := 20.0
	if strings.Contains(r.Start.Connected[0].Remote, ":") {
		header = 40
	}
	return r.End.Received.Rate, 1e9 * (1500 - header - 32) / (1500 + 38)
}
