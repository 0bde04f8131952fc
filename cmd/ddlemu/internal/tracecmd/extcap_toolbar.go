// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/capture/extcap"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// control is a control of Wireshark's toolbar for a link. Its number is its place in controls.
type control struct {
	kind             string // string or boolean
	display, tooltip string
	key              string // of the link parameter, see configs.LinkParams
}

var controls = []control{
	{"string", "Rate", "line rate: 100Gbps, 25Gbit, 12.5GB/s or unlimited", "bandwidth"},
	{"string", "Latency", "one-way latency: 5us, 1.2ms", "latency"},
	{"string", "Loss", "packet loss: 0.1%, 1e-4 or none", "loss"},
	{"boolean", "Down", "take the link down", "up"},
}

// toolbarPeriod is how often the toolbar follows the link.
const toolbarPeriod = 200 * time.Millisecond

// toolbar is Wireshark's toolbar of a link, during a capture.
type toolbar struct {
	g       *cli.Global
	c       *liveCapture
	hop     int
	in, out *os.File
	cancel  func()
	running sync.WaitGroup

	mu    sync.Mutex
	ready bool     // Wireshark has sent what it remembers of earlier captures
	shown []string // the values that the toolbar shows, by control
}

// openToolbar opens the pipes and serves the toolbar until close. The pipes are opened for reading and writing, so that
// it does not wait for Wireshark.
func openToolbar(ctx context.Context, g *cli.Global, c *liveCapture, in, out string) (*toolbar, error) {
	t := &toolbar{g: g, c: c, hop: c.links[0], shown: make([]string, len(controls))}
	var err error
	if t.in, err = os.OpenFile(in, os.O_RDWR, 0); err != nil {
		return nil, cli.BadInput("--extcap-control-in: %w", err)
	}
	if t.out, err = os.OpenFile(out, os.O_RDWR, 0); err != nil {
		t.in.Close()
		return nil, cli.BadInput("--extcap-control-out: %w", err)
	}
	ctx, t.cancel = context.WithCancel(ctx)
	t.running.Go(func() { t.obey(ctx) })
	t.running.Go(func() { t.follow(ctx) })
	return t, nil
}

// close ends the toolbar. The fabric may be closed then.
func (t *toolbar) close() {
	t.cancel()
	t.in.Close()
	t.out.Close()
	t.running.Wait()
}

// follow shows the changes that others make.
func (t *toolbar) follow(ctx context.Context) {
	tick := time.NewTicker(toolbarPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.show(false)
		}
	}
}

// obey makes the changes that the toolbar asks for.
func (t *toolbar) obey(ctx context.Context) {
	for {
		m, err := extcap.Read(t.in)
		if err != nil {
			return // the toolbar was closed, or the input makes no sense any more
		}
		t.handle(ctx, m)
	}
}

// handle does what a message asks for.
func (t *toolbar) handle(ctx context.Context, m extcap.Message) {
	switch {
	case m.Command == extcap.Initialized:
		t.mu.Lock()
		t.ready = true
		t.mu.Unlock()
		t.show(true)
	case m.Command == extcap.Set && int(m.Control) < len(controls):
		t.mu.Lock()
		ready := t.ready
		t.mu.Unlock()
		if !ready {
			return // what the toolbar remembers of an earlier capture must not undo a later change
		}
		text, err := t.set(ctx, int(m.Control), m.Payload)
		if err != nil {
			text = strings.Join(strings.Fields(err.Error()), " ")
		}
		t.send(m.Control, extcap.StatusBar, []byte("ddlemu: "+text))
		t.show(true)
	}
}

// set gives the link the value of a control, and says so.
func (t *toolbar) set(ctx context.Context, n int, payload []byte) (text string, err error) {
	c := &controls[n]
	value := string(payload)
	if c.kind == "boolean" {
		if len(payload) != 1 || payload[0] > 1 {
			return "", fmt.Errorf("%s: the value is % x, not 0 or 1", c.display, payload)
		}
		value = fmt.Sprint(payload[0] == 0) // the parameter is up, the control is down
	}
	m := c.param()
	var p configs.LinkPatch
	if err := m.Set(&p, value); err != nil {
		return "", fmt.Errorf("%s: %w", c.display, err)
	}
	from, to := t.c.fab.EndNames(link.Link, t.c.fab.Hops[t.hop].Src, t.c.fab.Hops[t.hop].Dst)
	if _, err := fabriccmd.ApplyShape(ctx, t.g, t.c.File, t.c.o.Link, p); err != nil {
		return "", err
	}
	l := t.link()
	return fmt.Sprintf("%s:%s %s is %s", from, to, strings.ToLower(m.Label), m.Text(&l)), nil
}

// param is the parameter that the control shows.
func (c *control) param() configs.LinkParam {
	for _, m := range configs.LinkParams() {
		if m.Key == c.key {
			return m
		}
	}
	panic("no parameter " + c.key)
}

// link is the link as it is now.
func (t *toolbar) link() configs.Link { return fabric.LinkOf(t.c.File.Hops()[t.hop].Spec) }

// show sends the values that the toolbar does not show, or all values.
func (t *toolbar) show(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready {
		return
	}
	l := t.link()
	for i := range controls {
		m := controls[i].param()
		value := m.Text(&l)
		payload := []byte(value)
		if controls[i].kind == "boolean" {
			payload = []byte{0}
			if !l.Up {
				payload[0] = 1
			}
		}
		if all || value != t.shown[i] {
			t.shown[i] = value
			t.send(uint8(i), extcap.Set, payload)
		}
	}
}

// send sends a message to the toolbar. It may be gone.
func (t *toolbar) send(n uint8, c extcap.Command, payload []byte) {
	m := extcap.Message{Control: n, Command: c, Payload: payload}
	if _, err := t.out.Write(m.Append(nil)); err != nil && !errors.Is(err, os.ErrClosed) {
		t.g.Warn("write to Wireshark's toolbar: %v", err)
	}
}
