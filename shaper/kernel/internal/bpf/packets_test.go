// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// A fabric of two nodes with one NIC each has 6 hops. These are the hops of a packet from node 0 to node 1.
const (
	sendPort, linkHop, receivePort = 0, 4, 3
	hopCount                       = 6
)

// Verdicts of a program (linux/pkt_cls.h).
const (
	actUnspec = ^uint32(0)
	actShot   = 2
)

// bench has the programs of a fabric of two nodes. The tests run them on generated packets. That needs no interface
// and no fq, so it works on kernels that cannot use the programs.
type bench struct {
	testing.TB
	*ebpf.Collection
}

func newBench(t testing.TB, spec link.Spec, timeScale int) bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: BPF programs cannot be loaded")
	}
	s, err := loadSpec(true)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]uint32{
		shapeMapAllParams: 2 * hopCount, shapeMapHops: hopCount, shapeMapSlots: hopCount, shapeMapPortNics: 2,
		shapeMapNicPorts: 2, shapeMapLate: hopCount, shapeMapTapMissed: hopCount,
	} {
		s.Maps[name].MaxEntries = n
	}
	for name, v := range map[string]any{shapeVarNics: uint32(2), shapeVarNicsPerNode: uint32(1),
		shapeVarSeed: uint64(1), shapeVarTimeScale: uint32(timeScale)} {
		if err := s.Variables[name].Set(v); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ebpf.NewCollection(s)
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("this kernel does not support the programs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := bench{t, c}
	p, err := link.NewParams(spec, timeScale)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(2 * hopCount) {
		b.put(shapeMapAllParams, i, p)
	}
	// The packet of a test run is on the loopback interface, which has index 1.
	b.put(shapeMapPortNics, uint32(1), uint32(1))
	return b
}

func (b bench) put(name string, key uint32, value any) {
	b.Helper()
	if err := b.Maps[name].Put(key, value); err != nil {
		b.Fatal(err)
	}
}

func (b bench) hop(n uint32) (h shapeHop) {
	b.Helper()
	if err := b.Maps[shapeMapHops].Lookup(n, &h); err != nil {
		b.Fatal(err)
	}
	return h
}

// skb is the kernel's struct __sk_buff. Only the departure time is used here.
type skb struct {
	_      [38]uint32
	Tstamp uint64
	_      [8]uint32 // wire_len and the fields after it
}

// run runs a program on a packet. It returns the verdict, the changed packet, and its departure time.
func (b bench) run(program string, packet []byte) (uint32, []byte, uint64) {
	b.Helper()
	out, ctx := make([]byte, len(packet)+256), skb{}
	o := ebpf.RunOptions{Data: packet, DataOut: out, Context: skb{}, ContextOut: &ctx}
	verdict, err := b.Programs[program].Run(&o)
	if err != nil {
		b.Fatalf("run %s: %v", program, err)
	}
	return verdict, o.DataOut, ctx.Tstamp
}

// packet returns a TCP packet from one node to another.
func packet(t testing.TB, from, to byte, ecn byte, tcp layers.TCP, payload []byte) []byte {
	t.Helper()
	mac := func(nic byte) net.HardwareAddr { return net.HardwareAddr{0x02, 0xdd, 0x1e, 0, 0, nic} }
	ip := layers.IPv4{Version: 4, TTL: 64, TOS: ecn, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{10, 0, 0, from + 1},
		DstIP: net.IP{10, 0, 0, to + 1}}
	if err := tcp.SetNetworkLayerForChecksum(&ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: mac(from), DstMAC: mac(to), EthernetType: layers.EthernetTypeIPv4}, &ip, &tcp,
		gopacket.Payload(payload))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[:14+int(ip.Length)] // veth does not pad
}

func monotonic(t testing.TB) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}

