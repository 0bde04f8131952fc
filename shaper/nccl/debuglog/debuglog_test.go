// SPDX-License-Identifier: Apache-2.0

package debuglog

import (
	"fmt"
	"strings"
	"testing"
)

func describe(line string, found []Message) string {
	var all []string
	for _, m := range found {
		all = append(all, fmt.Sprintf("%s[%s] %s %s", m.Process, m.Device, m.Level, m.Text))
	}
	return strings.Join(append(all, "before "+Before(line, found)), "|")
}

// The forms are those of debug.cc of NCCL 2.4 to 2.30, after what launchers and other programs write.
func TestIn(t *testing.T) {
	var f Finder
	for _, tc := range []struct{ line, want string }{
		{"node-0:10:12 [3] NCCL INFO Using network Socket", "node-0:10[3] INFO Using network Socket|before "},
		{"[1,0]<stdout>:node-0:10:12 [3] NCCL INFO x", "node-0:10[3] INFO x|before "},
		{"  8192  2048  float     sum      -1[0] node-0:10:12 [3] NCCL INFO x",
			"node-0:10[3] INFO x|before   8192  2048  float     sum      -1"},
		{" 0: node-0:10:12 [3] NCCL INFO x", "node-0:10[3] INFO x|before "},
		{"(Worker pid=615, ip=10.0.0.6) node-0:10:12 [3] NCCL INFO x",
			"node-0:10[3] INFO x|before (Worker pid=615, ip=10.0.0.6) "},
		{"[2025-06-01 10:00:00.500] node-0:10:12 [3] NCCL INFO x", "node-0:10[3] INFO x|before "},
		{"  float     sum      -1node-0:10:12 [0] NCCL INFO x", "node-0:10[0] INFO x|before   float     sum      -1"},
		{"  100.66      0[2025-06-01 10:00:00] node-0:10:12 [0] NCCL INFO x",
			"node-0:10[0] INFO x|before   100.66      0"},
		{"stream 0x5a0node-0:10:12 [0] NCCL INFO x", "node-0:10[0] INFO x|before stream 0x5a0"},
		{"a float sum -1other:11:11 [0] NCCL INFO x", "other:11[0] INFO x|before a float sum -1"},
		{"10-0-0-1:11:11 [0] NCCL INFO x", "10-0-0-1:11[0] INFO x|before "},
		{"a float sum -110-0-0-1:11:11 [0] NCCL INFO x", "10-0-0-1:11[0] INFO x|before a float sum -1"},
		{"node-0:10:12 [0] NCCL INFO a bnode-0:10:13 [1] NCCL INFO c",
			"node-0:10[0] INFO a b|node-0:10[1] INFO c|before "},
		{"node-0:10:12 [0] transport/net_ib.cc:94 NCCL WARN late", "node-0:10[0] WARN late|before "},
		{"node-0:10:12 [0] net.cc:94 (init) NCCL WARN late", "node-0:10[0] WARN late|before "},
		{"node-0:10:12 [0] 12.5 init.cc:1 NCCL TRACE t", "node-0:10[0] TRACE t|before "},
		{"node-0:10:12 NCCL CALL ncclInit()", "node-0:10[] CALL ncclInit()|before "},
		{"[2026-05-13 18:01:41] <node>:10:12 [0] NCCL INFO x", "<node>:10[0] INFO x|before "},
		// RCCL's time
		{"node-0:10:12 [1] 1558545003174220 NCCL INFO x", "node-0:10[1] INFO x|before "},
		// 2.11
		{"   64   16     float     sumnode-9:10:12 [1] NCCL INFO x",
			"node-9:10[1] INFO x|before    64   16     float     sum"},
		{"   64   16     floatnode-8:10:12 [1] NCCL INFO x", "node-8:10[1] INFO x|before    64   16     float"},
		{"0: summit-2:10:12 [1] NCCL INFO x", "summit-2:10[1] INFO x|before "},
		{"a line about NCCL INFO lines", "before a line about NCCL INFO lines"},
		{"x NCCL version 2.22.3", "before x NCCL version 2.22.3"},
		{":10:12 [0] NCCL INFO no host", "before :10:12 [0] NCCL INFO no host"},
	} {
		if got := describe(tc.line, f.In(tc.line, nil)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for line, want := range map[string]string{
		`{"log":"h:1:2 [0] NCCL INFO \u003ca\u003e\n","stream":"stdout","time":"2024-09-18T10:00:00.1Z"}`: "h:1:2 [0] NCCL INFO <a>",
		`{"log":"cut`:                   `{"log":"cut`,
		`{"entries": []}`:               `{"entries": []}`,
		"\x1b[32mh:1:2 [0] NCCL\x1b[0m": "h:1:2 [0] NCCL",
	} {
		if got := Plain(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func FuzzIn(f *testing.F) {
	f.Add("h:1:2 [0] NCCL INFO a", "-1h:1:2 [0] NCCL INFO b NCCL WARN 0h:1:3 [1] x:1 NCCL WARN c")
	f.Fuzz(func(t *testing.T, a, b string) {
		var finder Finder
		for _, line := range []string{a, b, a} {
			end := 0
			for _, m := range finder.In(line, nil) {
				if m.Begin < end || m.End < m.Begin || m.End > len(line) ||
					!strings.HasPrefix(line[m.Begin:], m.Process) || !strings.HasSuffix(line[:m.End], m.Text) {
					t.Fatalf("%q: %+v", line, m)
				}
				end = m.End
			}
		}
	})
}
