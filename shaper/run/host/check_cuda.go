// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Names of the checks of which one must be OK so that NCCL runs here.
const (
	GPUs     = "GPUs"
	SoftCUDA = "software CUDA"
)

// gpuDir has a folder for each GPU, named by its PCI bus id.
const gpuDir = "proc/driver/nvidia/gpus"

func (m Machine) gpuIDs() []string {
	entries, _ := fs.ReadDir(m.Root, gpuDir) // the folder exists only with the driver
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

func (m Machine) hasGPU() bool { return len(m.gpuIDs()) > 0 }

// gpus checks for GPUs of NVIDIA's driver. It loads no library of the driver.
func (m Machine) gpus() Check {
	var found []string
	for _, id := range m.gpuIDs() {
		found = append(found, id+m.model(path.Join(gpuDir, id, "information")))
	}
	k := Check{Name: GPUs, Grade: OK, Found: strings.Join(found, ", "),
		Means: fmt.Sprintf("%d ranks, one per GPU, on real CUDA", len(found))}
	switch {
	case len(found) == 0 && m.exists("/dev/nvidiactl"):
		k.Grade, k.Found = Warn, "a driver, no GPU"
		k.Means, k.Next = "runs use the software CUDA", "give this container GPUs (docker run --gpus all)"
	case len(found) == 0:
		k.Grade, k.Found = Missing, "none"
		k.Means, k.Next = "runs use the software CUDA: real NCCL, its kernels played on the CPU",
			"use a machine with NVIDIA GPUs for real kernels and frameworks"
	case !m.hasLibrary("libcuda.so.1"):
		k.Grade = Warn
		k.Means, k.Next = "CUDA programs do not start: libcuda.so.1 is not here",
			"install the driver's library, or give this container GPUs (docker run --gpus all)"
	}
	return k
}

// model is a GPU's model in its information file.
func (m Machine) model(file string) string {
	for _, line := range strings.Split(m.read(file), "\n") {
		if name, ok := strings.CutPrefix(line, "Model:"); ok {
			return " (" + strings.TrimSpace(name) + ")"
		}
	}
	return ""
}

// mps checks for the multi-process service, with which ranks can share a GPU.
func (m Machine) mps() Check {
	pipe := cmp.Or(m.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps")
	if m.exists(path.Join(pipe, "control")) {
		return Check{Name: "MPS", Grade: OK, Found: "its control pipe is in " + pipe,
			Means: "ranks that share a GPU run at the same time"}
	}
	if !m.hasGPU() {
		return Check{Name: "MPS", Grade: OK, Found: "not needed", Means: "there is no GPU to share"}
	}
	return Check{
		Name: "MPS", Grade: Missing, Found: "no control pipe in " + pipe,
		Means: "ranks that share a GPU are time-sliced: their values are right, their timing is INVALID",
		Next:  "only if ranks are to share a GPU: nvidia-cuda-mps-control -d",
	}
}

// softCUDA checks for the software CUDA beside ddlemu.
func (m Machine) softCUDA() Check {
	k := Check{Name: SoftCUDA, Grade: OK, Means: "NCCL runs without a GPU"}
	found := []string{}
	for _, lib := range m.glob(path.Join(m.SoftCUDA, "lib/nccl-*/libnccl.so.2")) {
		if v := m.ncclVersion(lib); v != "" {
			found = append(found, "NCCL "+v)
		}
	}
	switch {
	case m.SoftCUDA == "" || !m.exists(path.Join(m.SoftCUDA, "lib/libcudart.so")):
		k.Grade, k.Found = Missing, "not in "+cmp.Or(m.SoftCUDA, "any known place")
		k.Means, k.Next = "without a GPU nothing runs", "make build, in ddlemu's source"
	case len(found) == 0:
		k.Grade, k.Found = Missing, "the runtime alone, in "+m.SoftCUDA
		k.Means, k.Next = "there is no NCCL for it, so without a GPU nothing runs",
			"make build, with a network that Debian's packages come over"
	default:
		k.Found = strings.Join(found, ", ") + " in " + m.SoftCUDA
	}
	return k
}

func (m Machine) plugin() Check {
	if m.Plugin != "" && m.exists(path.Join(m.Plugin, "libgoemu.so")) {
		return Check{Name: "plugin", Grade: OK, Found: path.Join(m.Plugin, "libgoemu.so"),
			Means: "NCCL's traffic can be emulated"}
	}
	return Check{
		Name: "plugin", Grade: Missing, Found: "libgoemu.so is not in " + cmp.Or(m.Plugin, "any known place"),
		Means: "no traffic can be emulated", Next: "make build, or set DDLEMU_PLUGIN_DIR to its folder",
	}
}
