// SPDX-License-Identifier: Apache-2.0

// Package top shows in a terminal what a fabric that is up does: its links and jobs, sorted and filtered by keys.
package top

import (
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/ddlemu/ddlemu/intercept/watch"
)

// firstInterval is the time from the first sample to the second one, so that rates are there soon.
const firstInterval = 250 * time.Millisecond

// Model is the state of the screen. It implements [tea.Model].
type Model struct {
	fabric   string // its name
	sample   func() (*watch.Sample, error)
	interval time.Duration

	width, height int // of the terminal, in cells; 0 until it is known
	before        *watch.Sample
	view          *watch.View // nil until there are two samples
	err           error       // of the sample that ended the program

	by       watch.Order
	reverse  bool
	ports    bool // show all ports
	verdicts bool // show the jobs with all reasons in place of the links
	filter   string
	typing   bool // of the filter
	scroll   int  // rows that are above the first one shown

	hops []watch.HopActivity // the links that the filter leaves, in order
}

// New makes the model of a fabric that sample reads, once per interval. sample is called by one goroutine at a time,
// perhaps also after the program has ended.
func New(fabric string, sample func() (*watch.Sample, error), interval time.Duration) Model {
	return Model{fabric: fabric, sample: sample, interval: interval}
}

// Err is why the program ended, nil if the user wanted it.
func (m Model) Err() error { return m.err }

type sampleMsg struct {
	sample *watch.Sample
	err    error
}

type tickMsg struct{}

// Init samples the fabric.
func (m Model) Init() tea.Cmd { return m.read }

func (m Model) read() tea.Msg {
	l, err := m.sample()
	return sampleMsg{l, err}
}

func after(d time.Duration) tea.Cmd {
	return tea.Tick(d, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update is the model after a message: a sample, a key, another size.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, m.read
	case sampleMsg:
		m, cmd = m.sampled(msg)
		m.list()
	case tea.KeyPressMsg:
		if m.typing {
			m, cmd = m.typed(msg)
		} else {
			m, cmd = m.pressed(msg)
		}
		m.list()
	}
	m.scroll = max(min(m.scroll, m.rows()-m.page()), 0)
	return m, cmd
}

func (m Model) sampled(msg sampleMsg) (Model, tea.Cmd) {
	if msg.err != nil {
		m.err = msg.err
		return m, tea.Quit
	}
	wait := firstInterval
	if m.before != nil {
		m.view, wait = watch.Compare(m.before, msg.sample), m.interval
	}
	m.before = msg.sample
	return m, after(min(wait, m.interval))
}

// pressed handles a key outside of the filter.
func (m Model) pressed(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	switch msg.String() {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "ctrl+z":
		return m, tea.Suspend
	case "s", "right":
		m.by = m.by.Next(1)
	case "S", "shift+s", "left":
		m.by = m.by.Next(-1)
	case "r":
		m.reverse = !m.reverse
	case "p":
		m.ports = !m.ports
	case "v", "tab":
		m.verdicts, m.scroll = !m.verdicts, 0
	case "/":
		m.typing, m.verdicts = true, false
	case "esc":
		m.filter, m.verdicts = "", false
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll -= m.page()
	case "pgdown", "space":
		m.scroll += m.page()
	case "home", "g":
		m.scroll = 0
	case "end", "G", "shift+g":
		m.scroll = m.rows()
	}
	return m, nil
}

// typed handles a key in the filter.
func (m Model) typed(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	switch msg.String() {
	case "ctrl+c":
		return m, tea.Quit
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "ctrl+u":
		m.filter = ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	default:
		m.filter += msg.Text
	}
	m.scroll = 0
	return m, nil
}

// list lists the links anew.
func (m *Model) list() {
	if m.view == nil {
		return
	}
	m.hops = m.view.Shown(m.filter, m.ports)
	watch.Sort(m.hops, m.by, m.reverse)
}
