// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Times are in ns since the recording began.

// process is a process of the job: its number, with the number of the machine before it.
type process uint64

// thread is a thread of a process.
type thread uint64

// process is the process of a thread. The lower 24 bits of a global id are the thread, those above are the process.
func (t thread) process() process { return process(t &^ (1<<24 - 1)) }

// rangeEvent is a range that NCCL wrote by NVTX: a call of the host.
type rangeEvent struct {
	start, end int64
	thread     thread
	function   string // such as ncclAllReduce
	payload    payload
}

// kernel is a kernel of NCCL.
type kernel struct {
	start, end  int64
	process     process
	stream      int64
	correlation int64
	name        string
}

// launch is a call of CUDA by a thread.
type launch struct {
	start  int64
	thread thread
}

// launchKey finds the launch of a kernel.
type launchKey struct {
	process     process
	correlation int64
}

// span is a kernel that is not NCCL's.
type span struct {
	start, end  int64
	stream      int32
	correlation int64
}

// recording is the kept part of a file.
type recording struct {
	file     string
	limit    *input.Limit
	ranges   []rangeEvent
	kernels  []kernel
	launches map[launchKey]launch
	computes map[process][]span
	// waits are the calls by which a stream waits for others: the waiting stream and the correlation.
	waits    map[process][]span
	hardware string
	// broken counts payloads that were not understood, and lines of JSON that are no events.
	broken, foreign int
	noBlobs         bool // the export has payloads left out
}

func newRecording(file string, limit *input.Limit) *recording {
	return &recording{file: file, limit: limit, launches: map[launchKey]launch{}, computes: map[process][]span{},
		waits: map[process][]span{}}
}

// addRange keeps a range.
func (r *recording) addRange(e rangeEvent) error {
	r.ranges = append(r.ranges, e)
	if _, moves := functions[e.function]; moves {
		return r.limit.Add()
	}
	return r.limit.AddSmall(1)
}

// addKernel keeps a kernel with one of the names. Of those that are not NCCL's, it keeps when they ran.
func (r *recording) addKernel(k kernel, names ...string) error {
	if at := slices.IndexFunc(names, isKernel); at >= 0 {
		k.name = names[at]
		r.kernels = append(r.kernels, k)
	} else {
		r.computes[k.process] = append(r.computes[k.process], span{k.start, k.end, int32(k.stream), k.correlation})
	}
	return r.limit.AddSmall(1)
}

// addWait keeps that a stream of a process waited.
func (r *recording) addWait(p process, s span) error {
	r.waits[p] = append(r.waits[p], s)
	return r.limit.AddSmall(1)
}

// addLaunch keeps the launch of a kernel.
func (r *recording) addLaunch(key launchKey, l launch) error {
	r.launches[key] = l
	return r.limit.AddSmall(1)
}

// isRange tells whether a range has the name of a function of NCCL.
func isRange(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "nccl") && name[4] >= 'A' && name[4] <= 'Z' &&
		!strings.ContainsAny(name, " :(_")
}

// isKernel tells whether a kernel is NCCL's. Those of symmetric memory are ncclSymDevKernel in 2.27, ncclSymkDevKernel
// since 2.28.
func isKernel(name string) bool {
	return strings.HasPrefix(name, "ncclKernel") || strings.HasPrefix(name, "ncclDevKernel") ||
		strings.HasPrefix(name, "ncclSym")
}

// kernelKind is the part of a kernel's name that says what it does, such as AllReduce of
// ncclDevKernel_AllReduce_Sum_f32_RING_LL(...).
func kernelKind(name string) string {
	_, rest, _ := strings.Cut(name, "_")
	kind, _, _ := strings.Cut(rest, "_")
	kind, _, _ = strings.Cut(kind, "(")
	return kind
}

// function is what a function of NCCL that moves data does.
type function struct {
	kind workload.Kind
	coll workload.Func
}

// functions are those that move data, by their names.
var functions = func() map[string]function {
	all := map[string]function{
		"ncclSend": {kind: workload.Send}, "ncclRecv": {kind: workload.Recv},
		"ncclBcast":    {workload.Coll, workload.Broadcast},
		"ncclAlltoAll": {workload.Coll, workload.AllToAll},
	}
	for _, f := range workload.Funcs() {
		all["nccl"+string(f)] = function{workload.Coll, f}
	}
	return all
}()

// oneSided are functions that move data or wait for it and that a workload has no operation for.
var oneSided = map[string]bool{"ncclPutSignal": true, "ncclSignal": true, "ncclWaitSignal": true}
