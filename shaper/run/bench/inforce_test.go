// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"strings"
	"testing"
)

// The header names what the fabric has otherwise than its profile, and is as without it if there is nothing.
func TestHeaderSaysWhatIsInForce(t *testing.T) {
	for _, inForce := range []string{"", "ndr400 with loss 10% (none)"} {
		var text, document bytes.Buffer
		for _, p := range []Printer{NewText(&text), NewJSON(&document)} {
			if err := p.Begin(Header{Profile: "ndr400", InForce: inForce}); err != nil {
				t.Fatal(err)
			}
			if err := p.End(Summary{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Contains(text.String(), "\n# fabric: "+inForce+"\n"); got != (inForce != "") {
			t.Errorf("%q in the table: %v\n%s", inForce, got, text.String())
		}
		if got := strings.Contains(document.String(), "in_force"); got != (inForce != "") ||
			!strings.Contains(document.String(), inForce) {
			t.Errorf("%q in JSON: %v\n%s", inForce, got, document.String())
		}
	}
}
