// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// What a fabric says of its NICs holds instead of what the kind of GPU says.
func TestNICTime(t *testing.T) {
	times := timesOn(t, "h100-sxm", "")
	c := &times.fabric.Config
	port := func() (int64, link.Params) {
		f, err := times.FabricOf(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Transport.Host.PerMessage, f.Params[0]
	}
	c.NICTime = nil
	ofKind, kindPort := port()
	net := c.GPU.Time.Net
	if ofKind != int64(net.PerMessage) || kindPort.Latency != int64(net.Latency) {
		t.Errorf("of the kind: %d ns for a message, a latency of %d ns", ofKind, kindPort.Latency)
	}
	c.NICTime = &configs.NICTime{NetTime: configs.NetTime{PerMessage: 200}}
	if got, p := port(); got != 200 || p.Latency != 0 {
		t.Errorf("of the NICs: %d ns for a message, a latency of %d ns", got, p.Latency)
	}
	c.NICTime = &configs.NICTime{Eager: 2048, Rendezvous: 7500}
	if got, p := port(); got != ofKind || p.Latency != kindPort.Latency {
		t.Errorf("a rendezvous alone: %d ns for a message, a latency of %d ns", got, p.Latency)
	}
}
