// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"time"
)

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
