// SPDX-License-Identifier: Apache-2.0

// Package pagecheck lists the problems of the texts of a page or picture that Chromium shows: texts that overlap, are
// cut off, are outside of the page, are too small, or have nearly the colour of the background.
package pagecheck

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Look is how a page is looked at.
type Look struct {
	Width int // of the screen, in pixels of CSS
	Dark  bool
}

func (l Look) String() string {
	if l.Dark {
		return fmt.Sprintf("%d dark", l.Width)
	}
	return fmt.Sprintf("%d light", l.Width)
}

// Looks are those in which pages must be good: a phone, a tablet and a screen, light and dark.
func Looks() (all []Look) {
	for _, width := range []int{360, 800, 1600} {
		all = append(all, Look{width, false}, Look{width, true})
	}
	return all
}

//go:embed canvas.js
var canvas string

// Start starts the Chromium at path, and returns a context with an empty page. Chromium ends with the test.
func Start(t *testing.T, path string, options ...chromedp.ContextOption) context.Context {
	t.Helper()
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1240, 1000),
		chromedp.UserDataDir(t.TempDir()))...)
	t.Cleanup(cancel)
	ctx, cancelPage := chromedp.NewContext(alloc, options...)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until Chromium has ended, so that its folder can be removed
		cancelPage()
	})
	if err := chromedp.Do(ctx); err != nil { // starts Chromium; it lives as long as this context
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: canvas})
		return err
	})); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// leastHeight is the least height of a page, in pixels.
const leastHeight = 800

// Show shows the page of ctx in a look, and makes the window as high as the page: all of it can be seen.
func Show(ctx context.Context, l Look) error {
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}), chromedp.EmulateViewport(int64(l.Width), leastHeight), drawn)
	if err != nil {
		return fmt.Errorf("show the page in %v: %w", l, err)
	}
	height, err := chromedp.Run(ctx, chromedp.Evaluate[float64]("document.documentElement.scrollHeight"))
	if err == nil && height > leastHeight {
		err = chromedp.Do(ctx, chromedp.EmulateViewport(int64(l.Width), int64(height)+1), drawn)
	}
	if err != nil {
		return fmt.Errorf("show all of the page in %v: %w", l, err)
	}
	return nil
}

// drawn waits until a page has drawn what it draws after a change of the window.
var drawn = chromedp.Evaluate[chromedp.Void](
	"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))", chromedp.EvalAwaitPromise)

//go:embed problems.js
var problems string

// Problems lists the problems of the texts of the page of ctx, as it is shown now; a page must have been opened after
// Start, or the texts in its canvases are not known.
func Problems(ctx context.Context) ([]string, error) {
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](problems))
	if err != nil {
		return nil, fmt.Errorf("check the texts of the page: %w", err)
	}
	return found, nil
}

// Keep writes a picture of the window to a file with this name in the folder $DDLEMU_TEST_PICTURES, if that is set.
func Keep(ctx context.Context, name string) error {
	folder := os.Getenv("DDLEMU_TEST_PICTURES")
	if folder == "" {
		return nil
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a picture of the page: %w", err)
	}
	return nil
}
