// SPDX-License-Identifier: Apache-2.0

// Package importer makes fabrics of network and node files that other tools write: NCCL's topology of a node, and
// networks of SimAI, ns-3, ASTRA-sim and htsim. Each format has a package below this one.
package importer

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/astrasim"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/importer/htsim"
	"github.com/ddlemu/ddlemu/configs/importer/ncclxml"
	"github.com/ddlemu/ddlemu/configs/importer/simai"
)

// MaxFile is the most bytes that a file may have. The largest of SimAI, for 15360 GPUs, has 4 MB.
const MaxFile = 16 << 20

// maxOther is the most bytes of a file that is no list of links.
const maxOther = 1 << 20

// File is a file to import.
type File struct {
	Name string
	Text string
}

// kind is what a file looks like.
type kind int

const (
	unknown kind = iota
	ncclTopology
	ncclGraph
	hwlocTopology
	simaiTopology
	simaiSettings
	astraYAML
	astraJSON
	htsimTopology
	fabricFile
)

// kindOf looks at the first line that is no comment.
func kindOf(text string) kind {
	trimmed := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(trimmed, "<"):
		switch ncclxml.Root(trimmed) {
		case "system":
			return ncclTopology
		case "graphs":
			return ncclGraph
		case "topology":
			if strings.Contains(trimmed, "hwloc") || strings.Contains(trimmed, "<object type=") {
				return hwlocTopology
			}
		}
		return unknown
	case strings.HasPrefix(trimmed, "{"):
		return astraJSON
	}
	first := ""
	for line := range strings.Lines(trimmed) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" && line != "---" {
			first = line
			break
		}
	}
	key, _, hasColon := strings.Cut(first, ":")
	switch {
	case htsim.Looks(first):
		return htsimTopology
	case simai.Looks(first):
		return simaiTopology
	case simai.LooksLikeSettings(first):
		return simaiSettings
	case hasColon && hasKey(trimmed, "npus_count"):
		return astraYAML
	case hasColon && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") == "" &&
		(hasKey(trimmed, "link") || hasKey(trimmed, "base")):
		return fabricFile
	}
	return unknown
}

// hasKey reports whether a line of YAML begins with a key.
func hasKey(text, key string) bool {
	return strings.HasPrefix(text, key+":") || strings.Contains(text, "\n"+key+":")
}

// Read makes a fabric of files: one of a network or a node, and beside it NCCL's graph or the simulator's settings. It
// may lack values: see found.Fabric.Missing. Errors name the file.
func Read(files []File, o found.Options) (*found.Fabric, error) {
	var main File
	var settings simai.Settings
	var says []string
	conf := ""
	mainKind := unknown
	for _, f := range files {
		f.Text = strings.TrimPrefix(f.Text, "\ufeff") // the mark that some editors put before UTF-8
		k := kindOf(f.Text)
		var err error
		switch {
		case k == unknown:
			err = errUnknown(f.Text)
		case k == hwlocTopology:
			err = errHwloc
		case k != simaiTopology && len(f.Text) > maxOther:
			err = fmt.Errorf("has %d bytes: a file of its kind has at most %d", len(f.Text), maxOther)
		case k == ncclGraph:
			var lines []string
			lines, err = ncclxml.Graphs(f.Text)
			for _, l := range lines {
				says = append(says, "NCCL's graph: "+l)
			}
		case k == simaiSettings:
			settings, err = simai.ReadSettings(f.Text)
			conf = f.Name
		default:
			if mainKind != unknown {
				err = fmt.Errorf("is a second network or node, beside %s: import one", main.Name)
			}
			main, mainKind = f, k
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if conf != "" && mainKind != unknown && mainKind != simaiTopology {
		return nil, fmt.Errorf("%s: is a .conf of the simulator, which belongs to a topology of SimAI or ns-3", conf)
	}
	if mainKind == unknown {
		return &found.Fabric{Says: says}, errNoMachine(files, conf)
	}
	out, err := read(main, mainKind, settings, o)
	if err != nil {
		return &found.Fabric{Says: says}, err
	}
	out.Says = append(out.Says, says...)
	out.Config.Name, out.Config.Description = fabricName(main.Name), ""
	return out, nil
}

// errHwloc is the error for the XML of hwloc, which has neither NVLinks nor the speeds of NICs.
var errHwloc = errors.New("is hwloc's XML (lstopo), which says nothing of NVLinks and of the NICs' speeds: give NCCL's " +
	"topology of the node, which a job with NCCL_TOPO_DUMP_FILE=topo.xml writes there")

func errUnknown(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty")
	}
	return errors.New(
		"is no network or node of another tool that can be read: NCCL's topology (XML), and files of SimAI, ns-3 " +
			"(HPCC), ASTRA-sim and htsim")
}

// errNoMachine is the error of files without a network or a node. conf is the name of the last simulator's settings,
// "" if all files are graphs.
func errNoMachine(files []File, conf string) error {
	if conf == "" {
		return fmt.Errorf(
			"%s: is NCCL's graph, which is what NCCL decided and no machine: give the topology beside it, from "+
				"NCCL_TOPO_DUMP_FILE", files[0].Name)
	}
	return fmt.Errorf(
		"%s: is how a simulator runs and no network: give the topology beside it, the simulator's TOPOLOGY_FILE", conf)
}

// read reads the file of a network or a node.
func read(f File, k kind, settings simai.Settings, o found.Options) (out *found.Fabric, err error) {
	switch k {
	case ncclTopology:
		out, err = ncclxml.Read(f.Text, o)
	case simaiTopology:
		out, err = simai.Read(f.Text, settings, o)
	case astraYAML:
		out, err = astrasim.Read(f.Text, o)
	case astraJSON:
		out, err = astrasim.ReadJSON(f.Text, o)
	case htsimTopology:
		out, err = htsim.Read(f.Text, o)
	case fabricFile:
		err = errors.New("is a fabric file already: use it with -F")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return out, nil
}

// fabricName makes the name of a fabric from the name of a file.
func fabricName(file string) string {
	name := filepath.Base(file)
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, strings.TrimSuffix(name, filepath.Ext(name)))
	if name = strings.Trim(name, "-_"); name == "" || len(name) > 64 {
		return "imported"
	}
	return name
}

// Text is a fabric file with comments that say what it was made of. f is valid; in has the facts and notes.
func Text(f *configs.Fabric, in *found.Fabric, names []string) ([]byte, error) {
	var b strings.Builder
	comment := func(text string) { b.WriteString("# " + wrap(text, 116, "\n#   ") + "\n") }
	comment(fmt.Sprintf("Made by ddlemu fabric import of %s: %s.", strings.Join(names, ", "), in.Kind))
	for _, s := range in.Says {
		comment(s)
	}
	if len(in.Notes) > 0 {
		comment("Notes:")
	}
	for _, n := range in.Notes {
		comment("- " + n)
	}
	text, err := f.Encode()
	if err != nil {
		return nil, err
	}
	all := append([]byte(b.String()), text...)
	if _, err := configs.Decode(names[0], all); err != nil {
		return nil, fmt.Errorf("the fabric cannot be written as a file: %w", err)
	}
	return all, nil
}

// wrap breaks text at spaces before width bytes.
func wrap(text string, width int, newline string) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		switch {
		case length > 0 && length+1+len(word) > width:
			b.WriteString(newline)
			length = 0
		case length > 0:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}
