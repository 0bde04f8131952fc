// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// Situation is where NCCL runs.
type Situation struct {
	NCCL string // version, as 2.22 or 2.22.3; "" if it is not known
	Soft bool   // on the software CUDA
	// times are of a virtual clock or of the model: work of the host, and data within a node, take none
	Timeless bool
	Starts   bool   // a command starts NCCL's processes, or the program that does, with the variables of class Set
	OwnRanks bool   // NCCL's processes are ddlemu's own, and no program of the user
	Kernel   bool   // the datapath is kernel
	Fabric   string // name of a fabric that is up and was asked for, "" if variables may describe the fabric
}

const (
	ncclPrefix   = "NCCL_"
	ddlemuPrefix = "DDLEMU_"
)

// Notes has a line for each of set that has no effect, or that is not known, by name. A variable without a value is not
// set, as for NCCL.
func Notes(s Situation, set []Setting) []string {
	debug := slices.ContainsFunc(set, func(v Setting) bool { return v.Name == "NCCL_DEBUG" && v.Value != "" })
	var out []string
	for _, v := range set {
		text := ""
		switch {
		case v.Value == "":
		case strings.HasPrefix(strings.TrimSpace(v.Name), ncclPrefix):
			text = ofNCCL(&s, v, debug)
		case strings.HasPrefix(v.Name, ddlemuPrefix):
			text = ofDDLEMU(&s, v)
		}
		if text != "" {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ofNCCL(s *Situation, set Setting, debug bool) string {
	v := find(set.Name)
	if v == nil || v.Class == Symbol {
		return unknown(set, ncclNames(), "NCCL "+versionText(s.NCCL)+" has no such variable")
	}
	if v.Class == Set && !s.Starts {
		return "" // the plugin has set it
	}
	version := listed(s.NCCL)
	if version != "" && len(v.In) > 0 && !slices.Contains(v.In, version) {
		return noEffect(set, fmt.Sprintf("NCCL %s does not have it, %s does", version, strings.Join(v.In, " and ")))
	}
	if v.Class == Set {
		if set.Value != v.Reason {
			return noEffect(set, fmt.Sprintf("ddlemu sets it to %s", v.Reason))
		}
		return ""
	}
	if why := v.why(s, debug); why != "" {
		return noEffect(set, why)
	}
	if v.Class == Modelled { // they are numbers
		if _, err := ParseInt(set.Value); err != nil {
			return fmt.Sprintf("%s is not what it seems: %v", set.text(), err)
		}
	}
	return ""
}

// versionText names the version that was searched.
func versionText(nccl string) string {
	if v := listed(nccl); v != "" {
		return v
	}
	return "(" + strings.Join(Versions, ", ") + ")"
}

func noEffect(set Setting, why string) string { return set.text() + " has no effect here: " + why }

// unknown is the line for a name that nobody reads.
func unknown(set Setting, names []string, why string) string {
	if trimmed := strings.TrimSpace(set.Name); trimmed != set.Name {
		return noEffect(set, fmt.Sprintf("a space is part of the name %q: remove it", set.Name))
	}
	if near := similar(set.Name, names); near != "" {
		why += ": did you mean " + near + "?"
	}
	return noEffect(set, why)
}

// similar is the name that is most similar to word, "" if none is: a quarter of the letters may be wrong.
func similar(word string, names []string) string {
	best, least := "", 0
	for _, name := range names {
		_, rest, _ := strings.Cut(name, "_")
		d := configs.Distance(word, name)
		_, own, _ := strings.Cut(word, "_")
		switch {
		case strings.HasPrefix(own, rest):
			d = 0 // such as DDLEMU_LATENCY for DDLEMU_LAT
		case len(own) > 3 && strings.Contains(rest, own):
			d = min(d, 1)
		}
		if d <= max(2, len(rest)/4) && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// ncclNames are the names that NCCL reads.
func ncclNames() []string {
	var names []string
	for _, v := range List() {
		if v.Class != Symbol && v.Class != Other {
			names = append(names, v.Name)
		}
	}
	return names
}
