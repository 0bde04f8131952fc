// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// transports are lines of a fabric file.
var transports = map[string]string{
	"go-back-N":        "transport: {kind: rdma}",
	"selective repeat": "transport: {kind: rdma, recovery: selective-repeat}",
	"tcp":              "transport: {kind: tcp}",
	"reno":             "transport: {kind: tcp, congestion: reno}",
	"cubic":            "transport: {kind: tcp, congestion: cubic}",
}

// The packets of the fabrics here, in bytes.
const (
	mtu, header  = 1500, 40
	packetFormat = "  mtu: 1500\n  header: 40"
)

// packet is a packet of a file.
type packet struct {
	iface  int
	at     int64 // ns
	length int   // on the line
	ip     *layers.IPv4
	tcp    *layers.TCP
	roce   *roce.Packet
}

// payload is the bytes that a packet of TCP stands for.
func (p *packet) payload() int { return int(p.ip.Length) - 20 - 4*int(p.tcp.DataOffset) }

// write plays two jobs on three nodes and reads what Write writes at links, at the NICs if there are none.
func write(t *testing.T, links []int, lines ...string) (*replay.Replayed, Summary, []packet) {
	t.Helper()
	f := replaytest.Fabric(t, 3, lines...)
	played, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := pcapng.NewWriter(&file, "test", "")
	sum, err := Write(w, played, Options{Links: links})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var all []packet
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return played, sum, all
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		x := packet{iface: info.InterfaceIndex, at: info.Timestamp.UnixNano(), length: info.Length}
		x.ip, _ = p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		x.tcp, _ = p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		x.roce, _ = p.Layer(roce.LayerType).(*roce.Packet)
		if x.ip == nil || x.tcp == nil && x.roce == nil {
			t.Fatalf("%v", p)
		}
		if len(all) > 0 && x.at < all[len(all)-1].at {
			t.Fatalf("%d comes after %d", x.at, all[len(all)-1].at)
		}
		all = append(all, x)
	}
}

// isData says whether a packet is of a message, sent first or again.
func (p *packet) isData() bool {
	if p.roce != nil {
		return p.roce.Opcode <= roce.WriteOnlyImmediate
	}
	return !p.tcp.SYN && p.payload() > 0
}

// onHop is what packets of messages are on a hop.
type onHop struct {
	first   []int64 // when segments start
	packets int     // of segments, and sent again
	ce      int     // of these, with an ECN mark
}

// modelled is what the model has on each of the hops, how many ECN marks they gave, and how many packets were sent
// again.
func modelled(played *replay.Replayed, hops []int) (all map[int]*onHop, marks uint64, again int) {
	all = map[int]*onHop{}
	for _, h := range hops {
		for _, n := range played.OnHop(h) {
			if all[h] == nil {
				all[h] = &onHop{}
			}
			p, x := &played.HopRecords[n], all[h]
			k := int(p.Retransmitted)
			if !isDiscarded(p) {
				x.first = append(x.first, p.Start)
				k += len(piecesOf(played, p))
			}
			if x.packets += k; p.Flags&link.CarriesMark != 0 {
				x.ce += k
			}
			marks += uint64(p.Marked)
			again += int(p.Retransmitted)
		}
	}
	return all, marks, again
}

// captured is what a file has on each interface. first is of all packets.
func captured(packets []packet) map[int]*onHop {
	all := map[int]*onHop{}
	for _, p := range packets {
		if !p.isData() {
			continue
		}
		if all[p.iface] == nil {
			all[p.iface] = &onHop{}
		}
		x := all[p.iface]
		x.first = append(x.first, p.at)
		if x.packets++; p.ip.TOS&3 == ecnMarked {
			x.ce++
		}
	}
	return all
}

// Each hop has the segments that the model has there, when it has them there, with the marks that they carry, and what
// is sent again up to the hop that loses it.
func TestLinksHaveWhatTheModelHas(t *testing.T) {
	hops := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11} // the ports and links of three nodes
	for name, transport := range transports {
		for _, loss := range []string{"0%", "0.5%"} {
			played, sum, packets := write(t, hops, packetFormat, "  loss: "+loss, "  ecn: 100K", transport)
			want, marks, again := modelled(played, hops)
			got := captured(packets)
			if sum.Marks != marks || marks == 0 || sum.Repeated != again || (again > 0) != (loss != "0%") ||
				sum.Messages != 3 {
				t.Errorf("%s, loss %s: %+v, want %d marks and %d packets again", name, loss, sum, marks, again)
			}
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
				t.Fatalf("%s: packets on hops %v, want %v", name, slices.Sorted(maps.Keys(got)),
					slices.Sorted(maps.Keys(want)))
			}
			for h, x := range want {
				if g := got[h]; g.packets != x.packets || g.ce != x.ce {
					t.Errorf("%s, loss %s, hop %d: %d packets, %d marked, want %d, %d", name, loss, h, g.packets, g.ce,
						x.packets, x.ce)
				}
				for _, at := range x.first {
					if _, found := slices.BinarySearch(got[h].first, at); !found {
						t.Errorf("%s, loss %s, hop %d: nothing starts at %d", name, loss, h, at)
					}
				}
			}
		}
	}
}

