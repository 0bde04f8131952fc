// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Grade is the result of a check.
type Grade string

// Grades.
const (
	OK        Grade = "ok"
	Warn      Grade = "warn"       // present, but it limits what can be emulated
	Missing   Grade = "missing"    // absent; Means says what does not work without it
	NotTested Grade = "not tested" // testing it needs something that is absent
)

// Check is the result for one thing that a run may need.
type Check struct {
	Name  string `json:"name"`
	Grade Grade  `json:"status"`
	Found string `json:"found"` // what is present
	Means string `json:"means"` // the consequence for a run
	Next  string `json:"next"`  // how to get what is absent; empty if the grade is ok
}

// Machine is the machine to check. The zero value is this machine.
type Machine struct {
	Root     fs.FS // root of the file system; nil for this machine's
	Getenv   func(string) string
	Plugin   string // folder of libgoemu.so; empty if it was not found
	SoftCUDA string // folder of the software CUDA, which may not exist
}

// Checks checks everything that a run may need. It changes nothing: qdiscs are tested in a new network namespace, which
// is removed.
func (m Machine) Checks() []Check {
	m = m.complete()
	all := []Check{
		m.cores(), m.numa(), m.sharedMemory(), m.memory(), m.files(), m.memlock(),
		m.plugin(), m.gpus(), m.mps(), m.nccl(), m.softCUDA(), m.ptrace(),
	}
	return append(all, m.kernelDatapath()...)
}

// complete is m with the values of this machine for fields that are not set.
func (m Machine) complete() Machine {
	if m.Root == nil {
		m.Root = os.DirFS("/")
	}
	if m.Getenv == nil {
		m.Getenv = os.Getenv
	}
	return m
}

// read is the trimmed text of a file, "" if it cannot be read.
func (m Machine) read(name string) string {
	b, err := fs.ReadFile(m.Root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// exists says whether a file exists.
func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.Root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// mebibytes formats an amount of memory.
func mebibytes(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
