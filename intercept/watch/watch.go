// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"time"
)

// Each samples a fabric every interval, and gives show what it did since the sample before, until ctx ends or the
// fabric is taken down. The error is of show or of a sample; it is nil if ctx has ended, and wraps ErrGone if the
// fabric is not up any more. tick has a value when an interval is over.
func Each(ctx context.Context, sample func() (*Sample, error), tick <-chan time.Time, show func(*View) error) error {
	before, err := sample()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		now, err := sample()
		if err != nil {
			return err
		}
		if err := show(Compare(before, now)); err != nil {
			return err
		}
		before = now
	}
}
