// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ddlemu/ddlemu/shaper/internal/xmltext"
)

// Sizes of a picture, in its units. A picture is as wide as the page that shows it. Places of texts are calculated for
// the font of narrow pages, the largest in these units; a wider page has a smaller font (see style), for which there is
// then more space.
const (
	width     = 720.0
	font      = 18.0
	letter    = 0.62 * font // width of a letter, about: that of digits in wide fonts
	lineSpace = 1.25 * font
	margin    = 12.0 // around the picture
)

// style has the colours of a light and of a dark page, and fonts that can be read at 360 to 1600 pixels. The colours of
// groups are those that people with colour blindness tell apart (Okabe and Ito), darker or lighter where a text of this
// colour could not be read.
const style = `<style>
svg { background: #fff; color-scheme: light dark; height: auto }
text { font: 18px system-ui, "DejaVu Sans", sans-serif; fill: #1d2a33 }
.title { font-weight: 600 }
.soft { fill: #52616b }
.back { fill: #fff }
.track { fill: #e7ecef }
.grid { stroke: #dfe5e9; fill: none; vector-effect: non-scaling-stroke }
.guide { stroke: #7b8992; fill: none; stroke-width: 1.2; vector-effect: non-scaling-stroke }
.lead { stroke: currentColor; fill: none; stroke-width: 1; vector-effect: non-scaling-stroke }
.line { stroke: currentColor; fill: none; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke }
.dotted { stroke-dasharray: 2 3 }
.dashed { stroke-dasharray: 6 4 }
.mark, .name { fill: currentColor }
.ring { fill: none; stroke: currentColor; stroke-width: 1.5; vector-effect: non-scaling-stroke }
.name { paint-order: stroke; stroke: #fff; stroke-width: 3px }
circle { r: 4px }
.guides { color: #52616b }
.c0 { color: #0072b2 } .c1 { color: #b25a00 } .c2 { color: #007a58 } .c3 { color: #a83f80 }
.c4 { color: #5e48b0 } .c5 { color: #c0401b } .c6 { color: #756a00 } .c7 { color: #4a4f54 }
@media (min-width: 560px) { text { font-size: 15px } circle { r: 3.4px } }
@media (min-width: 760px) { text { font-size: 13px } circle { r: 3px } }
@media (min-width: 1100px) { text { font-size: 10px } circle { r: 2.2px } }
@media (min-width: 1500px) { text { font-size: 8px } circle { r: 1.8px } .name { stroke-width: 2px } }
@media (prefers-color-scheme: dark) {
svg { background: #12181c }
text { fill: #e3eaee } .soft { fill: #a6b5be } .back { fill: #12181c } .track { fill: #2a343b }
.name { stroke: #12181c }
.grid { stroke: #2f3a42 } .guide { stroke: #83929b }
.mark, .name { fill: currentColor }
.guides { color: #a6b5be }
.c0 { color: #56b4e9 } .c1 { color: #f0a030 } .c2 { color: #2fc79a } .c3 { color: #e694c6 }
.c4 { color: #bfaef5 } .c5 { color: #ff8a5c } .c6 { color: #f0e442 } .c7 { color: #c8cdd1 }
}
</style>
`

// colours is the number of colours of groups.
const colours = 8

// picture collects the elements of a picture from its top to its bottom.
type picture struct {
	strings.Builder
	title string
	y     float64 // below what is drawn already
}

// begin makes a picture with its title, and a line about it if there is one.
func begin(title, about string) *picture {
	p := &picture{title: title, y: margin}
	for _, line := range wrap(title, lettersIn(width-2*margin)) {
		p.text(margin, p.y+font, "title", line)
		p.y += lineSpace
	}
	if about != "" {
		p.text(margin, p.y+font, "soft", about)
		p.y += lineSpace
	}
	p.y += font / 2
	return p
}

// add writes elements.
func (p *picture) add(format string, values ...any) { fmt.Fprintf(p, format+"\n", values...) }

// text writes a text; more are its classes, and then its other attributes.
func (p *picture) text(x, y float64, class, text string, more ...string) {
	p.add(`<text x="%.1f" y="%.1f" class="%s"%s>%s</text>`, x, y, class, strings.Join(append([]string{""}, more...), " "),
		xmltext.Escape(text))
}

// lineDown is an attribute that writes a text so many lines below one whose middle is at its place, in any font.
func lineDown(lines float64) string { return fmt.Sprintf(`dy="%.3fem"`, 0.35+1.25*lines) }

// writeTo writes the picture, which ends a margin below y.
func (p *picture) writeTo(w io.Writer) error {
	height := p.y + margin
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%%\" viewBox=\"0 0 %.0f %.0f\">\n"+
		"<title>%s</title>\n%s<rect class=\"back\" width=\"%.0f\" height=\"%.0f\"/>\n%s</svg>\n",
		width, height, xmltext.Escape(p.title), style, width, height, p.String())
	if err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}

// widthOf is about the width of a text of the largest font.
func widthOf(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

// lettersIn is about how many letters of the largest font a width has space for.
func lettersIn(width float64) int { return int(width / letter) }

// wrap divides a text into lines of at most most letters: after a blank or another separator, or else anywhere.
func wrap(text string, most int) (lines []string) {
	rest := []rune(text)
	for len(rest) > most {
		at := most
		for i := most; i > most/2; i-- {
			if strings.ContainsRune(" -_/.,:", rest[i-1]) {
				at = i
				break
			}
		}
		lines, rest = append(lines, strings.TrimRight(string(rest[:at]), " ")), rest[at:]
	}
	return append(lines, string(rest))
}

// colour is the class of the colour of group i.
func colour(i int) string { return fmt.Sprintf("c%d", i%colours) }

// mark writes the mark of a point of group i: the second one with a colour has rings.
func (p *picture) mark(x, y float64, i int) {
	class := "mark"
	if i/colours%2 == 1 {
		class = "ring"
	}
	p.add(`<circle cx="%.1f" cy="%.1f" r="4" class="%s %s"/>`, x, y, class, colour(i))
}
