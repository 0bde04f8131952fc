// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// leastText is the least length of a string in a test that is taken for an input.
const leastText = 24

// texts are the strings in the tests of a package: its inputs are among them.
func texts(dir string) (out [][]byte) {
	paths, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		panic(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if value, ok := stringOf(n); ok {
				if len(value) >= leastText {
					out = append(out, []byte(value))
				}
				return false
			}
			return true
		})
	}
	return out
}

// stringOf is the value of a string, or of strings with + between them.
func stringOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			value, err := strconv.Unquote(n.Value)
			return value, err == nil
		}
	case *ast.BinaryExpr:
		left, ok := stringOf(n.X)
		right, ok2 := stringOf(n.Y)
		return left + right, ok && ok2 && n.Op == token.ADD
	}
	return "", false
}

// decoders are the calls by which a file is read: "package.Function".
var decoders = []string{"json.Unmarshal", "json.NewDecoder", "xml.Unmarshal", "xml.NewDecoder", "yaml.Unmarshal",
	"yaml.NewDecoder", "gzip.NewReader", "zip.NewReader", "zip.OpenReader", "tar.NewReader", "csv.NewReader",
	"bufio.NewScanner", "gob.NewDecoder", "pickle.NewDecoder", "sql.Open", "zstd.NewReader", "zlib.NewReader",
	"os.ReadFile", "bounds.ReadFile", "io.ReadAll", "toml.Unmarshal", "proto.Unmarshal"}

// notInputs are files of the module that call a decoder and read no file from outside, with the reason.
var notInputs = map[string]string{
	"cmd/ddlemu/internal/cli/open.go":                  "the kernel's files",
	"cmd/ddlemu/internal/runcmd/agents.go":             "the kernel's files",
	"configs/intervals/intervals.go":                   "a file that is part of the program",
	"cmd/ddlemu/internal/fabriccmd/serve.go":           "a token of at most MaxDocument bytes",
	"cmd/ddlemu/internal/runcmd/validate_apart.go":     "lines of at most MaxDocument bytes, each kept once",
	"cmd/ddlemu/internal/runcmd/validate_predicted.go": "JSON of at most MaxDocument bytes, of fixed fields",

	"cmd/ddlemu/internal/junit/junittest/parse.go":   "in tests",
	"cmd/ddlemu/internal/fabriccmd/fabric_import.go": "at most importer.MaxFile bytes, which the reader import gets",
	"configs/bounds/bounds.go":                       "at most MaxDocument bytes, which the readers get",
	"cuda/soft/internal/softbuild/build.go":          "what the build made, and NCCL's header",
	"cuda/soft/internal/softbuild/includes.go":       "sources of this module",
	"cuda/soft/internal/softbuild/packages.go":       "what the build downloaded and checked",
	"cuda/soft/internal/softbuild/stamp.go":          "what the build made",
	"cuda/soft/setup/debian/apt.go":                  "output of apt",
	"cuda/soft/setup/debian/mirror.go":               "settings of apt of this host",
	"intercept/serve/server.go":                      "a request of at most 64 KiB",
	"nccl-plugin/view/host.go":                       "the kernel's files",
	"shaper/kernel/daemon/prepare.go":                "the kernel's files",
	"shaper/kernel/launch/account.go":                "the host's list of users",
	"shaper/report/printer/records.go":               "what it has written itself",
	"shaper/run/bench/play.go":                       "what the own child wrote",
	"shaper/run/bench/process.go":                    "output of the own child, in lines of at most 64 KiB",
	"shaper/run/host/cpus.go":                        "the kernel's files",
	"shaper/run/host/load.go":                        "the kernel's files",
	"shaper/run/job/asleep.go":                       "the kernel's files",
	"shaper/run/job/guard.go":                        "the kernel's files",
	"shaper/run/job/orphans.go":                      "the kernel's files",
	"shaper/run/join/message.go":                     "a message of at most mostBytes",
}

// Every file of the module that decodes something is in the table of readers, or says why it reads nothing from
// outside.
func TestEveryReaderIsListed(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{"cmd", "configs", "cuda", "intercept", "nccl-plugin", "shaper"} {
		for path, call := range decoding(t, dir) {
			_, known := notInputs[path]
			used[path] = true
			listed := slices.ContainsFunc(readers, func(r reader) bool {
				return slices.ContainsFunc(r.reads, func(of string) bool {
					return path == of || filepath.Dir(path) == of || strings.HasPrefix(path, of+"/") && of != "configs"
				})
			})
			if !known && !listed {
				t.Errorf("%s calls %s, and no reader of readers_test.go has it: add one with a sample and a bomb, or a line of notInputs",
					path, call)
			}
		}
	}
	for path := range notInputs {
		if !used[path] {
			t.Errorf("%s of notInputs decodes nothing: remove it", path)
		}
	}
}

// decoding are the files of a folder that call a decoder, and which.
func decoding(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, call := range decoders {
			if strings.Contains(string(text), call+"(") {
				name, _ := filepath.Rel(root, path)
				out[name] = call
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
