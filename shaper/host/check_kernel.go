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
		qdiscCheck(probeQdiscs()),
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

// feature is a part of the kernel and what trying it gave: nil if it is there,
// errNotThere if not, anything else leaves it open.
type feature struct {
	name string
	err  error
}

var errNotThere = errors.New("not in this kernel")

// sorted are the names of the features that are there, that are not, and that are
// not known.
func sorted(all []feature) (have, lack, open []string) {
	for _, f := range all {
		switch {
		case f.err == nil:
			have = append(have, f.name)
		case errors.Is(f.err, errNotThere):
			lack = append(lack, f.name)
		default:
			open = append(open, fmt.Sprintf("%s (%v)", f.name, f.err))
		}
	}
	return have, lack, open
}

// found puts features into words.
func found(all []feature) string {
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

func qdiscCheck(all []feature, err error) Check {
	k := Check{Name: "qdiscs", Grade: OK, Found: found(all), Means: "the kernel can limit rates with tbf or htb, and delay packets with netem, or fq and BPF; the shm datapath needs none of them"}
	if err != nil {
		k.Grade, k.Found, k.Next = NotTested, err.Error(), "run ddlemu doctor as root, outside of a container that forbids namespaces"
		return k
	}
	have := map[string]bool{}
	for _, f := range all {
		have[f.name] = f.err == nil
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
func probeBPF() []feature {
	verdict := func(err error) error {
		if errors.Is(err, ebpf.ErrNotSupported) {
			return errNotThere
		}
		return err
	}
	return []feature{
		{"sched_cls programs", verdict(features.HaveProgramType(ebpf.SchedCLS))},
		{"sock_ops programs", verdict(features.HaveProgramType(ebpf.SockOps))},
		{"ring buffers", verdict(features.HaveMapType(ebpf.RingBuf))},
		{"packet departure times", verdict(features.HaveProgramHelper(ebpf.SchedCLS, asm.FnSkbSetTstamp))},
	}
}

func bpfCheck(all []feature) Check {
	k := Check{Name: "BPF", Grade: OK, Found: found(all), Means: "the kernel can shape packet by packet; the shm datapath needs none of this"}
	if all[0].err != nil {
		k.Grade, k.Means, k.Next = Missing, "the kernel has qdiscs alone; the shm datapath needs none of this", "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF, and CAP_BPF"
	}
	return k
}
