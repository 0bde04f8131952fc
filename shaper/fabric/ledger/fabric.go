// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// fabricName is the file in a folder of ledgers that describes the fabric: a fabric file, as `ddlemu up`
// takes it.
const fabricName = "fabric.yaml"

// changesSuffix ends the names of the files in which processes note changes of links, beside their
// ledgers.
const changesSuffix = ".changes"

// ErrNoFabric says that a folder of ledgers does not say which fabric the job ran on.
var ErrNoFabric = errors.New("it is not known")

// WriteFabric writes the description of the job's fabric into the folder of its ledgers, unless another
// process has done so.
func WriteFabric(dir string, config []byte) error {
	name := filepath.Join(dir, fabricName)
	part, err := os.CreateTemp(dir, ".fabric-*")
	if err != nil {
		return fmt.Errorf("write the fabric beside the ledgers: %w", err)
	}
	defer os.Remove(part.Name())
	_, err = part.Write(config)
	if err = errors.Join(err, part.Close()); err != nil {
		return fmt.Errorf("write the fabric beside the ledgers: %w", err)
	}
	if err := os.Link(part.Name(), name); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("write the fabric beside the ledgers: %w", err)
	}
	return nil
}

// ReadFabric reads that description, and says where it is.
func ReadFabric(dir string) (config []byte, path string, err error) {
	path = filepath.Join(dir, fabricName)
	config, err = bounds.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, path, fmt.Errorf(
			"read the fabric of the ledgers: %w: there is no %s; if the job was recorded on its own network "+
				"(DDLEMU_RECORD), only `ddlemu record --from %s` reads it", ErrNoFabric, path, dir)
	}
	if err != nil {
		return nil, path, fmt.Errorf("read the fabric of the ledgers: %w", err)
	}
	return config, path, nil
}

// Change is new parameters of a hop.
type Change struct {
	Time int64 // ns of the fabric's clock; 0: before the job
	Hop  int
	Spec link.Spec
}

// specBytes is the memory of a spec, which has no pointers.
func specBytes(s *link.Spec) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// AppendChange notes a change in the file of a process.
func AppendChange(dir string, rank, pid int, c Change) error {
	name := filepath.Join(dir, fmt.Sprintf("rank%d.%d%s", rank, pid, changesSuffix))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("note a change of a link: %w", err)
	}
	_, err = fmt.Fprintf(f, "%d %d %s\n", c.Time, c.Hop, hex.EncodeToString(specBytes(&c.Spec)))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("note a change of a link: %w", err)
	}
	return nil
}

// ReadChanges reads the changes that all processes have noted, in the order of their times, each once.
func ReadChanges(dir string) ([]Change, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+changesSuffix))
	if err != nil {
		return nil, fmt.Errorf("look for changes of links: %w", err)
	}
	var all []Change
	for _, name := range names {
		text, err := bounds.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read changes of links: %w", err)
		}
		if all, err = parseChanges(all, text); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	slices.SortFunc(all, compareChanges)
	return slices.Compact(all), nil
}

func compareChanges(a, b Change) int {
	if a.Time != b.Time {
		if a.Time < b.Time {
			return -1
		}
		return 1
	}
	if a.Hop != b.Hop {
		return a.Hop - b.Hop
	}
	return bytes.Compare(specBytes(&a.Spec), specBytes(&b.Spec))
}

// parseChanges reads whole lines. A process that was killed may have left a part of one.
func parseChanges(all []Change, text []byte) ([]Change, error) {
	for lines := bufio.NewScanner(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1])); lines.Scan(); {
		var c Change
		var spec string
		if n, err := fmt.Sscanf(lines.Text(), "%d %d %s", &c.Time, &c.Hop, &spec); err != nil || n != 3 {
			return nil, fmt.Errorf("the line %q is no change of a link", lines.Text())
		}
		b, err := hex.DecodeString(strings.TrimSpace(spec))
		if err != nil || len(b) != int(unsafe.Sizeof(c.Spec)) || c.Hop < 0 {
			return nil, fmt.Errorf("the line %q is no change of a link", lines.Text())
		}
		copy(specBytes(&c.Spec), b)
		// A bool of another value than 0 and 1 is no bool.
		if down := *(*uint8)(unsafe.Pointer(&c.Spec.Down)); down > 1 {
			return nil, fmt.Errorf("the line %q is no change of a link", lines.Text())
		}
		all = append(all, c)
	}
	return all, nil
}
