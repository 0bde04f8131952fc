// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/pagecheck"
)

// browser is a page in Chromium.
type browser struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // on the console, and those that no code caught
}

// start starts Chromium with an empty page. A test that looks at several pages starts one for all of them.
func start(t *testing.T) *browser {
	t.Helper()
	b := &browser{T: t}
	b.ctx = pagecheck.Start(t, needs.Optional(t, "chromium"), chromedp.WithListener(b.listen))
	return b
}

// open shows a page in a Chromium of its own and waits until it is drawn.
func open(t *testing.T, url string) *browser {
	t.Helper()
	b := start(t)
	b.show(url)
	return b
}

// show shows another page and waits until it is drawn.
func (b *browser) show(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitVisible(`body[data-drawn="yes"]`))
}

// looks checks the page in all looks: its texts can be read and do not overlap, and it does not complain. name is that
// of its pictures.
func (b *browser) looks(name string) {
	b.Helper()
	for _, l := range pagecheck.Looks() {
		b.look(name, l)
	}
	b.noErrors()
}

// look checks the texts of the page in one look, in at most 2 minutes.
func (b *browser) look(name string, l pagecheck.Look) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	if err := pagecheck.Show(ctx, l); err != nil {
		b.Fatal(err)
	}
	found, err := pagecheck.Problems(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range found {
		b.Errorf("%s, %v: %s", name, l, line)
	}
	if err := pagecheck.Keep(ctx, strings.ReplaceAll(name+" "+l.String(), " ", "-")); err != nil {
		b.Fatal(err)
	}
}

func (b *browser) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprintf("%s: %s", e.Type, e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		text = e.Entry.Text
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// do runs actions, each for at most 20 s.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	for _, a := range actions {
		act(b, a)
	}
}

func act[V any](b *browser, a chromedp.Action[V]) V {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.noErrors()
		b.Fatal(err)
	}
	return v
}

// eval is what an expression of JavaScript has.
func eval[V any](b *browser, expression string) V {
	b.Helper()
	return act(b, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
}

// script runs JavaScript, with values for the verbs of its text.
func (b *browser) script(format string, values ...any) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(format, values...)))
}

func (b *browser) count(selector string) int {
	b.Helper()
	return eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

func (b *browser) text(selector string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

// choose selects an entry of a list by its text.
func (b *browser) choose(selector, text string) {
	b.Helper()
	b.script(`{
		const list = document.querySelector(%q);
		list.selectedIndex = [...list.options].findIndex((o) => o.text === %q);
		list.dispatchEvent(new Event("change"));
	}`, selector, text)
}

// noErrors fails the test if the page has complained.
func (b *browser) noErrors() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.Errorf("the page says: %s", e)
	}
}

// inked checks that so many points of a canvas or more have a colour. Charts are drawn some time after their page.
func (b *browser) inked(selector string, least int) {
	b.Helper()
	points := 0
	for deadline := time.Now().Add(10 * time.Second); points < least && time.Now().Before(deadline); {
		points = eval[int](b, fmt.Sprintf(`new Promise((done) => requestAnimationFrame(() => {
			const c = document.querySelector(%q + " canvas");
			const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
			copy.drawImage(c, 0, 0);
			const points = copy.getImageData(0, 0, c.width, c.height).data;
			let n = 0;
			for (let i = 3; i < points.length; i += 4) n += points[i] > 0;
			done(n);
		}))`, selector))
	}
	if points < least {
		b.Errorf("%s has %d points, want %d or more", selector, points, least)
	}
}
