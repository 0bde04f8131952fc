// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/intercept/desync"
	"github.com/ddlemu/ddlemu/intercept/diff"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/intercept/timeline/archive"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/nccl/debuglog"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/formats"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	schedulecheck "github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/convert"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
)

// reader reads files from outside.
type reader struct {
	name string
	// reads are the files and folders of the module, relative to it, whose code reads the input.
	reads []string
	// samples are the files and folders, relative to the module, with inputs; texts are the strings in the tests of
	// these packages.
	samples []string
	texts   []string
	bombs   []bomb
	// made makes samples in a folder that is there for this.
	made func(dir string) ([][]byte, error)
	read func(data []byte, dir string) error
}

const root = "../.."

// readers are all readers.
var readers = slices.Concat(workloads(), schedules(), configurations(), logs(), recordings())

func readerNamed(name string) reader {
	for _, r := range readers {
		if r.name == name {
			return r
		}
	}
	panic("no reader " + name)
}

// maker makes the inputs of the reader. dir is a folder that only this process has.
func (r *reader) maker(dir string) *maker {
	m := &maker{bombs: r.bombs}
	for _, name := range r.samples {
		m.samples = append(m.samples, files(name)...)
	}
	for _, name := range r.texts {
		m.samples = append(m.samples, texts(name)...)
	}
	if r.made != nil {
		made, err := r.made(dir)
		if err != nil {
			panic(err)
		}
		m.samples = append(m.samples, made...)
	}
	if len(m.samples) == 0 {
		panic(r.name + " has no sample")
	}
	return m
}

// files are the contents of a file, or of those in a folder.
func files(name string) (out [][]byte) {
	err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "README.md" || strings.HasSuffix(path, ".LICENSE") {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, unpacked(data))
		return err
	})
	if err != nil {
		panic(err)
	}
	return out
}

// unpacked is the content of a packed file, so that changes reach it.
func unpacked(data []byte) []byte {
	in, err := input.Bytes("sample", data).Open()
	if err != nil {
		return data
	}
	defer in.Close()
	plain, err := io.ReadAll(io.LimitReader(in, maxInput))
	if err != nil {
		return data
	}
	return plain
}

func workloads() (out []reader) {
	const dir = "shaper/workload/formats/"
	common := []string{dir + "input", dir + "members", dir + "perrank", dir + "pytorch", dir + "testdata"}
	for kind, extra := range map[formats.Kind][]string{
		formats.Kineto: {"kineto"}, formats.PyTorchET: {"pytorchet"}, formats.Chakra: {"chakra"},
		formats.GOAL: {"goal"}, formats.SimAI: {"simai"}, formats.AICB: {"aicb"}, formats.OpCSV: {"opcsv"},
		formats.NCCLLog: {"ncclcalls"}, formats.Nsys: {"nsys"}, formats.FlightRec: {"flightrec", "pickle"},
		formats.Inspector: {"inspector"}, formats.Profiler: {"ncclprofiler"},
	} {
		r := reader{name: string(kind), bombs: workloadBombs[kind]}
		for _, name := range extra {
			r.reads = append(r.reads, dir+name)
			r.texts = append(r.texts, dir+name)
			if _, err := os.Stat(filepath.Join(root, dir, name, "testdata")); err == nil {
				r.samples = append(r.samples, dir+name+"/testdata")
			}
		}
		r.read = func(data []byte, _ string) error { return readWorkload(data, kind) }
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b reader) int { return cmp.Compare(a.name, b.name) })
	return append(out,
		reader{name: "detected", reads: append(common, dir+"detect.go", dir+"formats.go", dir+"read.go"),
			samples: []string{dir + "testdata"}, texts: []string{"shaper/workload/formats"},
			bombs: detectBombs, read: func(data []byte, _ string) error { return readWorkload(data, "") }},
		reader{name: "workload", reads: []string{"shaper/workload/read.go", "shaper/workload/ranks.go"},
			texts: []string{"shaper/workload", "shaper/workload/check"}, bombs: nativeBombs,
			read: func(data []byte, _ string) error {
				_, err := readNative(data)
				return err
			}},
		reader{name: "check", reads: []string{"shaper/workload/check"}, texts: []string{"shaper/workload/check"},
			bombs: slices.Concat(nativeBombs, checkBombs), read: func(data []byte, _ string) error {
				ix, err := readNative(data)
				if err == nil {
					_, err = check.Run(context.Background(), ix)
				}
				return err
			}},
		reader{name: "pending", reads: []string{dir + "flightrec", dir + "pickle"},
			samples: []string{dir + "flightrec/testdata"}, texts: []string{dir + "flightrec"},
			bombs: workloadBombs[formats.FlightRec],
			read: func(data []byte, _ string) error {
				job, err := flightrec.ReadJob([]input.File{input.Bytes("nccl_trace_rank_0", data)})
				if err == nil {
					desync.Of(job)
				}
				return err
			}})
}

