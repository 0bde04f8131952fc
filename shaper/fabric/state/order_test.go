// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// The race detector does not look at mapped memory, so here the file's content is
// on the heap: a reader of a new block or job sees everything that was written before
// it was published. (The test does not reuse blocks, places and slots: their readers
// read and then check, which the detector reports as a race.)
func TestPublicationOrder(t *testing.T) {
	mapped := newFile(t)
	f := &File{dir: mapped.dir, fd: mapped.fd, mem: append([]byte{}, mapped.mem...)}
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for n := range 20 {
				if err := f.Change(map[int]link.Spec{w: family(100*w + n)}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for n := range 6 {
				j, err := f.JoinJob(uint64(10*w + n))
				if err != nil {
					t.Error(err)
					continue
				}
				j.Invalidate(SharedGPU)
			}
		})
		wg.Go(func() {
			for range 200 {
				if err := checkHops(f, -1); err != nil {
					t.Error(err)
				}
				for _, j := range f.Jobs() {
					if s := j.Status(); s.Started == 0 || s.Number != 1 {
						t.Errorf("%+v", s)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(f.Jobs()); n != 12 {
		t.Errorf("%d jobs", n)
	}
}
