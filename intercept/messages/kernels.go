// SPDX-License-Identifier: Apache-2.0

package messages

// Kernel is a kernel of NCCL that a stream of the software CUDA ran, or a computation of a stream: a host function that
// took time. Times are ns of the fabric's clock.
type Kernel struct {
	Job, Owner   int   // place in Trace.Jobs, and rank
	Stream       int   // number of the process
	Tasks        []int // places in Trace.Tasks. None: a computation, or a kernel that only copies within its rank
	Launched     int64 // by the program; 0: a computation, of which that is not known
	Begun, Ended int64 // 0: not yet
}

// addKernels adds the kernels of all ledgers, each with its tasks.
func (t *Trace) addKernels(all []recorded) {
	type group struct {
		ledger int
		number uint32
		local  bool // counted by kernels, not by NCCL
	}
	kernels := map[group]int{}
	for l, c := range all {
		for i := range c.Kernels {
			k := &c.Kernels[i]
			at := len(t.Kernels)
			t.Kernels = append(t.Kernels, Kernel{Job: c.job, Owner: int(c.Rank), Stream: int(k.Stream),
				Launched: k.Launched, Begun: k.Begun, Ended: k.Ended})
			for _, g := range []group{{l, k.Group, false}, {l, k.KernelGroup, true}} {
				if g.number != 0 {
					kernels[g] = at
				}
			}
		}
	}
	// Those of NCCL first: kernels tell of theirs when they begin, which may be before or after NCCL does.
	for _, local := range []bool{false, true} {
		for i := range t.Tasks {
			x := &t.Tasks[i]
			if at, ok := kernels[group{x.fromGroup, x.group, x.local}]; ok && x.local == local {
				t.Kernels[at].Tasks = append(t.Kernels[at].Tasks, i)
			}
		}
	}
}

// IsComputation says whether it is a computation.
func (k *Kernel) IsComputation() bool { return k.Launched == 0 }