func readWorkload(data []byte, kind formats.Kind) error {
	var err error
	// The user says that the file is of one of several ranks, and gives their number where the file does not have it.
	for _, o := range []input.Options{{OneForAll: true}, {Ranks: 8, OneForAll: true}} {
		var w *workload.Workload
		if w, err = formats.Read([]input.File{input.Bytes("in_rank_0", data)}, kind, o); err == nil {
			_, err = w.Index()
			return err
		}
	}
	return err
}

func readNative(data []byte) (*workload.Index, error) {
	w, err := workload.Read("in", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return w.Index()
}

func schedules() []reader {
	const dir = "shaper/workload/schedule/"
	read := func(data []byte, _ string) error {
		s, err := convert.Read(bytes.NewReader(data), "in", mk.Options{Coll: schedule.AllReduce}, true)
		if err != nil {
			return err
		}
		_, err = schedulecheck.Check(s)
		if err != nil {
			return err
		}
		_, err = s.Cut(1<<20, 4)
		return err
	}
	return []reader{
		{name: "msccl", reads: []string{dir + "msccl"}, texts: []string{dir + "msccl"}, read: read,
			bombs: scheduleBombs},
		{name: "mscclpp", reads: []string{dir + "mscclpp"}, samples: []string{dir + "mscclpp/testdata"}, read: read},
		{name: "schedule", reads: []string{dir + "convert", dir + "make"}, texts: []string{dir + "convert"},
			read: read},
	}
}

func configurations() []reader {
	fabricOf := func(data []byte, _ string) error {
		f, err := configs.Decode("f.yaml", data)
		if err != nil {
			return err
		}
		if err := f.Validate(); err != nil {
			return err
		}
		built, err := fabric.New(f)
		if err != nil {
			return err
		}
		_, err = fabricfile.Describe(built, "f")
		return err
	}
	return []reader{
		{name: "fabric", reads: []string{"configs"}, samples: []string{"configs/examples", "configs/profiles"},
			texts: []string{"configs"}, bombs: fabricBombs, read: fabricOf},
		{name: "gpu", reads: []string{"configs"}, samples: []string{"configs/gpus"},
			bombs: yamlBombs, read: func(data []byte, _ string) error {
				_, err := configs.DecodeGPU("g.yaml", data)
				return err
			}},
		{name: "import", reads: []string{"configs/importer"}, samples: []string{"configs/importer/testdata"},
			texts: []string{"configs/importer"}, bombs: slices.Concat(yamlBombs, xmlBombs, importBombs),
			read: func(data []byte, _ string) error {
				in, err := importer.Read([]importer.File{{Name: "in", Text: string(data)}}, found.Options{})
				if err != nil {
					return err
				}
				if err := in.Config.Validate(); err != nil {
					return err
				}
				_, err = importer.Text(&in.Config, in, []string{"in"})
				return err
			}},
		{name: "topofile", reads: []string{"shaper/nccl/topofile"},
			samples: []string{"configs/importer/testdata/nccl-2.22.3-topo.xml"}, bombs: xmlBombs,
			read: func(data []byte, dir string) error {
				return inFile(dir, "topo.xml", data, func(path string) error {
					topofile.Problem(path, topofile.Names{GPU: topofile.BusID(0), NIC: "goemu"})
					return nil
				})
			}},
		{name: "ncclconf", reads: []string{"shaper/nccl/variables"},
			made: func(string) ([][]byte, error) {
				return [][]byte{[]byte("# of the host\nNCCL_DEBUG=INFO\nNCCL_ALGO=Ring\nNCCL_BUFFSIZE=4194304\n")}, nil
			},
			read: func(data []byte, dir string) error {
				return inFile(dir, ".nccl.conf", data, func(string) error {
					set := variables.Read("2.29.7", nil, dir)
					variables.Given(set)
					return nil
				})
			}},
		{name: "table", reads: []string{"shaper/run/tables"}, samples: []string{"configs/tables"},
			texts: []string{"shaper/run/tables"}, read: func(data []byte, _ string) error {
				_, err := tables.Read(bytes.NewReader(data))
				return err
			}},
		{name: "diff", reads: []string{"intercept/diff"}, samples: []string{"configs/examples"}, bombs: yamlBombs,
			read: func(data []byte, _ string) error {
				_, err := diff.Settings(data, data)
				return err
			}},
	}
}

func logs() []reader {
	const tests, judged, decided = "shaper/nccl/testslog", "shaper/run/tables", "shaper/run/emulate"
	return []reader{
		{name: "testslog", reads: []string{tests}, texts: []string{tests}, samples: []string{judged + "/testdata"},
			read: func(data []byte, _ string) error {
				_, err := testslog.Read(bytes.NewReader(data))
				return err
			}},
		{name: "emulatelog", reads: []string{judged, decided}, texts: []string{judged, decided, tests},
			samples: []string{judged + "/testdata"},
			read: func(data []byte, _ string) error {
				_, err := tables.Read(bytes.NewReader(data))
				_, err2 := emulate.ReadDecided(bytes.NewReader(data))
				return cmp.Or(err, err2)
			}},
		{name: "debuglog", reads: []string{"shaper/nccl/debuglog"}, texts: []string{"shaper/nccl/debuglog"},
			bombs: []bomb{text("messages of one line", "", "8388608 2097152 float sumhost:10:12 [0] NCCL INFO a ", "")},
			read: func(data []byte, _ string) error {
				var finder debuglog.Finder
				for line := range strings.Lines(string(data)) {
					finder.In(debuglog.Plain(line), nil)
				}
				return nil
			}},
		{name: "ncclinfo", reads: []string{"shaper/nccl/nccllog"}, samples: []string{"shaper/nccl/nccllog/testdata"},
			texts: []string{"shaper/nccl/nccllog"},
			read: func(data []byte, _ string) error {
				var p nccllog.Parser
				if _, err := p.Write(data); err != nil {
					return err
				}
				nccllog.Transports(p.Log().Comms)
				_, err := nccllog.Combine(p.Log().Comms)
				return err
			}},
		{name: "baseline", reads: []string{"shaper/report/baseline", "cmd/ddlemu/internal/runcmd/baseline.go"}, texts: []string{"shaper/report/baseline"},
			read: func(data []byte, _ string) error {
				_, err := baseline.Read(data)
				return err
			}},
	}
}

func recordings() []reader {
	return []reader{
		{name: "ledger", reads: []string{"shaper/fabric/ledger/read.go", "intercept/messages"}, made: ledgers,
			read: func(data []byte, dir string) error {
				name := filepath.Base(ledger.Path(dir, 0, 7))
				return inFile(dir, name, data, func(path string) error {
					if _, err := ledger.Read(path); err != nil {
						return err
					}
					_, err := messages.Load(dir)
					return err
				})
			}},
		{name: "changes", reads: []string{"shaper/fabric/ledger/fabric.go", "shaper/fabric/ledger/measured.go"},
			made: func(string) ([][]byte, error) {
				return [][]byte{[]byte("5 2 " + strings.Repeat("00", 120) + "\n"), []byte("123456789\n")}, nil
			},
			read: func(data []byte, dir string) error {
				return inFile(dir, "rank0.7.changes", data, func(string) error {
					_, err := ledger.ReadChanges(dir)
					return err
				})
			}},
		{name: "mapped", reads: []string{"shaper/fabric/state"}, made: mappedFile,
			read: func(data []byte, dir string) error {
				return inFile(dir, mappedName+state.Suffix, data, func(string) error {
					d, err := state.OpenDir(dir, os.Getuid(), false)
					if err != nil {
						return err
					}
					defer d.Close()
					f, err := d.Open(mappedName)
					if err != nil {
						return err
					}
					_, _ = fabricfile.Read(f)
					return f.Close()
				})
			}},
		{name: "archive", reads: []string{"intercept/timeline/archive"},
			samples: []string{"shaper/workload/formats/testdata/ddp.pt.trace.json"},
			texts:   []string{"intercept/timeline/archive"}, read: readTrace},
		{name: "outcome", reads: []string{"intercept/report/outcome.go"},
			made: func(string) ([][]byte, error) {
				return [][]byte{[]byte(`{"verdict":"VALID","rows":[{"size":8,"time_us":1.5}]}`)}, nil
			},
			read: func(data []byte, dir string) error {
				return inFile(dir, "outcome.json", data, func(string) error {
					_, err := report.Outcomes([]string{dir})
					return err
				})
			}},
	}
}

// readTrace reads a trace, packed or not, as its name says.
func readTrace(data []byte, dir string) error {
	name := "trace.json"
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		name += ".gz"
	}
	return inFile(dir, name, data, func(path string) error {
		_, err := archive.Read(path)
		return err
	})
}

