// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ddlemu": main, "ddlemu-ssh": main, "participant": participant})
}

// Each script is typed as a user would. It starts without a fabric in a separate folder. The race detector finds
// nothing between processes and makes each slow to start, so -short runs only two scripts.
func TestScripts(t *testing.T) {
	dir, files := filepath.Join("testdata", "script"), []string(nil)
	if testing.Short() {
		dir, files = "", []string{filepath.Join(dir, "up-shape-down.txt"), filepath.Join(dir, "ranks.txt")}
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv(cli.DirEnv, filepath.Join(env.WorkDir, "fabrics"))
			for _, name := range []string{cli.FabricEnv, cli.SudoEnv, "DDLEMU_PROFILE", "DDLEMU_FILE", cli.LibraryEnv} {
				env.Setenv(name, "")
			}
			// A failed script may leave namespaces and daemons, which are not removed with its folder.
			env.Defer(func() { takeAllDown(t, env) })
			return nil
		},
		Condition: func(what string) (bool, error) {
			if what != "root" {
				return false, fmt.Errorf("unknown condition %q", what)
			}
			return os.Getuid() == 0, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await":  await,
			"empty":  empty,
			"status": exitsWith,
			"damage": damage,
		},
	})
}

// takeAllDown removes all fabrics of a script.
func takeAllDown(t *testing.T, env *testscript.Env) {
	dir := env.Getenv(cli.DirEnv)
	if _, err := os.Stat(dir); err != nil {
		return
	}
	if out, err := exec.Command("ddlemu", "--dir", dir, "down", "--all").CombinedOutput(); err != nil {
		t.Logf("take down what is in %s: %v: %s", dir, err, out)
	}
}

// empty DIR...: the folders are empty or do not exist.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		if err != nil && !os.IsNotExist(err) {
			ts.Check(err)
		}
		if (len(entries) == 0) == neg {
			ts.Fatalf("%s has %v", dir, entries)
		}
	}
}

// await FILE...: wait until all files exist, for at most half a minute.
func await(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		for start := time.Now(); !exists(ts.MkAbs(name)); pause() {
			if time.Since(start) > 30*time.Second {
				ts.Fatalf("%s is not there after half a minute", name)
			}
		}
	}
}

// pause is the time between two checks of a file.
func pause() { time.Sleep(2 * time.Millisecond) }

// status N CMD...: the command exits with status N.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("got exit status %s, want %s", got, args[0])
	}
}

// damage KIND NAME: damage the fabric's file in one of several ways.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage version|boot|short|text NAME")
	}
	name := filepath.Join(ts.Getenv(cli.DirEnv), args[1]+".fabric")
	b, err := os.ReadFile(name)
	ts.Check(err)
	switch args[0] {
	case "version": // the second word
		binary.LittleEndian.PutUint32(b[8:], 99)
	case "boot": // the boot id follows version, header size and file size
		b[24] ^= 0xff
	case "short":
		b = b[:len(b)/2]
	case "text":
		b = []byte(strings.Repeat("not a fabric\n", 1000))
	default:
		ts.Fatalf("unknown damage %q", args[0])
	}
	ts.Check(os.WriteFile(name, b, 0o600))
}
