// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/probe"
)

// kernelDatapath checks what shaping in the kernel needs, by trying it.
func (m Machine) kernelDatapath() []Check {
	const means = "for shaping all traffic of a node in the kernel, which is not in this version; the shm datapath needs no root"
	if !m.capable(unix.CAP_NET_ADMIN) || !m.capable(unix.CAP_SYS_ADMIN) {
		next := "sudo, or docker run --cap-add NET_ADMIN --cap-add SYS_ADMIN"
		return []Check{
			{Name: "CAP_NET_ADMIN", Grade: Missing, Found: "no right to make network namespaces", Means: means, Next: next},
			{Name: "qdiscs", Grade: NotTested, Found: "needs root", Means: means, Next: next},
			{Name: "BPF", Grade: NotTested, Found: "needs root", Means: means, Next: next},
		}
	}
	return []Check{
		{Name: "CAP_NET_ADMIN", Grade: OK, Found: "network namespaces can be made", Means: means},
		qdiscCheck(probe.Qdiscs()),
		bpfCheck(probeBPF()),
	}
}

// capable says whether this process has a capability in force.
func (m Machine) capable(bit uint) bool {
	for _, line := range strings.Split(m.read("/proc/self/status"), "\n") {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && set>>bit&1 == 1
		}
	}
	return false
}

// sorted are the names of the features that are there, that are not, and that are
// not known.
func sorted(all []probe.Part) (have, lack, open []string) {
	for _, f := range all {
		switch {
		case f.Err == nil:
			have = append(have, f.Name)
		case errors.Is(f.Err, probe.ErrNotThere):
			lack = append(lack, f.Name)
		default:
			open = append(open, fmt.Sprintf("%s (%v)", f.Name, f.Err))
		}
	}
	return have, lack, open
}

// found puts features into words.
func found(all []probe.Part) string {
	have, lack, open := sorted(all)
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"", have}, {"not ", lack}, {"not known: ", open}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+strings.Join(p.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func qdiscCheck(all []probe.Part, err error) Check {
	k := Check{Name: "qdiscs", Grade: OK, Found: found(all), Means: "the kernel can limit rates with tbf or htb, and delay packets with netem, or fq and BPF; the shm datapath needs none of them"}
	if err != nil {
		k.Grade, k.Found, k.Next = NotTested, err.Error(), "run ddlemu doctor as root, outside of a container that forbids namespaces"
		return k
	}
	have := map[string]bool{}
	for _, f := range all {
		have[f.Name] = f.Err == nil
	}
	switch {
	case !have["tbf"] && !have["htb"]:
		k.Grade, k.Means, k.Next = Missing, "the kernel cannot limit a rate; the shm datapath needs none of this", "use a distribution's kernel, which has sch_tbf and sch_htb"
	case !have["netem"] && !have["fq"]:
		k.Grade, k.Means, k.Next = Warn, "the kernel can limit rates but not delay packets; the shm datapath needs none of this", "use a distribution's kernel, which has sch_netem and sch_fq (modprobe sch_netem)"
	}
	return k
}

// probeBPF tries the kinds of programs and maps that shaping in the kernel uses.
func probeBPF() []probe.Part {
	verdict := func(err error) error {
		if errors.Is(err, ebpf.ErrNotSupported) {
			return probe.ErrNotThere
		}
		return err
	}
	return []probe.Part{
		{Name: "sched_cls programs", Err: verdict(features.HaveProgramType(ebpf.SchedCLS))},
		{Name: "sock_ops programs", Err: verdict(features.HaveProgramType(ebpf.SockOps))},
		{Name: "ring buffers", Err: verdict(features.HaveMapType(ebpf.RingBuf))},
		{Name: "packet departure times", Err: verdict(features.HaveProgramHelper(ebpf.SchedCLS, asm.FnSkbSetTstamp))},
	}
}

func bpfCheck(all []probe.Part) Check {
	k := Check{Name: "BPF", Grade: OK, Found: found(all), Means: "the kernel can shape packet by packet; the shm datapath needs none of this"}
	if all[0].Err != nil {
		k.Grade, k.Means, k.Next = Missing, "the kernel has qdiscs alone; the shm datapath needs none of this", "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF, and CAP_BPF"
	}
	return k
}
