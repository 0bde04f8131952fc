// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// A forecast has the title of its command, and no columns that compare its times with themselves.
func TestForecastOutput(t *testing.T) {
	for _, forecast := range []bool{false, true} {
		r := swept(t, "bw=1G,10G", 200, 100).Results[0]
		r.Forecast = forecast
		r.InForce, r.NotIn = configs.InForce{Text: "ndr400: bandwidth 400Gbps"}, []string{"launch time"}
		r.Calls = []play.Calls{{Func: "AllReduce", Comm: "c0", Count: 1}}
		var b strings.Builder
		if err := r.WriteText(&b, ""); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for part, want := range map[string]bool{"# ddlemu expect ": forecast, "# ddlemu replay ": !forecast,
			"expected": !forecast, "diff": !forecast, "\n# fabric: ndr400: bandwidth 400Gbps\n": true,
			"\n# not in the numbers: launch time\n": true} {
			if strings.Contains(text, part) != want {
				t.Errorf("forecast %v, %q wanted: %v\n%s", forecast, part, want, text)
			}
		}
	}
}
