// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// A text of ASTRA-sim 1 has the calls, and the sizes of them, that Chakra's own converter makes of it.
func TestTextAsChakraConvertsIt(t *testing.T) {
	calls := func(w *workload.Workload) (out []workload.Op) {
		for _, o := range w.Ops {
			if o.Kind == workload.Coll {
				out = append(out, workload.Op{Func: o.Func, Count: o.Bytes(w.Head.Ranks)})
			}
		}
		return out
	}
	for _, name := range []string{"model", "hybrid", "dlrm"} {
		base := filepath.Join("testdata", "astrasim", name)
		text, err := Read([]input.File{input.Path(base + ".txt")}, "", input.Options{Ranks: 4})
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(base + ".*.et")
		traces, err := Read(input.Paths(files), "", input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(calls(traces), calls(text)); d != "" || len(calls(text)) == 0 {
			t.Errorf("%s: %s", name, d)
		}
	}
}
