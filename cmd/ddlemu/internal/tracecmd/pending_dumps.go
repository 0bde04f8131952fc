// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/desync"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/workload/formats"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// dumpFiles are the dumps of PyTorch's flight recorder among the arguments of pending: files, or the dumps of a folder.
// They are none if the argument is a folder of ledgers, or has no dump.
func dumpFiles(args []string) ([]input.File, error) {
	if len(args) == 1 {
		if info, err := os.Stat(args[0]); err != nil || info.IsDir() {
			return dumpsOfFolder(args[0])
		}
	}
	files := input.Paths(args)
	for _, f := range files {
		if kind, err := formats.Detect(f); err != nil {
			return nil, err
		} else if kind != formats.FlightRec {
			return nil, fmt.Errorf("%s is no dump of PyTorch's flight recorder: it is of the format %s", f.Name, kind)
		}
	}
	return files, nil
}

// dumpsOfFolder are the dumps in a folder that has no ledgers.
func dumpsOfFolder(dir string) ([]input.File, error) {
	if ledgers, err := ledger.Files(dir); err != nil || len(ledgers) > 0 {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil // the reader of ledgers says why
	}
	var files []input.File
	for _, e := range entries {
		f := input.Path(filepath.Join(dir, e.Name()))
		if !e.Type().IsRegular() {
			continue
		}
		if kind, err := formats.Detect(f); err == nil && kind == formats.FlightRec {
			files = append(files, f)
		}
	}
	return files, nil
}

// dumpsMemory is the memory above which the garbage collector works harder, in bytes. Millions of calls need about 300
// MB, and their garbage would double that.
const dumpsMemory = 384 << 20

// pendingDumps says what the ranks of dumps wait for.
func pendingDumps(g *cli.Global, files []input.File) error {
	debug.SetMemoryLimit(dumpsMemory)
	j, err := flightrec.ReadJob(files)
	if err != nil {
		return cli.BadInput("%w", err)
	}
	r := desync.Of(j)
	return g.Print(desyncJSON(j, r), func(w io.Writer) { printDesync(w, j, r) })
}

// printDesync prints what the ranks wait for.
func printDesync(w io.Writer, j *flightrec.Job, r *desync.Report) {
	switch found := len(r.Calls)+len(r.Messages) > 0; {
	case found:
	case len(r.NoDump) > 0:
		fmt.Fprintf(w,
			"no dump of %s, of %s: look there first. No call of the others is missing, differs or still runs, as far "+
				"as the dumps say (%s)\n",
			groupRanks(r.NoDump), units.Count(j.World, "rank"), units.Count(r.Examined, "call"))
	default:
		fmt.Fprintf(w, "nothing: no call is missing, differs or still runs, as far as the dumps say (%s)\n",
			units.Count(r.Examined, "call"))
	}
	for i := range r.Calls {
		printDesyncCall(w, &r.Calls[i])
	}
	for _, m := range r.Messages {
		fmt.Fprintf(w, "message from rank %d to rank %d, group %s, #%d, %s: %s", m.From, m.To, m.GroupName.String(),
			m.Sequence, m.Tensors, m.Problem)
		if m.Has != "" {
			fmt.Fprintf(w, ": %s", m.Has)
		}
		if m.Where != "" {
			fmt.Fprintf(w, " (%s)", m.Where)
		}
		fmt.Fprintln(w)
		if m.Later > 0 {
			fmt.Fprintf(w, "  %s after it, not finished either\n", units.Count(m.Later, "message"))
		}
	}
	for _, l := range r.Last {
		fmt.Fprintf(w, "%s\n", lastText(l))
	}
	if len(r.NoDump) > 0 && len(r.Calls)+len(r.Messages) > 0 {
		fmt.Fprintf(w, "no dump of %s, of %s: look there too\n", groupRanks(r.NoDump), units.Count(j.World, "rank"))
	}
	for i := range r.Shared {
		printNoDump(w, &r.Shared[i])
	}
	lines.Print(w, "note: %s\n", r.Notes)
}

