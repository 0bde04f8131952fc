// SPDX-License-Identifier: Apache-2.0

// Package progress shows how far a command is that takes long, and how long it still takes: a bar on a terminal, and
// elsewhere a line now and then.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A command that is done by then shows nothing.
const patience = 3 * time.Second

// How often the bar is drawn, and how often a line is written where there is no terminal.
const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 30 * time.Second
)

// Unknown is the time left if nothing is known about it.
const Unknown = time.Duration(-1)

// Options say how and where to show progress.
type Options struct {
	Name     string     // of the command
	To       io.Writer  // standard error
	Terminal bool       // To is one
	Width    func() int // of the terminal, in columns
	Quiet    bool       // show nothing
}

// Display shows the progress of one command. It is safe for concurrent use.
type Display struct {
	Options
	mu    sync.Mutex
	meter meter
	bar   *progressbar.ProgressBar // nil until it is first drawn
	drawn bool                     // the bar is on the screen
	stop  func()
}

// Start shows progress until Stop is called.
func Start(o Options) *Display {
	d := newDisplay(o, time.Now())
	end, ended := make(chan struct{}), make(chan struct{})
	d.stop = sync.OnceFunc(func() {
		close(end)
		<-ended
	})
	go func() {
		defer close(ended)
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case now := <-tick.C:
				d.update(now)
			}
		}
	}()
	return d
}

func newDisplay(o Options, now time.Time) *Display {
	return &Display{Options: o, meter: newMeter(now), stop: func() {}}
}

// Set names the present work, and says how long it takes until all is done, or Unknown.
func (d *Display) Set(what string, left time.Duration) { d.set(what, left, time.Now()) }

func (d *Display) set(what string, left time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.meter.set(what, left, now)
}

// Part says what the command does now, and which part of it is done, 0 to 1. The rest is taken to need as long for each
// part as what was done since Part was first called for it.
func (d *Display) Part(what string, part float64) { d.part(what, part, time.Now()) }

func (d *Display) part(what string, part float64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if what != d.meter.what {
		d.meter.set(what, Unknown, now)
	}
	d.meter.set(what, d.meter.leftOf(part, now), now)
}

// update draws the bar or writes a line, if it is time for that.
func (d *Display) update(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.Quiet:
	case !d.Terminal:
		if d.meter.lineDue(now) {
			_, _ = io.WriteString(d.To, "ddlemu: "+d.Name+": "+d.meter.line(now)+"\n")
		}
	case now.Sub(d.meter.start) >= patience:
		d.draw(now)
	}
}

// draw shows the bar as it is now. An error of the terminal has no consequence but for the bar.
func (d *Display) draw(now time.Time) {
	const steps, width, around = 1000, 10, 12 // around: percent, brackets and spaces beside the bar
	if d.bar == nil {
		d.bar = progressbar.NewOptions(steps,
			progressbar.OptionSetWriter(d.To), progressbar.OptionSetWidth(width), progressbar.OptionUseANSICodes(true),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false))
	}
	if part := d.meter.part(now); part > 0 {
		_ = d.bar.Set(min(int(steps*part), steps-1)) // at steps it would be finished, and never drawn again
	}
	times, room := d.meter.times(now), d.Width()-width-around
	d.bar.Describe(cut(cut(d.Name+": "+d.meter.what, room-len(times))+times, room))
	d.drawn = true
}

// Over returns a writer to w that removes the bar before it writes. The bar is drawn again later.
func (d *Display) Over(w io.Writer) io.Writer { return &over{d, w} }

type over struct {
	d *Display
	w io.Writer
}

// Unwrap returns the writer below.
func (o *over) Unwrap() io.Writer { return o.w }

func (o *over) Write(text []byte) (int, error) {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	o.d.clear()
	return o.w.Write(text)
}

// clear removes the bar.
func (d *Display) clear() {
	if d.drawn {
		_ = d.bar.Clear()
		d.drawn = false
	}
}

// Stop removes the bar. After that nothing is shown.
func (d *Display) Stop() {
	d.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

// meter is the known progress. It reads no clock.
type meter struct {
	start time.Time
	lined time.Time // of the last line, or the start
	what  string
	since time.Time     // when it began
	left  time.Duration // at set; Unknown if not known
	at    time.Time     // when left was set
}

func newMeter(now time.Time) meter {
	return meter{start: now, lined: now, since: now, at: now, left: Unknown, what: "starts"}
}

func (m *meter) set(what string, left time.Duration, now time.Time) {
	if what != m.what {
		m.since = now
	}
	m.what, m.left, m.at = what, left, now
}

// leftOf is the time left when this part of the present work is done.
func (m *meter) leftOf(part float64, now time.Time) time.Duration {
	so := now.Sub(m.since)
	if so <= 0 || !(part > 0 && part <= 1) {
		return Unknown
	}
	return time.Duration(float64(so) * (1 - part) / part)
}

// remaining is the time left now. What takes longer than it was said to has no time left.
func (m *meter) remaining(now time.Time) time.Duration {
	if m.left < 0 {
		return Unknown
	}
	return max(m.left-now.Sub(m.at), 0)
}

// part is the fraction of the time that has passed, 0 if the time left is not known.
func (m *meter) part(now time.Time) float64 {
	left, so := m.remaining(now), now.Sub(m.start)
	if left < 0 || so <= 0 {
		return 0
	}
	return float64(so) / float64(so+left)
}

// line names the present work, since when it runs, and how long it still takes.
func (m *meter) line(now time.Time) string {
	return m.what + m.times(now)
}

// times is what line says of the time.
func (m *meter) times(now time.Time) string {
	text := fmt.Sprintf("; %v so far", now.Sub(m.start).Round(time.Second))
	switch left := m.remaining(now); {
	case left < 0:
	case left < time.Second && m.left > 0:
		text += ", longer than predicted"
	default:
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}

// lineDue reports whether it is time for the next line.
func (m *meter) lineDue(now time.Time) bool {
	if now.Sub(m.lined) < lineEvery {
		return false
	}
	m.lined = now
	return true
}

// cut shortens a text to a number of columns.
func cut(text string, columns int) string {
	r := []rune(text)
	if len(r) <= columns {
		return text
	}
	return string(r[:max(columns-1, 0)]) + "…"
}
