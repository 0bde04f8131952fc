// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Whatever a file says, the matching ends, and each finding names a line of the file.
func FuzzRun(f *testing.F) {
	f.Add([]byte(head2 + `{"op":"coll","func":"AllReduce","count":1,"type":"int8","id":1}` + "\n" +
		`{"op":"wait","after":[1]}` + "\n" + `{"rank":0,"op":"send","count":1,"type":"int8","peer":1}`))
	f.Add(
		[]byte(
			`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"a","ranks":"0-2:2"},{"name":"a","ranks":"1"},{"name":"b","ranks":"0-3"}]}` + "\n" +
				`{"rank":"0-2","op":"group","stream":"s","ops":[{"op":"send","comm":"b","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","comm":"b","count":1,"type":"int8","peer":-1,"relative":true},{"op":"coll","comm":"a","func":"Reduce","type":"int8"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := workload.Read("f", bytes.NewReader(data))
		if err != nil || w.Head.Ranks > 100 {
			return
		}
		ix, err := w.Index()
		if err != nil {
			t.Fatal(err)
		}
		found, err := Run(context.Background(), ix)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found {
			if x.Line < 2 || x.Line > len(w.Ops)+1 || len(x.Ranks) == 0 || x.Text == "" {
				t.Fatalf("%+v", x)
			}
		}
		if levels, err := Levels(context.Background(), ix); err != nil || (levels == nil) != (len(found) > 0) {
			t.Fatalf("%d findings, levels %v, %v", len(found), levels, err)
		}
	})
}
