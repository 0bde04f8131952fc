// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
)

// Every command's help has examples and exit statuses, and every flag has an explanation and a name for its value.
func TestHelpIsComplete(t *testing.T) {
	root := newRootCommand(newWorld(t).global())
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Hidden {
			return // started by other commands
		}
		if !strings.Contains(c.Long, "\nExit status: ") || c.Example == "" || c.Short == "" {
			t.Errorf("%s: short %q, example %q, and its long help must have an exit status", c.CommandPath(), c.Short,
				c.Example)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			if usage == "" || name == "setting" {
				t.Errorf("%s --%s: value %q, usage %q", c.CommandPath(), f.Name, name, usage)
			}
		})
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				check(sub)
			}
		}
	}
	check(root)
	_, statuses, _ := strings.Cut(root.Long, "\nExit status: ")
	for _, status := range []int{cli.ExitOK, cli.ExitFailure, cli.ExitInput, cli.ExitInvalid, cli.ExitInterrupted} {
		if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, status)).MatchString(statuses) {
			t.Errorf("ddlemu --help does not say what exit status %d is", status)
		}
	}
}

// The long help of a command has at most 10 lines, the help of ddlemu 25 before the shared flags. Its last line names the
// pages with the rest.
func TestHelpIsShort(t *testing.T) {
	commands := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.Long == "" {
			return // hidden: TestHelpIsComplete
		}
		commands++
		own, _, _ := strings.Cut(c.Long, "\n\n"+cli.SharedHelp)
		lines, most := strings.Split(own, "\n"), 10
		if c.Parent() == nil {
			most = 25
		}
		if len(lines) > most {
			t.Errorf("%s: its long help has %d lines, at most %d", c.CommandPath(), len(lines), most)
		}
		last := lines[len(lines)-1]
		pages := regexp.MustCompile(`docs/[\w-]+\.md`).FindAllString(last, -1)
		if !strings.HasPrefix(last, "Page") || len(pages) == 0 {
			t.Errorf("%s: the last line of its long help names no page: %q", c.CommandPath(), last)
		}
		for _, page := range pages {
			if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(page))); err != nil {
				t.Errorf("%s: its long help names a page that is not there: %v", c.CommandPath(), err)
			}
		}
	}
	if check(newRootCommand(&cli.Global{})); commands < 50 {
		t.Errorf("only %d commands have a long help", commands)
	}
}

// mostFlags are the most flags that the help of a command describes.
const mostFlags = 30

