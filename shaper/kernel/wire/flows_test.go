// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// segment is one TCP segment of a connection.
type segment struct {
	reply bool // from the accepting side
	flags byte
	seq   uint32
	data  string
}

// ncclHello returns the first bytes of a connection of NCCL: a magic and the type of socket.
func ncclHello(magic uint64, kind uint32) string {
	return string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, magic), kind))
}

func TestClasses(t *testing.T) {
	nccl := ncclHello(ncclMagic, ncclBootstrap)
	custom := ncclHello(0x1234567890abcdef, ncclProxy)
	open := []segment{{flags: tcpSYN, seq: 99}, {reply: true, flags: tcpSYN | tcpACK, seq: 7}}
	for name, tc := range map[string]struct {
		packets []segment
		want    int // class of the last packet
	}{
		"plugin": {append(open, segment{seq: 100, data: pluginMagic + "more"}), state.PluginFlow},
		"plugin, after a reply": {
			append(open, segment{seq: 100, data: pluginMagic}, segment{reply: true, seq: 8, data: "ok"}),
			state.PluginFlow},
		"plugin, in two segments": {append(open, segment{seq: 100, data: pluginMagic[:3]},
			segment{seq: 103, data: pluginMagic[3:]}), state.PluginFlow},
		"NCCL, in two segments": {
			append(open, segment{seq: 100, data: nccl[:8]}, segment{seq: 108, data: nccl[8:]}), state.BootstrapFlow},
		"NCCL, in one segment": {append(open, segment{seq: 100, data: nccl}), state.BootstrapFlow},
		"NCCL, retransmitted": {append(open, segment{seq: 100, data: nccl[:8]}, segment{seq: 100, data: nccl[:8]},
			segment{seq: 108, data: nccl[8:]}), state.BootstrapFlow},
		"NCCL's socket transport": {append(open, segment{seq: 100, data: ncclHello(ncclMagic, 3)}), state.OtherFlow},
		"NCCL, magic of its own": {
			append(open, segment{seq: 100, data: custom[:8]}, segment{seq: 108, data: custom[8:]}),
			state.BootstrapFlow},
		"another program": {append(open, segment{seq: 100, data: "GET / HTTP/1.1\r\n"},
			segment{seq: 116, data: "Host: a"}), state.OtherFlow},
		"magic from accepting side": {append(open, segment{reply: true, seq: 100, data: pluginMagic}), state.OtherFlow},
		"beginning not seen":        {[]segment{{seq: 100, data: pluginMagic}}, state.OtherFlow},
		"same ports used again": {append(append(open, segment{seq: 100, data: pluginMagic}),
			append(open, segment{seq: 100, data: "something else"})...), state.OtherFlow},
	} {
		table := &flows{}
		class := -1
		for _, s := range tc.packets {
			class = table.classOf(packetOf(t, s, 1000, 2000))
		}
		if class != tc.want {
			t.Errorf("%s: class %d, want %d", name, class, tc.want)
		}
	}
}

func packetOf(t *testing.T, s segment, from, to uint16) *packet {
	t.Helper()
	p := &packet{src: 0, dst: 1}
	if s.reply {
		p.src, p.dst, from, to = 1, 0, to, from
	}
	p.buf = sample{seq: s.seq, flags: s.flags, data: []byte(s.data)}.bytes()
	var err error
	if p.headers, err = parse(p.buf); err != nil {
		t.Fatal(err)
	}
	l4 := p.buf[vnetLen+p.headers.l4:]
	binary.BigEndian.PutUint16(l4, from)
	binary.BigEndian.PutUint16(l4[2:], to)
	return p
}

// A connection that is in use keeps its class, however many others there are.
func TestClassesOfManyConnections(t *testing.T) {
	table := &flows{}
	busy := func(now int64, s segment) int {
		p := packetOf(t, s, 1, 2)
		p.arrived = now
		return table.classOf(p)
	}
	busy(1, segment{flags: tcpSYN, seq: 99})
	busy(2, segment{seq: 100, data: pluginMagic})
	for i := range 3 * flowSlots {
		p := packetOf(t, segment{flags: tcpSYN}, uint16(i), uint16(3+i>>16))
		p.arrived = int64(10 + i)
		table.classOf(p)
		if i%slotsPerSet == 0 {
			if c := busy(p.arrived, segment{seq: 200, data: "data"}); c != state.PluginFlow {
				t.Fatalf("after %d other connections its class is %d", i, c)
			}
		}
	}
}
