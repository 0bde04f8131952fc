// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/serve/history"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// Real times between two looks of the recorder. On a real clock a look is work beside the job; on a virtual one it
// changes no time, and a job is over soon.
const (
	lookReal    = time.Second
	lookVirtual = 250 * time.Millisecond
)

// recorder keeps what the fabric of a server does, also while no page is open.
type recorder struct {
	mu      sync.Mutex
	history history.History
}

// History answers a page.
func (r *recorder) History(hop string) (*history.Series, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.history.Series(hop)
	if !ok {
		return nil, cli.BadInput("there is no port or link %s", hop)
	}
	return s, nil
}

// record records the fabric until ctx ends. While the fabric is down it waits for it.
func (s *served) record(ctx context.Context) {
	for ctx.Err() == nil {
		up, err := s.g.Open()
		if err == nil {
			s.recordOne(ctx, up)
			up.Close()
		}
		sleep(ctx, lookReal)
	}
}

// recordOne records a fabric until it is taken down.
func (s *served) recordOne(ctx context.Context, up *cli.Opened) {
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return // the page says why
	}
	reader, pause := status.NewReader(up.File, fab), lookReal
	if up.File.Virtual() {
		pause = lookVirtual
	}
	for ctx.Err() == nil && !up.File.Down() && !up.File.Removed() {
		now := reader.ReadCounters()
		s.mu.Lock()
		s.history.Add(now)
		s.mu.Unlock()
		sleep(ctx, pause)
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
