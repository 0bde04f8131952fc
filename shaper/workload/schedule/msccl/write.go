// SPDX-License-Identifier: Apache-2.0

package msccl

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/internal/xmltext"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Write writes a schedule as MSCCL and RCCL read it. If it has a Grain, that is one more attribute of <algo>, which
// they ignore: their messages are a quarter of NCCL_BUFFSIZE with Simple.
func Write(out io.Writer, s *schedule.Schedule) error {
	if s.Whole {
		return errors.New(
			"MSCCL XML has no stores into the memory of another GPU: this schedule cannot be written as such")
	}
	w := bufio.NewWriter(out)
	grain := ""
	if s.Grain > 0 {
		grain = fmt.Sprintf(` grain="%d"`, s.Grain)
	}
	fmt.Fprintf(w,
		`<algo name="%s" proto="%s" nchannels="%d" nchunksperloop="%d" ngpus="%d" coll="%s" inplace="%d" outofplace="%d" minBytes="%d" maxBytes="%d"%s>`+"\n",
		xmltext.Escape(s.Name), s.Proto, s.Channels, s.LoopChunks, len(s.GPUs), s.Coll, units.Bit(s.InPlace),
		units.Bit(s.OutOfPlace), s.MinBytes, s.MaxBytes, grain)
	for id := range s.GPUs {
		writeGPU(w, id, &s.GPUs[id])
	}
	fmt.Fprintln(w, `</algo>`)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the schedule: %w", err)
	}
	return nil
}

func writeGPU(w io.Writer, id int, g *schedule.GPU) {
	fmt.Fprintf(w, "  <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n",
		id, g.Chunks[schedule.Input], g.Chunks[schedule.Output], g.Chunks[schedule.Scratch])
	for _, c := range g.Copies {
		fmt.Fprintf(w, "    <copy i_off=\"%d\" o_off=\"%d\"/>\n", c.From, c.To)
	}
	for i, b := range g.Blocks {
		fmt.Fprintf(w, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", i, b.Send, b.Recv, b.Channel)
		for k, s := range b.Steps {
			fmt.Fprintf(w,
				"      <step s=\"%d\" type=\"%v\" srcbuf=\"%v\" srcoff=\"%d\" dstbuf=\"%v\" dstoff=\"%d\" cnt=\"%d\" "+
					"depid=\"%d\" deps=\"%d\" hasdep=\"%d\"/>\n",
				k, s.Kind, s.Src.Buffer, s.Src.Offset, s.Dst.Buffer, s.Dst.Offset, s.Count, s.DepBlock, s.DepStep,
				units.Bit(s.HasDep))
		}
		fmt.Fprintln(w, "    </tb>")
	}
	fmt.Fprintln(w, "  </gpu>")
}