// The help of a command shows each of its flags once: first the flags that most users give. Shared flags are named there,
// and described in the help of ddlemu.
func TestHelpShowsFlags(t *testing.T) {
	root := newRootCommand(&cli.Global{})
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if cmd.HasSubCommands() || cmd.Parent() == nil {
			return
		}
		commands++
		usage := cmd.UsageString()
		lines, shared, _ := strings.Cut(usage, "\nShared flags")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			described := len(regexp.MustCompile(`(?m)^ .{5}--`+f.Name+`\b[^-]`).FindAllString(lines, -1))
			named := strings.Count(shared+",", " --"+f.Name+",") + strings.Count(shared, " --"+f.Name+"\n")
			want := 1
			if f.Hidden {
				want = 0
			}
			if described+named != want {
				t.Errorf("%s: its help shows --%s %d times, want %d", cmd.CommandPath(), f.Name, described+named, want)
			}
			if named > 0 && !strings.Contains(root.Long, "--"+f.Name+" ") {
				t.Errorf("the help of ddlemu does not describe --%s", f.Name)
			}
		})
		_, described, _ := strings.Cut(lines, "\nFlags:\n")
		if n := len(regexp.MustCompile(`(?m)^ {2,6}(-., )?--`).FindAllString(described, -1)); n > mostFlags {
			t.Errorf("%s: its help has %d flags, at most %d", cmd.CommandPath(), n, mostFlags)
		}
	}
	if visit(root); commands < 30 {
		t.Errorf("only %d commands were found", commands)
	}
	for command, want := range map[string]string{
		"bench": "profile file nodes ranks bw lat gpu clock set",
		"run":   "profile file nodes bw lat gpu clock set torch-alias",
	} {
		cmd, _, err := root.Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		_, first, _ := strings.Cut(cmd.UsageString(), "\nFlags:\n")
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^ .{5}--(\S+)`).FindAllStringSubmatch(first, 9) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the help of %s begins with %s", command, got)
		}
	}
}

func TestErrorsAreOneLineOfJSON(t *testing.T) {
	w := newWorld(t)
	status, stdout, stderr := w.run("status", "--json")
	var got struct {
		Error      string `json:"error"`
		ExitStatus int    `json:"exit_status"`
	}
	if err := json.Unmarshal([]byte(stderr), &got); err != nil || status != 2 || got.ExitStatus != 2 ||
		got.Error == "" || stdout != "" {
		t.Errorf("status %d, %q, %q, %v", status, stdout, stderr, err)
	}
}

// fullWriter fails as a full disk does.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	w := newWorld(t)
	g := w.global()
	g.Stdout = fullWriter{}
	if status := run(context.Background(), g, []string{"profiles"}); status != cli.ExitFailure ||
		!strings.Contains(w.err.String(), "write the output: no space left") {
		t.Errorf("status %d, %q", status, w.err.String())
	}
}

func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if status := run(ctx, w.global(), []string{"doctor", "--json"}); status != cli.ExitInterrupted {
		t.Errorf("got status %d, want %d", status, cli.ExitInterrupted)
	}
}

// -F is --file in every command that has it. -f is nccl-tests' factor where there is one, else --file too.
func TestLetterOfFile(t *testing.T) {
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		file := cmd.Flags().Lookup("file")
		if file == nil {
			return
		}
		commands++
		letters := []string{"F", "f"}
		if cmd.Flags().Lookup("stepfactor") != nil {
			letters = letters[:1]
			if f := cmd.Flags().ShorthandLookup("f"); f == nil || f.Name != "stepfactor" {
				t.Errorf("%s: -f is not --stepfactor", cmd.CommandPath())
			}
		}
		for _, letter := range letters {
			cmd, _, err := newRootCommand(&cli.Global{}).Find(strings.Fields(cmd.CommandPath())[1:])
			if err == nil {
				err = cmd.ParseFlags([]string{"-" + letter, "x.yaml"})
			}
			if file := cmd.Flags().Lookup("file"); err != nil || !file.Changed || file.Value.String() != "x.yaml" {
				t.Errorf("%s -%s x.yaml: the file is %q, %v", cmd.CommandPath(), letter, file.Value, err)
			}
		}
		if usage := cmd.UsageString(); !strings.Contains(usage, "-F, --file") || strings.Contains(usage, "-f, --f") ||
			strings.Contains(usage, "-f FILE") {
			t.Errorf("%s: its help must show -F, --file alone", cmd.CommandPath())
		}
	}
	if visit(newRootCommand(&cli.Global{})); commands < 11 {
		t.Errorf("only %d commands with --file were found", commands)
	}
}

// A flag with one value refuses another one in every command; what collects values, a switch, and the same value are no
// mistake.
func TestFlagGivenTwice(t *testing.T) {
	flags := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			_, collects := f.Value.(cobra.SliceValue)
			if _, once := f.Value.(*cli.OnceValue); f.Name != cli.OtherFileLetter &&
				once == (collects || f.NoOptDefVal != "") {
				t.Errorf("%s --%s: refuses a second value: %v", cmd.CommandPath(), f.Name, once)
			}
			flags++
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	if visit(newRootCommand(&cli.Global{})); flags < 200 {
		t.Errorf("only %d flags were found", flags)
	}
	for args, want := range map[string]string{
		"expect --workload a.jsonl --workload b.jsonl":        "ddlemu: --workload: given twice, as a.jsonl and as b.jsonl: give one of them\n",
		"bench allreduce --ranks 2 --ranks 3":                 "ddlemu: --ranks: given twice, as 2 and as 3: give one of them\n",
		"bench allreduce -b 8 --minbytes 16":                  "ddlemu: --minbytes: given twice, as 8 and as 16: give one of them\n",
		"up --lat 1us --lat 2us":                              "ddlemu: --lat: given twice, as 1us and as 2us: give one of them\n",
		"replay none.jsonl --steps 2 --steps 2":               "ddlemu: open none.jsonl: no such file or directory\n",
		"replay none.jsonl --quiet --quiet":                   "ddlemu: open none.jsonl: no such file or directory\n",
		"replay none.jsonl --fabric eth10 --fabric eth1 -f x": "ddlemu: a second --fabric and --file: two --fabric name both fabrics: leave out one of them\n",
	} {
		w := newWorld(t)
		if status, stdout, stderr := w.run(strings.Fields(args)...); status != cli.ExitInput || stdout != "" ||
			!strings.Contains(stderr, strings.TrimPrefix(want, "ddlemu: ")) {
			t.Errorf("%s: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// A value that is more than its text is found behind the check for a second one.
func TestValueOf(t *testing.T) {
	cmd, _, err := newRootCommand(&cli.Global{}).Find([]string{"whatif"})
	if err == nil {
		err = cmd.ParseFlags([]string{"--bw", "2x"})
	}
	if f, ok := cli.ValueOf(cmd.Flags().Lookup("bw")).(*tracecmd.Factor); err != nil || !ok || f.By != 2 {
		t.Errorf("whatif --bw 2x: %+v, %v", f, err)
	}
}
