// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"
)

// Shares is a picture of the parts of a whole: a bar for each, one below the other.
type Shares struct {
	Title, X string // what it is about, and what the whole is
	Parts    []Share
}

// Share is a part.
type Share struct {
	Name    string
	Percent float64
	Differs bool // in colour, from the other parts
}

const (
	barHeight = 16.0
	full      = width - 2*margin // length of the bar of 100 %
)

// WriteSVG draws the shares.
func (s *Shares) WriteSVG(w io.Writer) error {
	p := begin(s.Title, s.X)
	for _, part := range s.Parts {
		percent := fmt.Sprintf("%.1f %%", part.Percent)
		for i, line := range wrap(part.Name, lettersIn(full)-len(percent)-2) {
			if p.text(margin, p.y+font, "part", line); i == 0 {
				p.text(width-margin, p.y+font, "part", percent, `text-anchor="end"`)
			}
			p.y += lineSpace
		}
		number := 0
		if part.Differs {
			number = 1
		}
		p.add(`<rect class="track" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, margin, p.y, full, barHeight)
		p.add(`<rect class="mark %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, colour(number), margin, p.y,
			full*min(max(part.Percent/100, 0), 1), barHeight)
		p.y += barHeight + font/2
	}
	return p.writeTo(w)
}
