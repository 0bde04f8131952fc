// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// TestMain lets the test program act as a rank that misbehaves, or as a parent that is killed.
func TestMain(m *testing.M) {
	if part := os.Getenv("BENCH_TEST_PART"); part != "" {
		play(part)
		return
	}
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// buildDir is the output folder of build.
var buildDir string

func play(part string) {
	hello := func() { fmt.Println("hello protocol=1 pid=1 version=22203 devices=1 cudart=a nccl=b") }
	serve := func(answer func(verb string) string) {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			verb, _, _ := strings.Cut(lines.Text(), " ")
			fmt.Println(answer(verb))
		}
	}
	switch part {
	case "garbage":
		hello()
		serve(func(verb string) string {
			if verb == "run" {
				return "Segmentation fault"
			}
			return "ok wall_ns=1 device_ns=1 wrong=0 id=00"
		})
	case "other protocol":
		fmt.Println("hello protocol=99 devices=1")
		time.Sleep(time.Hour)
	case "no devices":
		fmt.Println("hello protocol=1 devices=0")
		time.Sleep(time.Hour)
	case "endless line":
		for {
			fmt.Print(strings.Repeat("x", 4096))
		}
	case "parent":
		playParent()
	}
}

// playParent starts ranks, prints their process ids, and waits to be killed.
func playParent() {
	cfg := Config{
		Ranks: 2, Iters: 1, RankBinary: os.Getenv("BENCH_TEST_RANK"), NCCLLibs: []string{os.Getenv("BENCH_TEST_LIB")},
		CudartLibs: []string{os.Getenv("BENCH_TEST_LIB")},
	}
	ranks, err := StartRanks(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := ranks.Init(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(ranks.PIDs())
	time.Sleep(time.Hour)
}

// built has the paths of the programs that the tests need. They are built once.
type built struct{ rank, fake string }

var build = sync.OnceValues(func() (built, error) {
	dir, err := os.MkdirTemp("", "bench-test-")
	if err != nil {
		return built{}, err
	}
	buildDir = dir
	b := built{rank: filepath.Join(dir, "ddlemu-rank"), fake: filepath.Join(dir, "libfakenccl.so")}
	sources, err := filepath.Glob("../../../cuda/rank/*.c")
	if err != nil {
		return b, err
	}
	rank := append([]string{"-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", b.rank}, sources...)
	for _, args := range [][]string{
		append(rank, "-ldl", "-lpthread"),
		{"-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", b.fake,
			"testdata/fakenccl/fakenccl.c"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			return b, fmt.Errorf("gcc %v: %w\n%s", args, err, out)
		}
	}
	return b, nil
})

// fakeConfig is a run with the stand-in for CUDA and NCCL.
func fakeConfig(t *testing.T, ranks int, env ...string) Config {
	t.Helper()
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	env = append([]string{"FAKENCCL_DIR=" + t.TempDir()}, env...)
	return Config{
		Collective: nccl.AllReduce, Sizes: []int64{4096}, Warmup: 1, Iters: 2, Check: true, Ranks: ranks,
		RankBinary: b.rank, NCCLLibs: []string{b.fake}, CudartLibs: []string{b.fake},
		Env: func(int) []string { return env },
	}
}

// testContext ends a test that hangs.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	t.Cleanup(cancel)
	return ctx
}
