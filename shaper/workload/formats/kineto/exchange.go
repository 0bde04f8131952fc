// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
)

// groupKernel matches the kernels that a process group launches, after "void " and namespaces: kernels of NCCL
// (ncclSymDevKernel in 2.27, ncclSymkDevKernel since 2.28) and RCCL, RCCL's kernels of MSCCL schedules (mscclKernel),
// and kernels of oneCCL.
var groupKernel = regexp.MustCompile(
	`^(void )?(\w+::|\(anonymous namespace\)::)*(nccl(Dev)?Kernel|ncclSym|mscclKernel|oneccl_)`)

// exchange is a kind of kernel that exchanges data between GPUs and is not of a process group's call.
type exchange struct {
	kernel  *regexp.Regexp
	library string // for people
}

// exchanges are the kinds that are known. The first that matches counts. Each has the file that defines the kernels.
var exchanges = []exchange{
	// pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu, CUDASymmetricMemory.cu; its older form
	// intra_node_comm.cu.
	{regexp.MustCompile(`\b(multimem_\w+|(one|two)_shot_all_reduce_kernel\w*|(put|wait)_signal_kernel)\b`),
		"symmetric memory of PyTorch"},
	{regexp.MustCompile(`\bhybridCubeMeshAllReduceKernel\b`), "IntraNodeComm of PyTorch"},
	// vllm csrc/custom_all_reduce.cuh, csrc/quickreduce/quick_reduce_impl.cuh; sglang sgl-kernel/csrc/allreduce;
	// ROCm/aiter csrc/include/custom_all_reduce.cuh.
	{regexp.MustCompile(`\b(\w+_)?cross_device_(reduce|store)\w*`), "custom all-reduce of vLLM, SGLang or AITER"},
	{regexp.MustCompile(`\b(quickreduce::|allreduce_prototype_)`), "quick reduce of vLLM or SGLang"},
	// flashinfer include/flashinfer/comm, TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels.
	{regexp.MustCompile(`\b\w*allreduce_fusion_kernel\w*`), "fused all-reduce of TensorRT-LLM, FlashInfer or AITER"},
	{regexp.MustCompile(`(?i)\b(one|two)shotAllreduceFusionKernel\b|\btwoshot_allreduce_kernel\b|\brmsNormLamport\w*`),
		"all-reduce of FlashInfer or TensorRT-LLM over multi-node NVLink"},
	// TensorRT-LLM cpp/tensorrt_llm/kernels/customAllReduceKernels.cu; pytorch intra_node_comm.cu has the first two
	// names too.
	{regexp.MustCompile(`\b(one|two)ShotAllReduceKernel\b|\b\w*one_shot_all_reduce_norm_kernel\b|\blamport_\w+`),
		"custom all-reduce of TensorRT-LLM or PyTorch"},
	{regexp.MustCompile(`\bmoeA2A(Dispatch|Combine)Kernel\b|\bmoeAllToAllKernel\b|\bmoe_comm::`),
		"all-to-all of TensorRT-LLM"},
	// TransformerEngine comm_gemm_overlap/userbuffers.cu.
	{regexp.MustCompile(`\bk?userbuffers_\w+`), "userbuffers of Transformer Engine"},
	// DeepEP csrc/kernels; its layout kernels and CUB's in its namespace stay on the GPU. DeepSeek's own traces have
	// dpsk::ep.
	{regexp.MustCompile(`\b(deep_ep|dpsk::ep)::(intranode|internode|internode_ll|hybrid_ep|elastic)\w*::`), "DeepEP"},
	{regexp.MustCompile(`\bhybrid_ep::|\buccl::|\bmori::|\bpplx::|\bEp(Dispatch|Combine)(Inter|Intra)Node\w*`),
		"all-to-all of experts (hybrid-ep, UCCL, MORI or pplx)"},
	{regexp.MustCompile(`(?i)\bi?nvshmemx?i?_\w+|\bnvshmem`), "NVSHMEM"},
	{regexp.MustCompile(`(?i)mscclpp|\bmsccl::`), "MSCCL++"},
}

// named matches the names of collectives, in kernels of no library that is known.
var named = regexp.MustCompile(`(?i)all_?reduce|all_?gather|reduce_?scatter|all_?(to|2)_?all`)

// libraryOf is the library of a kernel that exchanges data: processGroup for the kernel of a call, "" if the kernel
// computes. Kernels that Triton made of other operators have the names of these, also of collectives that they come
// after.
func libraryOf(kernel string) string {
	if groupKernel.MatchString(kernel) {
		return processGroup
	}
	for i := range exchanges {
		if exchanges[i].kernel.MatchString(kernel) {
			return exchanges[i].library
		}
	}
	if named.MatchString(kernel) && !strings.HasPrefix(kernel, "triton_") {
		return unknownLibrary
	}
	return ""
}

const (
	processGroup   = "a process group"
	peerCopies     = "the driver, from GPU to GPU"
	unknownLibrary = "an unknown library, by their names"
)

// libraries finds the library of kernels, and remembers those that it has seen.
type libraries map[string]string

// maxNames is the maximum number of names that are remembered.
const maxNames = 1 << 12

func (l libraries) of(kernel string) string {
	library, ok := l[kernel]
	if !ok {
		library = libraryOf(kernel)
		if len(l) < maxNames {
			l[kernel] = library
		}
	}
	return library
}

// exchanged is the sum of the kernels of a library.
type exchanged struct {
	count int
	nanos int64
	name  string // of the first
}

func (e *exchanged) add(o exchanged) {
	if e.count == 0 {
		e.name = o.name
	}
	e.count, e.nanos = e.count+o.count, e.nanos+o.nanos
}

// nameOf is the name of a kernel without what it is called with.
func nameOf(kernel string) string {
	name := strings.TrimPrefix(strings.ReplaceAll(kernel, "(anonymous namespace)::", ""), "void ")
	if end := strings.IndexAny(name, "<("); end > 0 {
		name = name[:end]
	}
	return strings.ToValidUTF8(strings.TrimSpace(name[:min(len(name), 80)]), "?")
}

// exchange counts what moves data between GPUs without a process group.
func (r *rank) exchange(library, name string, nanos int64) {
	if library == "" {
		return
	}
	if r.exchanged[library] == nil {
		r.exchanged[library] = &exchanged{}
	}
	r.exchanged[library].add(exchanged{1, nanos, nameOf(name)})
}

// exchangeNotes say what moved data without a process group, by library.
func (j *job) exchangeNotes() (notes []string) {
	sums := map[string]*exchanged{}
	for _, r := range j.ranks {
		for library, e := range r.exchanged {
			if sums[library] == nil {
				sums[library] = &exchanged{}
			}
			sums[library].add(*e)
		}
	}
	for _, library := range slices.Sorted(maps.Keys(sums)) {
		e, noun := sums[library], "kernel"
		if library == peerCopies {
			noun = "transfer"
		}
		notes = append(notes,
			fmt.Sprintf(
				"%s of %s, such as %s, %.3f ms in all: data between GPUs without NCCL; not in the workload as calls, "+
					"the time counts as computation, which no network changes", units.Count(e.count, noun), library,
				e.name,
				float64(e.nanos)/1e6))
	}
	return notes
}