// A packet that finds a full queue is dropped and counted. A packet that finds the queue more than half full gets an
// ECN mark if it is ECN-capable (RFC 3168).
func TestQueue(t *testing.T) {
	const limit = 1 << 30 // 8.6 s at 1 Gb/s: longer than any pause of this machine
	spec := link.Spec{Bandwidth: 1e9, Latency: time.Millisecond, QueueBytes: limit, QueuePolicy: link.TailDrop,
		MTU: 1500, Header: 40, Framing: 38}
	const notECT, ect0, ce = 0, 2, 3
	for _, tc := range []struct {
		name        string
		hop         uint32
		wait        time.Duration // until the hop is free
		ecn, marked byte          // ECN bits before and after
		dropped     bool
	}{
		{"empty", receivePort, 0, ect0, ect0, false},
		{"below half", receivePort, 4 * time.Second, ect0, ect0, false},
		{"above half", receivePort, 6 * time.Second, ect0, ce, false},
		{"above half, not ECN-capable", receivePort, 6 * time.Second, notECT, notECT, false},
		{"above the limit", receivePort, 12 * time.Second, ect0, 0, true},
		{"link above the limit", linkHop, 12 * time.Second, ect0, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, spec, 1)
			now := monotonic(t)
			free := now + uint64(tc.wait)
			b.put(shapeMapHops, tc.hop, shapeHop{NextFree: free})
			sent := packet(t, 0, 1, tc.ecn, layers.TCP{ACK: true}, make([]byte, 1000))
			verdict, got, leaves := b.run(shapeProgRx, sent)
			h := b.hop(tc.hop)
			if tc.dropped {
				if verdict != actShot || h.Drops != 1 || h.Packets != 0 {
					t.Fatalf("verdict %d, %d dropped, %d passed", int32(verdict), h.Drops, h.Packets)
				}
				return
			}
			if verdict != actUnspec || h.Drops != 0 || h.Packets != 1 || h.Bytes != 1000 ||
				h.LineBytes != uint64(len(sent)-14+38) {
				t.Fatalf("verdict %d, %+v", int32(verdict), h)
			}
			if got[15]&3 != tc.marked {
				t.Errorf("ECN bits %d, want %d", got[15]&3, tc.marked)
			}
			serialization := 8 * h.LineBytes // ns at 1 Gb/s
			if tc.wait > 0 && leaves != free+serialization {
				t.Errorf("leaves at %d, want %d after the port is free", leaves, leaves-free)
			}
			if least := now + uint64(spec.Latency) + serialization; leaves < least {
				t.Errorf("leaves %d ns too early", least-leaves)
			}
		})
	}
}

// The flow class of a connection follows from the first bytes that the connecting side sends.
func TestClasses(t *testing.T) {
	number := func(v any) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const ncclMagic = uint64(0x564ab9f2fc4b9d6c)
	plugin, bootstrap := []byte("ddlemuP1"), append(number(ncclMagic), number(uint32(1))...)
	other := append(number(ncclMagic), number(uint32(3))...) // a data connection of NCCL's socket transport
	more := make([]byte, 100)
	for _, tc := range []struct {
		name  string
		sends [][]byte
		class int
	}{
		{"plugin", [][]byte{plugin, more}, 0},
		{"plugin, in three segments", [][]byte{plugin[:3], plugin[3:7], append(plugin[7:8:8], more...)}, 0},
		{"bootstrap", [][]byte{bootstrap, more}, 1},
		{"bootstrap, in two segments", [][]byte{bootstrap[:8], bootstrap[8:], more}, 1},
		{"NCCL's socket transport", [][]byte{other, more}, 2},
		{"another program", [][]byte{[]byte("GET / HTTP/1.1\r\n"), more}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, link.Spec{MTU: 1500, Header: 40, Framing: 38}, 1)
			const begin = 0xfffffffe // the sequence number wraps
			b.run(shapeProgTx, packet(t, 0, 1, 0, layers.TCP{SrcPort: 40000, DstPort: 50000, SYN: true, Seq: begin},
				nil))
			b.run(shapeProgTx,
				packet(t, 1, 0, 0, layers.TCP{SrcPort: 50000, DstPort: 40000, SYN: true, ACK: true, Seq: 7}, nil))
			seq := uint32(begin)
			seq++
			for _, data := range tc.sends {
				b.run(shapeProgTx, packet(t, 0, 1, 0, layers.TCP{SrcPort: 40000, DstPort: 50000, ACK: true, Seq: seq},
					data))
				seq += uint32(len(data))
			}
			before := b.hop(sendPort).Classes
			b.run(shapeProgTx, packet(t, 0, 1, 0, layers.TCP{SrcPort: 40000, DstPort: 50000, ACK: true, Seq: seq},
				more))
			// The packets in the reverse direction, on the other node's send port, have the same class.
			b.run(shapeProgTx, packet(t, 1, 0, 0, layers.TCP{SrcPort: 50000, DstPort: 40000, ACK: true, Seq: 8}, more))
			for class, n := range b.hop(sendPort).Classes {
				want := uint64(0)
				if class == tc.class {
					want = uint64(len(more))
				}
				if n-before[class] != want || b.hop(2).Classes[class] != want {
					t.Errorf("class %d: %d and %d bytes, want %d", class, n-before[class], b.hop(2).Classes[class],
						want)
				}
			}
		})
	}
}
