// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// In a recording, a computation of which there is an interval takes its max_ns and waits for nothing; all other
// operations stay. Of another source only the time changes.
func TestLongest(t *testing.T) {
	const lines = `
{"id":1,"op":"coll","stream":"n","func":"AllReduce","count":10,"type":"float32"}
{"rank":"0-2","op":"wait","after":[1]}
{"rank":0,"id":2,"op":"calc","ns":10,"max_ns":25}
{"rank":1,"id":2,"op":"calc","ns":7}
{"rank":2,"id":2,"op":"calc","after":[1],"ns":10,"max_ns":25}
{"id":3,"op":"coll","stream":"n","func":"AllReduce","count":10,"type":"float32"}
{"op":"step"}
`
	for kind, want := range map[string]string{
		"ledger": strings.NewReplacer(`"0-2","op":"wait"`, `1,"op":"wait"`, `"ns":10,"max_ns":25`, `"ns":25`,
			`"calc","after":[1]`, `"calc"`).Replace(lines),
		"kineto": strings.ReplaceAll(lines, `"ns":10,"max_ns":25`, `"ns":25`),
	} {
		head := `{"format":"ddlemu.workload/1","ranks":3,"source":{"kind":"` + kind + `"}}`
		got := longestOf(t, head+lines)
		if _, ops, _ := strings.Cut(got, "\n"); "\n"+ops != want {
			t.Errorf("%s:\n%s\nwant%s", kind, ops, want)
		}
		if again := longestOf(t, got); again != got {
			t.Errorf("%s: the second time it is\n%s\nnot\n%s", kind, again, got)
		}
	}
}

// longestOf is the longest case of a workload, which is valid.
func longestOf(t *testing.T, text string) string {
	t.Helper()
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	out := Longest(ix)
	if _, err := out.Index(); err != nil {
		t.Fatal(err)
	}
	if Uncertain(out) {
		t.Error("a computation is still uncertain")
	}
	var b bytes.Buffer
	if err := out.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
