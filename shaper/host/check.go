// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Grade says whether something that a run may need is there.
type Grade string

// Grades.
const (
	OK        Grade = "ok"
	Warn      Grade = "warn"       // there, but it limits what can be emulated
	Missing   Grade = "missing"    // not there; Means says what that rules out
	NotTested Grade = "not tested" // the answer needs something that is not there
)

// Check is one thing that this machine has or lacks.
type Check struct {
	Name  string `json:"name"`
	Grade Grade  `json:"status"`
	Found string `json:"found"` // what there is
	Means string `json:"means"` // what follows for a run
	Next  string `json:"next"`  // how to get it; empty if it is ok
}

// Machine is where the checks look. The zero value is this machine.
type Machine struct {
	Root     fs.FS // of the file system; nil for this machine's
	Getenv   func(string) string
	Plugin   string // folder of libgoemu.so; empty if it was not found
	SoftCUDA string // folder of the software CUDA, which may not be there
}

// Checks looks for everything that a run may need. It changes nothing; qdiscs are
// tried in a network namespace of their own, which is gone afterwards.
func (m Machine) Checks() []Check {
	m = m.complete()
	all := []Check{
		m.cores(), m.numa(), m.sharedMemory(), m.memory(), m.files(), m.memlock(),
		m.plugin(), m.gpus(), m.mps(), m.nccl(), m.softCUDA(), m.ptrace(),
	}
	return append(all, m.kernelDatapath()...)
}

// complete is m with this machine's own where nothing is given.
func (m Machine) complete() Machine {
	if m.Root == nil {
		m.Root = os.DirFS("/")
	}
	if m.Getenv == nil {
		m.Getenv = os.Getenv
	}
	return m
}

// read is the text of a file, trimmed, "" if it cannot be read.
func (m Machine) read(name string) string {
	b, err := fs.ReadFile(m.Root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// exists says whether a file is there.
func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.Root, strings.TrimPrefix(name, "/"))
	return err == nil
}

// mebibytes prints an amount of memory.
func mebibytes(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
