// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Values that a file cannot have, but a program can give.
func TestValidateRefusesWhatNoFileSays(t *testing.T) {
	tiny, latency := 300, time.Millisecond
	for _, c := range []struct {
		spoil func(*Fabric)
		want  string
	}{
		{func(f *Fabric) { f.Link.Jitter = Jitter{} }, `link.jitter: "" is an unknown kind`},
		{func(f *Fabric) { f.Link.Jitter = Jitter{NoJitter, 5} }, "link.jitter: none with the value 5ns"},
		{func(f *Fabric) { f.Link.Jitter = Jitter{NormalJitter, -1} }, "link.jitter: normal:-1ns is out of range"},
		{func(f *Fabric) { f.Link.Latency = -1 }, "link.latency: -1ns is out of range"},
		{func(f *Fabric) { f.Link.Loss.P = math.NaN() }, "link.loss: NaN is out of range"},
		{func(f *Fabric) { f.Link.Loss.BadP = 1 }, "link.loss: bursts must both begin and end"},
		{func(f *Fabric) { f.Link.Loss.GoodToBad = 0.1 }, "link.loss: bursts must both begin and end"},
		{func(f *Fabric) { f.Link.Queue = Queue{} }, `link.queue: "" is an unknown policy`},
		{func(f *Fabric) { f.Link.Queue = Queue{Policy: TailDrop} }, "link.queue: taildrop without a size"},
		{func(f *Fabric) { f.Transport.Window = 1 }, "transport.kind: rdma has no send_buffer"},
		{func(f *Fabric) { f.Transport.Congestion = Cubic },
			"transport.congestion: cubic given for rdma, which has no congestion control in the model"},
		{func(f *Fabric) {
			f.Datapath, f.Transport = Kernel, DefaultTransport(TCP)
			f.Transport.Congestion = NoCongestion
		}, "transport.congestion: none given for the datapath kernel"},
		{func(f *Fabric) { f.Transport = DefaultTransport(TCP); f.Transport.RetryCount = 1 },
			"transport.kind: tcp has no retry_count"},
		{func(f *Fabric) { f.Transport = Transport{RTO: 1000} }, `transport.kind: "" is not one of`},
		{func(f *Fabric) { f.Links = []LinkOverride{{Match: "*"}} }, "links[0]: changes nothing"},
		{func(f *Fabric) { f.Nodes, f.Links = 1, []LinkOverride{{"*", LinkPatch{MTU: &tiny}}} },
			"links[0]: changes nothing: a fabric of one node"},
		{func(f *Fabric) { f.Description = "\xff" }, "description: must be printable UTF-8"},
		{func(f *Fabric) { f.TimeScale = -1 }, "time_scale: -1 is out of range"},
		{func(f *Fabric) { f.Endpoint.Overhead = -1 }, "endpoint.overhead: -1ns is out of range"},
		{func(f *Fabric) { f.Host.PerMessage = -1 }, "host.per_message: -1ns is out of range"},
		{func(f *Fabric) { f.Host.Copy = 1 }, "host.copy: 1bps is out of range"},
		{func(f *Fabric) { f.CPU = "arm" }, `cpu: "arm" is not one of amd, intel, host`},
		{func(f *Fabric) { f.NCCLView = "mine" }, `nccl_view: "mine" is not one of fabric, host`},
		{func(f *Fabric) { f.Clock = "sundial" }, `clock: "sundial" is not one of real, virtual`},
		{func(f *Fabric) { f.Clock, f.TimeScale = VirtualClock, 8 }, "clock: virtual with time scale 8"},
		{func(f *Fabric) { f.Clock, f.Datapath, f.Transport = VirtualClock, Kernel, DefaultTransport(TCP) },
			"clock: virtual with the datapath kernel"},
		{func(f *Fabric) { f.Datapath = "cable" }, `datapath: "cable" is not one of shm, kernel`},
		{func(f *Fabric) { f.Datapath, f.Shaper = Kernel, "soap" }, `shaper: "soap" is not one of`},
		{func(f *Fabric) { f.Shaper = WireShaper }, `shaper: "wire" given for the datapath shm`},
		{func(f *Fabric) { f.Subnet = "10.1.0.0/16" }, `subnet: 10.1.0.0/16 given for the datapath shm`},
		{func(f *Fabric) { f.Datapath, f.Subnet = Kernel, "10.1.0.0/24" },
			`subnet: "10.1.0.0/24" is not a private IPv4 network`},
		{func(f *Fabric) { f.Datapath, f.Subnet = Kernel, "8.8.0.0/16" },
			`subnet: "8.8.0.0/16" is not a private IPv4 network`},
		{func(f *Fabric) { f.Datapath, f.Nodes = Kernel, 255 }, "nodes: 255: must be 1 to 254 on the kernel datapath"},
		{func(f *Fabric) { f.JitterTable = []float64{math.NaN(), 1} }, "jitter_table: quantile NaN"},
	} {
		f := Default()
		f.Link.Bandwidth, f.Link.Latency = units.Gbps, latency
		if err := f.Validate(); err != nil {
			t.Fatal(err)
		}
		c.spoil(&f)
		if err := f.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) || !IsUserError(err) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// A queue must have space for a segment, which is shorter on a slow line.
func TestQueueLimitFollowsRate(t *testing.T) {
	for _, c := range []struct {
		bandwidth units.Bandwidth
		mtu       int
		least     units.Size
	}{
		{units.Gbps, 1500, 12500}, {units.Mbps, 1500, 1500}, {100 * units.Gbps, 1500, 64 * units.KiB},
		{units.Unlimited, 1500, 64 * units.KiB}, {units.Gbps, 65536, 64 * units.KiB},
	} {
		l := Default().Link
		l.Bandwidth, l.MTU = c.bandwidth, c.mtu
		l.Queue.Bytes = c.least
		if err := l.Validate(); err != nil {
			t.Errorf("%v, mtu %d: %v", c.bandwidth, c.mtu, err)
		}
		l.Queue.Bytes--
		if err := l.Validate(); err == nil {
			t.Errorf("%v, mtu %d: a queue of %v was accepted", c.bandwidth, c.mtu, l.Queue.Bytes)
		}
	}
}

func TestShapeReplacesOverrides(t *testing.T) {
	latency, other, mtu, up := time.Millisecond, time.Second, 9000, false
	f := Default()
	f.Links = []LinkOverride{{"node0", LinkPatch{Latency: &latency}},
		{"node1", LinkPatch{Latency: &latency, MTU: &mtu}}}
	f.Shape(LinkPatch{Latency: &other, Up: &up})
	want := Default()
	want.Link.Latency, want.Link.Up = other, false
	want.Links = []LinkOverride{{"node1", LinkPatch{MTU: &mtu}}}
	if d := cmp.Diff(want, f); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.Shape(LinkPatch{MTU: &mtu})
	if f.Links != nil || f.Link.MTU != mtu {
		t.Errorf("got %+v; want the MTU everywhere and no override", f)
	}
}