func printDesyncCall(w io.Writer, c *desync.Unmatched) {
	fmt.Fprintf(w, "%s #%d of group %s, ranks %s, %s: called by %s", c.Function, c.Sequence, c.GroupName.String(),
		c.Ranks, c.Tensors, groupRanks(c.Begun))
	if c.Where != "" {
		fmt.Fprintf(w, " (%s)", c.Where)
	}
	fmt.Fprintln(w)
	for _, part := range []struct {
		text  string
		ranks desync.Ranks
	}{
		{"not called by %s", c.Missing}, {"not ended on %s", c.Waiting}, {"given up after its timeout by %s",
			c.TimedOut},
		{"not known of %s: the recorder has overwritten older calls", c.Unknown},
		{"not known of %s: no dump", c.NoDump},
	} {
		if len(part.ranks) > 0 {
			fmt.Fprintf(w, "  "+part.text+"\n", groupRanks(part.ranks))
		}
	}
	for _, d := range c.Differs {
		if d.Rank < 0 {
			fmt.Fprintf(w, "  the %s differ: %s, %s\n", d.What, d.Has, d.OthersHas)
			continue
		}
		fmt.Fprintf(w, "  rank %d differs in %s: %s, others have %s\n", d.Rank, d.What, d.Has, d.OthersHas)
	}
	if c.Later > 0 {
		fmt.Fprintf(w, "  %s of the group after it, not finished either\n", units.Count(c.Later, "call"))
	}
}

// lastText says what a rank did last.
func lastText(l desync.Last) string {
	if l.Function == "" {
		return fmt.Sprintf("rank %d: its dump has no call", l.Rank)
	}
	text := fmt.Sprintf("rank %d: its last call is %s #%d of group %s, %s", l.Rank, l.Function, l.Sequence,
		l.Group.String(), l.State)
	if l.Where != "" {
		text += " (" + l.Where + ")"
	}
	return text + fmt.Sprintf(", %s before the newest call of all", time.Duration(l.BeforeNs).Round(time.Microsecond))
}

// printNoDump prints what the ranks with a dump did last in a group that has a rank without one.
func printNoDump(w io.Writer, s *desync.Shared) {
	fmt.Fprintf(w, "group %s, ranks %s, without a dump of %s: the last calls are\n", s.GroupName.String(), s.Ranks,
		groupRanks(s.NoDump))
	for _, l := range s.Last {
		if l.Function == "" {
			fmt.Fprintf(w, "  none on %s\n", groupRanks(l.Ranks))
			continue
		}
		text := fmt.Sprintf("  %s #%d on %s, %s", l.Function, l.Sequence, groupRanks(l.Ranks), l.State)
		if l.Where != "" {
			text += " (" + l.Where + ")"
		}
		fmt.Fprintln(w, text)
	}
}

func groupRanks(r desync.Ranks) string {
	sorted := desync.Ranks(slices.Sorted(slices.Values(r)))
	if len(r) == 1 {
		return "rank " + sorted.String()
	}
	return "ranks " + sorted.String()
}

// desyncLast is the last call of a rank in JSON.
type desyncLast struct {
	Rank     int    `json:"rank"`
	Function string `json:"function"` // "" if it has made none
	Sequence uint32 `json:"sequence"`
	Group    string `json:"group"`
	State    string `json:"state"`
	Where    string `json:"where,omitempty"`
	BeforeNs int64  `json:"before_newest_ns"`
}

func desyncJSON(j *flightrec.Job, r *desync.Report) any {
	last := []desyncLast{}
	for _, l := range r.Last {
		last = append(last, desyncLast{l.Rank, l.Function, l.Sequence, l.Group.Name, l.State, l.Where, l.BeforeNs})
	}
	return struct {
		Ranks    int                `json:"ranks"`
		NoDump   desync.Ranks       `json:"no_dump"`
		Calls    []desync.Unmatched `json:"calls"`
		Messages []desync.Message   `json:"messages"`
		Last     []desyncLast       `json:"last_calls"`
		Shared   []desync.Shared    `json:"groups_without_a_dump"`
		Notes    []string           `json:"notes"`
	}{j.World, r.NoDump, append([]desync.Unmatched{}, r.Calls...), append([]desync.Message{}, r.Messages...), last,
		append([]desync.Shared{}, r.Shared...), append([]string{}, r.Notes...)}
}
