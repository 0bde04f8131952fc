// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/gopacket/pcapgo"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// Times are of the emulated network, packets of other links are left out, and what is missing is counted with the
// link that it is missing on.
func TestWriter(t *testing.T) {
	const scale = 4
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.TimeScale = 3, scale
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	p := pcapng.NewWriter(&file, "test", "")
	links := []int{fab.Link(0, 1), fab.Link(1, 0)}
	w := NewWriter(p, Options{Fabric: fab, Links: links, Kind: tap.Programs, Shaper: "htb", Snap: 100})
	at := func(ns int64) int64 { return w.begun + ns*scale }
	packet := bytes.Repeat([]byte{1}, 60)
	for _, r := range []tap.Record{
		{Enqueued: at(1000), Departs: at(3000), Hop: uint32(links[0]), Length: 60, Packets: 1, Data: packet},
		{Enqueued: at(1500), Hop: uint32(fab.Link(0, 2)), Length: 60, Packets: 1, Data: packet},
		{Enqueued: at(2000), Hop: uint32(links[1]), Length: 3000, Packets: 2, Data: packet, Fate: tap.Lost, Missed: 5},
		{Enqueued: at(3000), Hop: uint32(links[1]), Length: 60, Packets: 1, Data: packet, Fate: tap.PortFull},
		{Hop: uint32(links[0]), Missed: 3, Fate: tap.Notice},
		{Hop: tap.NoHop, Missed: 1, Fate: tap.Notice},
	} {
		w.Add(&r)
	}
	if got, want := w.Close(), (Summary{Records: 3, Packets: 4, Lost: 2, Full: 1, Missed: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{"ddlemu fate=sent delay=2000 packets=1", "ddlemu fate=lost packets=2",
		"ddlemu fate=port-full packets=1"} {
		if !bytes.Contains(file.Bytes(), []byte(comment)) {
			t.Errorf("no comment %q", comment)
		}
	}
	checkFile(t, &file, w.date)
}

// checkFile reads the file of TestWriter, which begins at a date, with gopacket.
func checkFile(t *testing.T, file io.Reader, date int64) {
	t.Helper()
	type line struct {
		iface, length int
		at            int64
	}
	want := []line{{0, 60, 1000}, {1, 3000, 2000}, {1, 60, 3000}}
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		_, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) && i == len(want) {
			break
		}
		if err != nil || i == len(want) {
			t.Fatalf("packet %d: %v", i, err)
		}
		if got := (line{info.InterfaceIndex, info.Length, info.Timestamp.UnixNano() - date}); got != want[i] {
			t.Errorf("packet %d: %+v, want %+v", i, got, want[i])
		}
	}
	for i, came := range []uint64{4, 7} {
		x, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		if s := x.Statistics; s.PacketsReceived != came || s.PacketsDropped != []uint64{3, 5}[i] ||
			x.SnapLength != 100 {
			t.Errorf("interface %d: %+v", i, x)
		}
	}
}
