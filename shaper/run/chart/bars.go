// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Shares is a picture of the parts of a whole: a bar for each, one below the other.
type Shares struct {
	Title, X string // labels
	Parts    []Share
}

// Share is a part.
type Share struct {
	Name    string
	Percent float64
	Differs bool // in colour, from the other parts
}

// WriteSVG draws the shares.
func (s *Shares) WriteSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = s.Title, s.X
	p.X.Min, p.X.Max = 0, 100
	var names []string
	n := len(s.Parts)
	for i := range s.Parts {
		part := &s.Parts[n-1-i] // the first one is at the top
		bars, err := plotter.NewBarChart(plotter.Values{part.Percent}, 0.6*vg.Centimeter)
		if err != nil {
			return fmt.Errorf("draw %s: %w", part.Name, err)
		}
		bars.Horizontal, bars.XMin, bars.LineStyle.Width, bars.Color = true, float64(i), 0, colours[0]
		if part.Differs {
			bars.Color = colours[1]
		}
		p.Add(bars)
		names = append(names, fmt.Sprintf("%s  %.1f %%", part.Name, part.Percent))
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	takeFont(p)
	return write(p, w, vg.Length(n+3)*vg.Centimeter)
}
