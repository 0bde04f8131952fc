// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/test/pagecheck"
)

// The check of pages sees each fault in a page that has no other, and none in a page without.
func TestPageCheckSeesFaults(t *testing.T) {
	const long = "a text that is far longer than what is around it"
	b := start(t)
	for _, c := range []struct{ page, want string }{
		{`<p>one</p><p>two</p><div style="overflow:auto;width:50px"><table><td style="white-space:nowrap">` + long +
			`</table></div><svg width="300" height="40"><rect width="300" height="40"/><text fill="#fff" y="20">three</text></svg>`, ""},
		{`<p>one</p><p style="margin-top:-30px">two</p>`, `"one" and "two" overlap`},
		{`<svg width="300" height="40"><text y="20">one</text><text x="20" y="22">two</text></svg>`,
			`"one" and "two" overlap`},
		{`<div style="overflow:hidden;width:50px;white-space:nowrap">` + long + `</div>`, "is cut off"},
		{`<svg width="30" height="40"><text y="20">` + long + `</text></svg>`, "is cut off"},
		{`<p style="white-space:nowrap">` + strings.Repeat(long, 3) + `</p>`, "is outside of the page"},
		{`<p style="font-size:5px">small</p>`, `"small" is only`},
		{`<p style="color:#ccc">faint</p>`, `"faint" has a contrast`},
		{`<svg width="300" height="40"><rect width="300" height="40"/><text y="20">black</text></svg>`,
			`"black" has a contrast`},
		{`<canvas width="300" height="50"></canvas><script>
			const c = document.querySelector("canvas").getContext("2d");
			c.fillText("gone", 10, 20);
			c.clearRect(0, 0, 300, 50);
			c.fillText("one", 10, 20);
			c.fillText("two", 20, 22);
		</script>`, `"one" and "two" overlap`},
	} {
		b.do(chromedp.Navigate("data:text/html," + url.PathEscape("<!doctype html>"+c.page)))
		if err := pagecheck.Show(b.ctx, pagecheck.Look{Width: 800}); err != nil {
			t.Fatal(err)
		}
		found, err := pagecheck.Problems(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(found, "\n")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "gone") {
			t.Errorf("%s:\n%q, want %q", c.page, got, c.want)
		}
	}
}
