// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

const leafSpine = "../../configs/examples/leaf-spine.yaml"

// The pages of small and large fabrics can be read on narrow and wide, light and dark screens. They open on the link
// that was the busiest since the job's start, also if the server was started after it.
func TestServeLooks(t *testing.T) {
	w := newUser(t)
	spine := filepath.Join(t.TempDir(), "spine.yaml")
	text := "name: spine\nbase: ndr400\nnodes: 64\ntopology: {kind: leaf-spine, leaves: 8, spines: 8, trunk: {latency: 1us}}\n"
	if err := os.WriteFile(spine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Run("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual", "--name", "two")
	w.Run("up", "-f", leafSpine, "--clock", "virtual", "--name", "eight")
	w.Run("up", "-f", spine, "--clock", "virtual", "--name", "big")
	w.Run("bench", "allreduce", "--fabric", "two", "--ranks", "2", "-b", "16M", "-e", "16M", "-n", "2")
	w.Run("bench", "alltoall", "--fabric", "eight", "--ranks", "8", "-b", "1M", "-e", "1M", "-n", "2")
	w.Run("shape", "--fabric", "eight", "--link", "node3", "--down")
	w.Run("shape", "--fabric", "big", "--loss", "0.1%")
	b := start(t)
	for _, c := range []struct{ fabric, busiest, about string }{
		{"two", "node0 tx", "Job 0 from its begin, "},
		{"eight", "leaf1:spine1", "Job 0 from its begin, "}, // half the rate of the other trunks
		{"big", "node0 tx", "No job has run"},
	} {
		s := w.serve("--fabric", c.fabric, "--listen", "127.0.0.1:0")
		b.show(s.url)
		b.await(c.fabric+" has no history", `document.querySelector("#history .about").textContent.startsWith("`+c.about+`")`)
		if got := b.text("#history h3"); got != c.busiest {
			t.Errorf("%s opens on %q, want %q", c.fabric, got, c.busiest)
		}
		b.looks("serve " + c.fabric)
		b.formInView()
		b.do(chromedp.Navigate("about:blank")) // the page asks its server again and again, and would complain
		w.stop(s)
	}
}

// formInView scrolls to the end of the page, on a small and on a large screen.
func (b *browser) formInView() {
	b.Helper()
	for _, width := range []int64{360, 800, 1600} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, end := range []string{"0", "document.documentElement.scrollHeight"} {
			if at := eval[string](b, `(() => {
				scrollTo(0, `+end+`);
				const box = document.querySelector("#shape").getBoundingClientRect();
				return box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth ? "" : JSON.stringify(box);
			})()`); at != "" {
				b.Errorf("on a screen of %d the form is out of view, scrolled to %s: %s", width, end, at)
			}
		}
	}
}
