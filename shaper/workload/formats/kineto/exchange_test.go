// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// The names are those of traces, or of the kernels in the files that exchanges name.
func TestLibraryOf(t *testing.T) {
	for kernel, want := range map[string]string{
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)":                                       processGroup,
		"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)":                                                            processGroup,
		"void ncclKernel_Generic_4(ncclDevComm*)":                                                                         processGroup,
		"ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)":                                                 processGroup,
		"ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)":                                     processGroup,
		"mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)":                                 processGroup,
		"oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>":                                                        processGroup,
		"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)":        "symmetric memory of PyTorch",
		"void c10d::symmetric_memory::(anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>(T)": "symmetric memory of PyTorch",
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)":                     "custom all-reduce of vLLM, SGLang or AITER",
		"void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 8>(aiter::RankData*)":                               "custom all-reduce of vLLM, SGLang or AITER",
		"void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>(__half const*)":             "quick reduce of vLLM or SGLang",
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1>(P)": "fused all-reduce of TensorRT-LLM, FlashInfer or AITER",
		"void tensorrt_llm::kernels::ar_fusion::moe::moereduction_allreduce_fusion_kernel_oneshot_lamport<__half>(P)":     "fused all-reduce of TensorRT-LLM, FlashInfer or AITER",
		"void tensorrt_llm::kernels::reduce_fusion::lamport_style_one_shot_all_reduce_norm_kernel<__half>(P)":             "custom all-reduce of TensorRT-LLM or PyTorch",
		"void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, false>(P)":                                         "custom all-reduce of TensorRT-LLM or PyTorch",
		"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8u, __nv_bfloat16>(P)":                     "all-reduce of FlashInfer or TensorRT-LLM over multi-node NVLink",
		"void deep_ep::intranode::dispatch<8>(int4*, float*)":                                                             "DeepEP",
		"void dpsk::ep::internode::combine<true, 8>(int4*)":                                                               "DeepEP",
		"void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int)":                                                             "userbuffers of Transformer Engine",
		"nvshmemi_proxy_quiet_entrypoint(int)":                                                                            "NVSHMEM",
		"void mscclpp::collective::allreduceAllPairs<4, float>(float*)":                                                   "MSCCL++",
		"void somebody::ring_allgather_push<8>(float*)":                                                                   unknownLibrary,
		"deep_ep::layout::get_dispatch_layout<256, 8>(long const*)":                                                       "",
		"void dpsk::ep::cuda::get_dispatch_layout<128>(long const*)":                                                      "",
		"void cdpsk::ep::CUB_200700_900_NS::DeviceScanKernel<int>(int)":                                                   "",
		"triton_red_fused_all_reduce_mul_3":                                                                               "",
		"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(R)":                                          "",
		"ampere_sgemm_128x64_tn": "",
	} {
		if got := libraryOf(kernel); got != want {
			t.Errorf("%s is of %q, want %q", kernel, got, want)
		}
	}
}

// What moves data without a process group is counted by library, with its time, and does not vanish in the computation.
func TestExchangesWithoutNCCL(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 9000)
	f.coll("allreduce", 7, 900, 1000, 1100, nil)
	for i := range 3 {
		f.add("kernel", "void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)", 7, 2000+100*float64(i), 50,
			map[string]any{"stream": 7})
	}
	f.add("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 7, 3000, 20, map[string]any{"stream": 7})
	f.add("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, 3100, 20, map[string]any{"stream": 7})
	w := read(t, oneForAll, f)
	notes := strings.Join(w.Head.Source.Notes, "\n")
	for _, want := range []string{
		"3 kernels of custom all-reduce of vLLM, SGLang or AITER, such as vllm::cross_device_reduce_1stage, 0.150 ms in all: data between GPUs without NCCL",
		"1 transfer of the driver, from GPU to GPU, such as Memcpy PtoP, 0.020 ms in all: data between GPUs without NCCL",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes:\n%s\nwant %s", notes, want)
		}
	}
	if n := len(w.Head.Source.Notes); n != 2 {
		t.Errorf("%d notes:\n%s", n, notes)
	}
	alone := &fake{world: 2}
	alone.add("kernel", "void deep_ep::intranode::dispatch<2>(int4*)", 7, 2000, 50, map[string]any{"stream": 7})
	_, err := Read([]input.File{alone.file(t)}, oneForAll, nil)
	if err == nil || !strings.Contains(err.Error(), "1 kernel of DeepEP") {
		t.Errorf("a trace of nothing else: %v", err)
	}
}
