// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

// seen is what testdata/read_perfetto.py prints.
type seen struct {
	Unknown, Unmatched, Arrows, Counters int
	WrongArrows                          [][][]any `json:"wrong_arrows"`
	Roots, Tracks, Names                 []string
	First, Last                          int64
	Clock                                int
	Clocks                               map[string]int64
	Slices                               []drawnSlice // of ranks' own rows, in the order of begins
}

// drawnSlice is a slice on a row of a rank.
type drawnSlice struct {
	Rank, Track, Name string
	Depth             int
	Begin, End        int64
}

// perfetto reads a trace with Perfetto's classes.
func perfetto(t *testing.T, path string) (s seen) {
	t.Helper()
	lib, err := filepath.Abs("../../build/perfetto")
	if err != nil {
		t.Fatal(err)
	}
	needs.PyPI(t, filepath.Join(lib, "version"))
	cmd := exec.CommandContext(t.Context(), needs.Program(t, "python3"), "testdata/read_perfetto.py", path)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+lib)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	if s.Unknown != 0 || s.Unmatched != 0 || len(s.WrongArrows) != 0 {
		t.Errorf("%d unknown fields, %d slices without a begin or an end, wrong arrows %.5v", s.Unknown, s.Unmatched,
			s.WrongArrows)
	}
	return s
}

// Perfetto's own classes know every field of a trace; each message has its arrow.
func TestPerfettoReadsTraces(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string // names of tracks and events
	}{
		"alltoall": {[]string{"alltoall", "--profile", "ndr400", "--ranks", "4", "-b", "1M", "-e", "1M"},
			[]string{"node3 tx", "node0:node1 rate", "node1 rx queue", "AllToAll #0", "serializing on node0 tx",
				"to rank 2, channel 1"}},
		"lossy": {[]string{"allreduce", "--profile", "ndr400", "--set", "link.loss=0.5%", "--ranks", "3", "-b", "4M", "-e",
			"4M"}, []string{"node1 tx packets sent again", "AllReduce #0"}},
		"leaf-spine": {[]string{"broadcast", "--profile", "roce100", "--ranks", "4", "-b", "1M", "-e", "1M"},
			[]string{"links", "Broadcast #0"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := record(t, append(tc.args, "-n", "3", "-w", "1")...)
			file := filepath.Join(t.TempDir(), "x.pftrace")
			out := ddlemu(t, "trace", dir, "-o", file)
			s := perfetto(t, file)
			if n := len(messagesOf(t, dir)); s.Arrows != n || !strings.Contains(out, fmt.Sprintf("%d messages", n)) {
				t.Errorf("%d arrows, %d messages: %s", s.Arrows, n, out)
			}
			if s.Counters == 0 || !slices.Contains(s.Roots, "critical paths") || !slices.Contains(s.Roots, "node0") {
				t.Errorf("%d counters, tracks %q", s.Counters, s.Roots)
			}
			for _, want := range tc.want {
				if !slices.Contains(s.Tracks, want) && !slices.Contains(s.Names, want) {
					t.Errorf("no %q", want)
				}
			}
		})
	}
}

// PyTorch's trace is on the same time axis: what it did while the job ran lies within the job.
func TestWithTraceOfPyTorch(t *testing.T) {
	begin := time.Now()
	dir := record(t, "allreduce", "--profile", "eth10", "--clock", "real", "--set", "time_scale=16", "--ranks", "2", "-b",
		"64K", "-e", "64K", "-n", "3")
	end := time.Now()
	const base = 1_700_000_000_000_000_000
	kineto := filepath.Join(t.TempDir(), "rank0.json")
	text := fmt.Sprintf(`{"schemaVersion": 1, "traceEvents": [
		{"ph": "M", "ts": 0, "name": "process_name", "pid": 7, "args": {"name": "python"}},
		{"ph": "X", "name": "step", "pid": 7, "tid": 7, "ts": %.3f, "dur": 5.0}], "baseTimeNanoseconds": %d, "displayTimeUnit": "ms"}`, float64(begin.UnixNano()-base)/1000, int64(base))
	if err := os.WriteFile(kineto, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.zip")
	out := ddlemu(t, "trace", dir, "-o", file, "--with", kineto)
	if !strings.Contains(out, "another time") { // it was before the first message
		t.Errorf("%s", out)
	}
	parts := unzip(t, file)
	if string(parts["rank0.json"]) != text {
		t.Error("PyTorch's trace is not in the archive as it was")
	}
	var m struct {
		Manifest struct {
			Version   int
			TraceTime map[string]string `json:"trace_time"`
			Files     []struct {
				Path   string
				Clocks *struct {
					To     map[string]string `json:"sync_to"`
					Offset int64             `json:"offset_ns"`
				}
			}
		} `json:"perfetto_manifest"`
	}
	if err := json.Unmarshal(parts["perfetto_manifest.json"], &m); err != nil {
		t.Fatal(err)
	}
	files := m.Manifest.Files
	if m.Manifest.Version != 1 || len(files) != 2 || files[1].Path != "rank0.json" || files[1].Clocks == nil ||
		files[1].Clocks.Offset != base || files[1].Clocks.To["file"] != files[0].Path {
		t.Fatalf("%s", parts["perfetto_manifest.json"])
	}
	if !strings.HasPrefix(strings.Join(strings.Fields(string(parts["perfetto_manifest.json"])), ""),
		`{"perfetto_manifest"`) {
		t.Error("Perfetto knows a manifest by its begin")
	}
	own := filepath.Join(t.TempDir(), "own.pftrace")
	if err := os.WriteFile(own, parts[files[0].Path], 0o600); err != nil {
		t.Fatal(err)
	}
	s := perfetto(t, own)
	if s.Clock != 1 || s.First < begin.UnixNano() || s.Last > end.UnixNano() || s.Clocks["1"] == 0 {
		t.Errorf("times of clock %d from %d to %d; the job ran from %d to %d", s.Clock, s.First, s.Last,
			begin.UnixNano(), end.UnixNano())
	}
}

// unzip returns the files of an archive.
func unzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
