// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/test/needs"
)

// browser is a page in Chromium.
type browser struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // on the console, and those that no code caught
}

// open shows a page in Chromium and waits until it is drawn.
func open(t *testing.T, url string) *browser {
	t.Helper()
	path := needs.Optional(t, "chromium")
	b := &browser{T: t}
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1240, 1000),
		chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	ctx, cancelPage := chromedp.NewContext(alloc, chromedp.WithListener(b.listen))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until Chromium has ended, so that its folder can be removed
		cancelPage()
	})
	if err := chromedp.Do(ctx); err != nil { // starts Chromium; it lives as long as this context
		t.Fatal(err)
	}
	b.ctx = ctx
	b.do(chromedp.Navigate(url), chromedp.WaitVisible(`body[data-drawn="yes"]`))
	return b
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
	return act(b, chromedp.Evaluate[V](expression))
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

// inked is how many points of a canvas have a colour.
func (b *browser) inked(selector string) int {
	b.Helper()
	return eval[int](b, fmt.Sprintf(`(() => {
		const c = document.querySelector(%q + " canvas");
		const points = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 3; i < points.length; i += 4) n += points[i] > 0;
		return n;
	})()`, selector))
}
