// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// said is one packet of a connection.
type said struct {
	back  bool // from the side that was connected to
	flags byte
	seq   uint32
	data  string
}

// hello is how NCCL begins: a magic and the kind of socket.
func hello(magic uint64, kind uint32) string {
	return string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, magic), kind))
}

func TestClasses(t *testing.T) {
	nccl := hello(ncclMagic, ncclBootstrap)
	own := hello(0x1234567890abcdef, ncclProxy)
	open := []said{{flags: tcpSYN, seq: 99}, {back: true, flags: tcpSYN | tcpACK, seq: 7}}
	for name, tc := range map[string]struct {
		packets []said
		want    int // class of the last packet
	}{
		"the plugin":              {append(open, said{seq: 100, data: pluginMagic + "more"}), state.PluginFlow},
		"the plugin, answered":    {append(open, said{seq: 100, data: pluginMagic}, said{back: true, seq: 8, data: "ok"}), state.PluginFlow},
		"the plugin, in pieces":   {append(open, said{seq: 100, data: pluginMagic[:3]}, said{seq: 103, data: pluginMagic[3:]}), state.PluginFlow},
		"NCCL":                    {append(open, said{seq: 100, data: nccl[:8]}, said{seq: 108, data: nccl[8:]}), state.BootstrapFlow},
		"NCCL, at once":           {append(open, said{seq: 100, data: nccl}), state.BootstrapFlow},
		"NCCL, sent twice":        {append(open, said{seq: 100, data: nccl[:8]}, said{seq: 100, data: nccl[:8]}, said{seq: 108, data: nccl[8:]}), state.BootstrapFlow},
		"NCCL's own data":         {append(open, said{seq: 100, data: hello(ncclMagic, 3)}), state.OtherFlow},
		"NCCL with its own word":  {append(open, said{seq: 100, data: own[:8]}, said{seq: 108, data: own[8:]}), state.BootstrapFlow},
		"something else":          {append(open, said{seq: 100, data: "GET / HTTP/1.1\r\n"}, said{seq: 116, data: "Host: a"}), state.OtherFlow},
		"the wrong side":          {append(open, said{back: true, seq: 100, data: pluginMagic}), state.OtherFlow},
		"not seen from its begin": {[]said{{seq: 100, data: pluginMagic}}, state.OtherFlow},
		"the ports again":         {append(append(open, said{seq: 100, data: pluginMagic}), append(open, said{seq: 100, data: "something else"})...), state.OtherFlow},
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

func packetOf(t *testing.T, s said, from, to uint16) *packet {
	t.Helper()
	p := &packet{src: 0, dst: 1}
	if s.back {
		p.src, p.dst, from, to = 1, 0, to, from
	}
	p.buf = sample{seq: s.seq, flags: s.flags, data: []byte(s.data)}.make()
	var err error
	if p.headers, err = parse(p.buf); err != nil {
		t.Fatal(err)
	}
	l4 := p.buf[vnetLen+p.headers.l4:]
	binary.BigEndian.PutUint16(l4, from)
	binary.BigEndian.PutUint16(l4[2:], to)
	return p
}

// However many connections there are, those that are busy are still known.
func TestClassesBounded(t *testing.T) {
	table := &flows{}
	busy := func(now int64, s said) int {
		p := packetOf(t, s, 1, 2)
		p.arrived = now
		return table.classOf(p)
	}
	busy(1, said{flags: tcpSYN, seq: 99})
	busy(2, said{seq: 100, data: pluginMagic})
	for i := range 3 * flowSlots {
		p := packetOf(t, said{flags: tcpSYN}, uint16(i), uint16(3+i>>16))
		p.arrived = int64(10 + i)
		table.classOf(p)
		if i%flowWays == 0 {
			if c := busy(p.arrived, said{seq: 200, data: "data"}); c != state.PluginFlow {
				t.Fatalf("after %d other connections it is of class %d", i, c)
			}
		}
	}
}
