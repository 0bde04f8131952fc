// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"time"
)

// Each looks at a fabric every interval, and gives show what it did since the look before, until ctx ends or the fabric
// is taken down. The error is that of show or of a look; it is nil if ctx has ended, and wraps ErrGone if the fabric is
// not up any more. tick has a value when an interval is over.
func Each(ctx context.Context, look func() (*Look, error), tick <-chan time.Time, show func(*View) error) error {
	before, err := look()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		now, err := look()
		if err != nil {
			return err
		}
		if err := show(Compare(before, now)); err != nil {
			return err
		}
		before = now
	}
}