// piecesOf are the packets of a segment: one with rdma, with tcp as many as segmentation offload makes.
func piecesOf(p *replay.Replayed, x *link.HopRecord) []int {
	if p.Fabric.Transport().Kind == link.RDMA {
		return []int{int(x.Bytes)}
	}
	const payload = mtu - header
	most := largest / payload * payload
	return slices.Repeat([]int{most}, (int(x.Bytes)+most-1)/most)
}

// With go-back-N, the numbers at the sender's port have no gap, and a packet that is lost comes again as the first one
// of the next segment.
func TestLostNumbersComeAgain(t *testing.T) {
	_, sum, packets := write(t, []int{0}, packetFormat, "  loss: 1%", transports["go-back-N"])
	next, again := uint32(0), 0
	for _, p := range packets {
		if !p.isData() {
			continue
		}
		if p.roce.PSN+1 == next {
			again++
		} else if p.roce.PSN != next {
			t.Fatalf("PSN %d, want %d", p.roce.PSN, next)
		}
		next = p.roce.PSN + uint32((p.length+mtu-1)/mtu)
	}
	if again != sum.Repeated || again == 0 {
		t.Errorf("%d numbers came again, %d packets are sent again", again, sum.Repeated)
	}
}

// A sender with a congestion window says CWR after each reduction, and for that it has an acknowledgement with ECE
// since the last one. Then the echoes end. Others see no echo of marks, and no sender's NIC sees a mark.
func TestEchoesOfMarks(t *testing.T) {
	for _, name := range []string{"tcp", "reno", "cubic"} {
		played, _, packets := write(t, nil, packetFormat, "  ecn: 100K", transports[name])
		reductions, cwr, echoes, ends, echoed := 0, 0, 0, 0, map[layers.TCPPort]bool{}
		for _, p := range played.HopRecords {
			if p.Flags&link.WindowReduced != 0 {
				reductions++
			}
		}
		for _, p := range packets {
			switch {
			case p.ip.TOS&3 == ecnMarked:
				t.Fatalf("%s: a mark at the sender", name)
			case p.tcp.SYN:
				if p.tcp.ECE != (name != "tcp") || p.tcp.CWR != (name != "tcp" && !p.tcp.ACK) {
					t.Errorf("%s: %+v", name, p.tcp)
				}
			case p.tcp.CWR:
				if cwr++; !echoed[p.tcp.SrcPort] {
					t.Errorf("%s: CWR without ECE", name)
				}
				echoed[p.tcp.SrcPort] = false
			case p.tcp.ECE:
				echoes++
				echoed[p.tcp.DstPort] = true
			case !p.isData() && echoes > 0:
				ends++
			}
		}
		if cwr != reductions || (cwr > 0) != (name != "tcp") || echoes < cwr || (ends > 0) != (name != "tcp") ||
			name == "tcp" && echoes > 0 {
			t.Errorf("%s: %d CWR, %d reductions, %d echoes, %d acknowledgements without one later", name, cwr,
				reductions, echoes, ends)
		}
	}
}

// Links that no message crosses are told.
func TestNothingCrosses(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	played, err := replay.Play(f, replaytest.TwoJobs(t, f))
	if err != nil {
		t.Fatal(err)
	}
	w := pcapng.NewWriter(io.Discard, "test", "")
	if _, err := Write(w, played, Options{Links: []int{f.Link(0, 2)}}); !errors.Is(err, errNotHere) {
		t.Errorf("%v", err)
	}
}

// A segment of 64 KiB is two packets, also if the MTU has room for one.
func TestLargePackets(t *testing.T) {
	_, sum, packets := write(t, nil, transports["tcp"])
	data := 0
	for _, p := range packets {
		if p.isData() {
			data++
		}
	}
	if want := 3 * 2 * (1_250_000/link.MaxSegment + 1); data > want || sum.Messages != 3 {
		t.Errorf("%d packets, at most %d are expected; %+v", data, want, sum)
	}
}
