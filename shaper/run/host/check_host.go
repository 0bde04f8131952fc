// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Amounts that a run needs.
const (
	enoughShm     = 64 << 20  // fabrics and NCCL's own segments
	rankMemory    = 256 << 20 // what one rank may reserve for connections
	enoughFiles   = 1024
	enoughMemlock = 64 << 20
)

func (m Machine) cores() Check {
	c := CPUs()
	k := Check{
		Name: "cores", Grade: OK, Found: fmt.Sprintf("%.3g of %d", c.Usable, c.Online),
		Means: fmt.Sprintf(
			"each rank polls on one core, with the software CUDA on two: enough for %d ranks on GPUs, or %d without",
			int(c.Usable), int(c.Usable/2)),
	}
	switch {
	case c.Quota > 0 && c.Quota < float64(c.Affinity):
		k.Grade = Warn
		k.Found += fmt.Sprintf("; the control group grants %.3g", c.Quota)
		k.Means += "; a group that has used up its quota stops for tens of ms, which makes timing INVALID"
		k.Next = "raise the quota (docker run --cpus), or pin cores instead (--cpuset-cpus)"
	case c.Usable < 4:
		k.Grade = Warn
		k.Means += "; more run at a larger time scale"
		k.Next = "use a machine with more cores, fewer ranks, or let bench select the time scale"
	}
	return k
}

func (m Machine) numa() Check {
	n := max(listLength(m.read("/sys/devices/system/node/online")), 1)
	k := Check{Name: "NUMA nodes", Grade: OK, Found: strconv.Itoa(n),
		Means: "copies between ranks stay near their memory"}
	if n > 1 {
		k.Grade = Warn
		k.Means = "a copy from another NUMA node's memory is slower, so what is measured depends on where ranks run"
		k.Next = "keep the ranks together: numactl --cpunodebind=0 --membind=0 ddlemu ..."
	}
	return k
}

func (m Machine) sharedMemory() Check {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return Check{
			Name: "/dev/shm", Grade: Missing, Found: err.Error(), Means: "there is no default folder for fabrics",
			Next: "mount a tmpfs there, or set DDLEMU_DIR to a folder in one",
		}
	}
	size, free := st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize)
	k := Check{
		Name: "/dev/shm", Grade: OK, Found: fmt.Sprintf("%s, %s free", mebibytes(size), mebibytes(free)),
		Means: "fabrics are here, and NCCL's segments for ranks of one node; connections use other memory",
	}
	if free < enoughShm {
		k.Grade = Warn
		k.Next = "make it larger: docker run --shm-size 1g, or mount -o remount,size=1g /dev/shm"
	}
	return k
}

func (m Machine) memory() Check {
	available := m.AvailableMemory()
	if available == 0 {
		return Check{Name: "memory", Grade: NotTested, Found: "/proc/meminfo does not say",
			Means: "a rank reserves at most 256 MiB for connections", Next: "mount /proc"}
	}
	k := Check{
		Name: "memory", Grade: OK, Found: mebibytes(available) + " available",
		Means: fmt.Sprintf(
			"a rank reserves at most 256 MiB for connections: enough for %d ranks besides the memory of NCCL",
			available/rankMemory),
	}
	if available < 4*rankMemory {
		k.Grade = Warn
		k.Next = "free memory, or set DDLEMU_MEMORY to less, such as 64M"
	}
	return k
}

func (m Machine) files() Check {
	k := Check{Name: "open files", Means: "a rank opens about two per connection, besides NCCL's"}
	return k.limit(unix.RLIMIT_NOFILE, enoughFiles, "ulimit -n", "ulimit -n 4096")
}

func (m Machine) memlock() Check {
	enough := uint64(0)
	if m.hasGPU() {
		enough = enoughMemlock
	}
	k := Check{Name: "locked memory",
		Means: "with real CUDA, NCCL pins host buffers for the net; the software CUDA pins nothing"}
	return k.limit(unix.RLIMIT_MEMLOCK, enough, "ulimit -l",
		"docker run --ulimit memlock=-1, or ulimit -l unlimited")
}

// limit is k with what a limit of the process is, which command shows. If it is less than enough, next raises it.
func (k Check) limit(resource int, enough uint64, command, next string) Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		k.Grade, k.Found, k.Next = NotTested, err.Error(), "see "+command
		return k
	}
	k.Grade, k.Found = OK, strconv.FormatUint(l.Cur, 10)
	if l.Cur == unix.RLIM_INFINITY {
		k.Found = "unlimited"
	}
	if l.Cur < enough {
		k.Grade, k.Next = Warn, next
	}
	return k
}

func (m Machine) ptrace() Check {
	k := Check{Name: "reading another process", Grade: OK, Found: "allowed for processes of one user",
		Means: "not needed: ranks share memory over sockets"}
	if scope := m.read("/proc/sys/kernel/yama/ptrace_scope"); scope != "" && scope != "0" {
		k.Found = "ptrace_scope is " + scope
	}
	return k
}
