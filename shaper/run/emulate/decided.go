// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
)

// Decided are calls with NCCL's decisions on them, which do not depend on what a node costs. So the model can calculate
// them with many costs, and NCCL decides once.
type Decided struct {
	CUDA  string // that NCCL had, as in locate.Libraries
	NCCL  string // its version
	Cases []bench.Case
}

// Decide asks real NCCL for its decision on each row of o.Bench, see [Expect].
func Decide(ctx context.Context, o Options) (*Decided, error) {
	cases, _, info, err := o.decide(ctx)
	if err != nil {
		return nil, err
	}
	return &Decided{CUDA: o.Libraries.CUDA, NCCL: info.NCCL, Cases: cases}, nil
}

// Check returns an error if these are decisions on other calls than the calls of o, or of another NCCL. Of the NCCL of
// a machine with a GPU it does not know the version.
func (d *Decided) Check(o *Options) error {
	same := slices.EqualFunc(d.Cases, o.Bench.Cases(), func(a, b bench.Case) bool {
		return a.Collective == b.Collective && a.Type == b.Type && a.Ranks == b.Ranks && a.Size == b.Size
	})
	line := o.Libraries.Version
	switch {
	case !same:
		return errors.New("decisions on other calls than the table's")
	case d.CUDA != o.Libraries.CUDA:
		return fmt.Errorf("decisions with the CUDA %q instead of %q", d.CUDA, o.Libraries.CUDA)
	case line != "" && !strings.HasPrefix(d.NCCL, line+"."):
		return fmt.Errorf("decisions of NCCL %s instead of %s", d.NCCL, line)
	}
	return nil
}

// Write writes what [ReadDecided] reads. What all calls share is written once.
func (d *Decided) Write(w io.Writer) error {
	short := Decided{CUDA: d.CUDA, NCCL: d.NCCL}
	for i, c := range d.Cases {
		if i > 0 {
			c.Topology, c.NICs = nil, nil
		}
		short.Cases = append(short.Cases, c)
	}
	return gob.NewEncoder(w).Encode(short)
}

// ReadDecided reads what Write wrote.
func ReadDecided(r io.Reader) (*Decided, error) {
	d := &Decided{}
	if err := gob.NewDecoder(r).Decode(d); err != nil {
		return nil, fmt.Errorf("read the decisions: %w", err)
	}
	for i := range d.Cases {
		d.Cases[i].Topology, d.Cases[i].NICs = d.Cases[0].Topology, d.Cases[0].NICs
	}
	return d, nil
}

// NodeModel calculates the times of decided calls with any cost of the nodes. It is safe for concurrent use.
type NodeModel struct {
	*Decided
	o      Options
	fabric *fabric.Fabric
}

// Model returns the model of the calls, which o had decided, on o's fabric.
func (d *Decided) Model(o Options) (*NodeModel, error) {
	o.ChooseClock()
	f, err := o.askedFabric()
	if err != nil {
		return nil, err
	}
	return &NodeModel{Decided: d, o: o, fabric: f}, nil
}

// Expect returns the expectation of call i if the nodes cost t.
func (m *NodeModel) Expect(ctx context.Context, i int, t *configs.GPUTime) (bench.Expectation, error) {
	f := *m.fabric
	gpu := *f.Config.GPU
	gpu.Time, f.Config.GPU, f.Config.NodeTime = t, &gpu, true
	row := m.o.forecast(ctx, expected.New(&f, m.o.Node(&f), m.o.Variable), m.Cases[i])
	if !row.Known {
		return row.Expectation, errors.New(row.Problem)
	}
	return row.Expectation, nil
}
