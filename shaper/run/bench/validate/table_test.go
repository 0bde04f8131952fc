// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

const head = "# collective: all_reduce\n# ranks: 4\n"

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader("# source: a: b\n# system: two boxes\n" + head +
		"# nodes: 2\n# env: NCCL_PROTO=Simple NCCL_ALGO=Ring\ntime_us,algbw,bytes\r\n65.7, 0.1, 4\n\n1e3,0,1048576\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Table{
		Source: "a: b", System: "two boxes", Collective: nccl.AllReduce, Ranks: 4, Nodes: 2,
		Env:  []string{"NCCL_PROTO=Simple", "NCCL_ALGO=Ring"},
		Rows: []Row{{8, 4, 65700}, {10, 1 << 20, time.Millisecond}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// Excel's "CSV UTF-8" begins with a byte order mark.
func TestReadByteOrderMark(t *testing.T) {
	got, err := Read(strings.NewReader("\ufeff" + head + "bytes,time_us\r\n4,65.7\r\n"))
	if err != nil || got.Collective != nccl.AllReduce || len(got.Rows) != 1 || got.Rows[0].Line != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", `the table does not say "# collective: NAME": add that line before it`},
		{"# collective: all_reduce\nbytes,time_us\n4,1\n",
			`the table does not say "# ranks: N": add that line before it`},
		{"# collective: sum\n", "line 1: collective: "},
		{"# ranks: 1\n", `line 1: ranks: "1" is not a number from 2 to`},
		{head + "# nodes: 3\nbytes,time_us\n4,1\n", "4 ranks do not divide among 3 nodes"},
		{"# source: a\n# system: b\n# collective: hypercube\n# ranks: 6\nbytes,time_us\n4,1\n",
			"hypercube among 6 ranks: their number must be a power of two"},
		{head + "# a remark\n", `line 3: "# a remark" is not "# key: value"`},
		{head + "# size: 4\n", "line 3: size: is not a key here"},
		{head + "# env: LD_PRELOAD=x.so\n", `line 3: env: "LD_PRELOAD=x.so" is not one of NCCL_ALGO`},
		{head + "# env: NCCL_PROTO\n", `line 3: env: "NCCL_PROTO" is not one of`},
		{head, "line 3: no column names"},
		{head + "size,time\n", "line 3: columns size,time: bytes and time_us are needed"},
		{head + "bytes,time_us\n", "the table has no rows"},
		{head + "bytes,time_us\n4\n", "line 4: wrong number of fields"},
		{head + "bytes,time_us\n4,1\n\"\n", "line 5: "},
		{head + "bytes,time_us\n4K,1\n", `line 4: bytes "4K": not a whole number`},
		{head + "bytes,time_us\n0,1\n", `line 4: bytes "0": not a whole number`},
		{head + "bytes,time_us\n4,0\n", `line 4: time_us "0": not a number above 0`},
		{head + "bytes,time_us\n4,NaN\n", `line 4: time_us "NaN": not a number`},
		{head + "bytes,time_us\n6,1\n", "line 4: 6 bytes: all_reduce of float among 4 ranks moves 4"},
		{head + "bytes,time_us\n8,1\n# 4,1\n4,1\n", `line 5: bytes "# 4": not a whole number`},
		{head + "bytes,time_us\n8,1\n8,1\n", "line 5: 8 bytes after 8: sizes must rise"},
		{strings.Repeat("#", maxFile+1), "the table has more than"},
	} {
		_, err := Read(strings.NewReader(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestBetween(t *testing.T) {
	table := Table{Rows: []Row{{Size: 4}, {Size: 8}, {Size: 16}}}
	if err := table.Between(5, 16); err != nil || len(table.Rows) != 2 || table.Rows[0].Size != 8 {
		t.Errorf("%v, %v", table.Rows, err)
	}
	if err := table.Between(9, 15); err == nil || len(table.Rows) != 2 {
		t.Errorf("%v, %v", table.Rows, err)
	}
}

// Every table that Read accepts can be run.
func FuzzRead(f *testing.F) {
	t4, err := os.ReadFile(t4Table)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(t4)
	f.Add([]byte(head + "bytes,time_us\n4,1\n8,2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if len(table.Rows) == 0 || table.Ranks < 2 || table.Ranks%table.Nodes != 0 {
			t.Fatalf("%+v", table)
		}
		last := int64(0)
		for _, r := range table.Rows {
			if r.Size <= last || r.Time < 0 || r.Line < 1 {
				t.Fatalf("%+v", table.Rows)
			}
			last = r.Size
		}
	})
}
