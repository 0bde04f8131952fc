// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// loadInterval is the time between two looks at the number of runnable threads. A look takes this process a few us.
const loadInterval = 100 * time.Millisecond

// loadFile has the number of runnable threads of the host in its fourth field, as 3/512.
const loadFile = "/proc/loadavg"

// LoadWatch looks at how busy this host is until Stop is called. Its methods may be called from several goroutines.
type LoadWatch struct {
	stop func()

	mu    sync.Mutex
	sum   float64
	looks int
}

// WatchLoad begins to look.
func WatchLoad() *LoadWatch {
	tick := time.NewTicker(loadInterval)
	return watchLoad(tick.C, tick.Stop, func() (string, error) {
		text, err := os.ReadFile(loadFile)
		return string(text), err
	})
}

// watchLoad is WatchLoad with the times to look at, and the function that reads loadFile.
func watchLoad(tick <-chan time.Time, stopTick func(), read func() (string, error)) *LoadWatch {
	w := &LoadWatch{}
	done, ended := make(chan struct{}), make(chan struct{})
	w.stop = sync.OnceFunc(func() {
		stopTick()
		close(done)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-tick:
				if text, err := read(); err == nil {
					w.add(text)
				}
			}
		}
	}()
	return w
}

// add counts a look. The thread that looks runs too, and is left out.
func (w *LoadWatch) add(loadavg string) {
	n, ok := runnable(loadavg)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum += float64(max(n-1, 0))
	w.looks++
}

// runnable is the number of threads that run or wait for a processor.
func runnable(loadavg string) (n int, ok bool) {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 0, false
	}
	text, _, _ := strings.Cut(fields[3], "/")
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// Load is how busy this host has been since WatchLoad; nil if it is not known, and of a nil w.
func (w *LoadWatch) Load() *verdict.Load {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looks == 0 {
		return nil
	}
	return &verdict.Load{Runnable: w.sum / float64(w.looks), Cores: CPUs().Usable}
}

// Stop ends the looks. It may be called several times, and on nil.
func (w *LoadWatch) Stop() {
	if w != nil {
		w.stop()
	}
}