// inFile lets do read data from a file.
func inFile(dir, name string, data []byte, do func(path string) error) error {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		panic(err)
	}
	return errors.Join(do(path), os.Remove(path))
}

// mappedName is the name of the fabric whose file is damaged.
const mappedName = "damaged"

// mappedFile is the file of a fabric that is up.
func mappedFile(dir string) ([][]byte, error) {
	c, err := configs.Decode("f.yaml", []byte("nodes: 3\nlink: {bandwidth: 10Gbps, latency: 1ms, loss: 0.1%}\n"))
	if err != nil {
		return nil, err
	}
	fab, err := fabric.New(c)
	if err != nil {
		return nil, err
	}
	spec, err := fabricfile.Describe(fab, mappedName)
	if err != nil {
		return nil, err
	}
	d, err := state.OpenDir(dir, os.Getuid(), true)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Create(spec)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == mappedName+state.Suffix {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			return [][]byte{data}, errors.Join(err, d.Remove(mappedName))
		}
	}
	return nil, fmt.Errorf("%v: no file of the fabric", entries)
}

// ledgers are ledgers with a connection and without records, and with records of zeros.
func ledgers(dir string) (out [][]byte, err error) {
	for _, capacity := range []uint64{4, 1024} {
		path := ledger.Path(dir, 0, 7)
		l, err := ledger.Create(path, capacity, ledger.Info{World: 2, PID: 7, TimeScale: 1})
		if err != nil {
			return nil, err
		}
		l.Add(ledger.Connection{Flow: 1, Sends: 1, Dst: 1})
		l.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}
