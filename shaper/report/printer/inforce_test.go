// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Each form of the header has what is in force, and in_force of JSON what is otherwise than in the profile.
func TestHeaderSaysWhatIsInForce(t *testing.T) {
	base, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	lossy := *base
	lossy.Link.Loss.P = 0.1
	for _, f := range []*configs.Fabric{base, &lossy} {
		in := f.InForce(base)
		var text, document, table bytes.Buffer
		for _, p := range []bench.Printer{NewText(&text), NewJSON(&document), NewCSV(&table)} {
			if err := p.Begin(bench.Header{Profile: "ndr400", InForce: in.Changes(), Fabric: in,
				NotIn: []string{"launch time", "other traffic"}}); err != nil {
				t.Fatal(err)
			}
			if err := p.End(bench.Summary{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, got := range []string{text.String(), table.String()} {
			if !strings.Contains(got, "\n# fabric: "+in.Text+"\n") {
				t.Errorf("lacks %q:\n%s", in.Text, got)
			}
			if !strings.Contains(got, "\n# not in the numbers: launch time; other traffic\n") {
				t.Errorf("does not say what is not in the numbers:\n%s", got)
			}
		}
		var got struct {
			Header struct {
				InForce string          `json:"in_force"`
				Fabric  configs.InForce `json:"fabric_in_force"`
				NotIn   []string        `json:"not_in_numbers"`
			} `json:"header"`
		}
		if err := json.Unmarshal(document.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if h := got.Header; h.InForce != in.Changes() || h.Fabric.Text != in.Text ||
			h.Fabric.Link != f.Link.JSON() || len(h.Fabric.Overridden) != len(in.Overridden) || len(h.NotIn) != 2 {
			t.Errorf("JSON has %+v", h)
		}
	}
}
