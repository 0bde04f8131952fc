// SPDX-License-Identifier: Apache-2.0

// Package containers tests the container image, and what docs/containers.md does with it, by umoci and runc.
package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// limit is many times what a step here takes.
const limit = 5 * time.Minute

// made makes the image once.
var made = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("../../.ci/image", "../../build", "test").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	lines := strings.Fields(string(out))
	return lines[len(lines)-1] + ":latest", nil
})

// image is the image of what the build has made.
func image(t *testing.T) string {
	t.Helper()
	needs.Root(t, "a root folder with mounts in it, and namespaces")
	needs.Program(t, "mmdebstrap")
	needs.Program(t, "umoci")
	needs.Program(t, "runc")
	// What the image is made of, and by: Go runs the test again when one of these has changed.
	for _, file := range []string{"softcuda/softcuda.json", "bin/ddlemu", "bin/ddlemu-rank", "lib/libgoemu.so",
		"../.ci/image", "../.ci/install", "../docs/examples/containers/two-nodes.sh"} {
		built.Path(t, file)
	}
	if release, err := os.ReadFile("/etc/os-release"); err != nil || !strings.Contains(string(release), "ID=debian") {
		t.Skip("SKIPPED: this machine has no Debian whose packages the image could have")
	}
	image, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// checkRunc skips the test if runc cannot start containers on this machine: that says nothing about the image.
func checkRunc(t *testing.T, out string) {
	t.Helper()
	_, why, failed := strings.Cut(out, "runc run failed: ")
	if failed && !strings.Contains(why, "executable file not found") && !strings.Contains(why, "no such file") {
		needs.Skip(t, "runc starts no container on this machine: "+why)
	}
}

// onTerminal runs a command on a terminal, and returns what it prints.
func onTerminal(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var out bytes.Buffer
	if _, err := io.Copy(&out, terminal); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the program has ended
		t.Fatal(err)
	}
	return out.String(), cmd.Wait()
}

// From a given image two commands lead to a VALID table, as docs/containers.md says.
func TestOneContainer(t *testing.T) {
	image := image(t)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	bundle := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.CommandContext(ctx, "umoci", "unpack", "--image", image, bundle).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := onTerminal(t, exec.CommandContext(ctx, "runc", "run", "-b", bundle, fmt.Sprintf("demo-%d", os.Getpid())))
	checkRunc(t, out)
	if err != nil || !strings.Contains(out, "verdict: VALID") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("from the image to a VALID table: %.1f s", time.Since(begin).Seconds())
}

// Two containers that share only a folder and a veth are two nodes of one bench.
func TestTwoContainers(t *testing.T) {
	image := image(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "../../docs/examples/containers/two-nodes.sh", image).CombinedOutput()
	checkRunc(t, string(out))
	if err != nil || !strings.Contains(string(out), "ranks 2  nodes 2") ||
		!strings.Contains(string(out), "verdict: VALID") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// container is what a manifest says of a container.
type container struct {
	Name    string
	Command []string
}

// commands are the commands of the nodes of a manifest, with the variables that Kubernetes sets.
func commands(t *testing.T, file string) (nodes [][]string, env []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/kubernetes/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Kind string
		Spec struct {
			Containers  []container
			Completions int
			Template    struct {
				Spec struct{ Containers []container }
			}
		}
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Spec.Containers {
		nodes, env = append(nodes, c.Command), append(env, "")
	}
	for n := range m.Spec.Completions { // a job
		nodes = append(nodes, m.Spec.Template.Spec.Containers[0].Command)
		env = append(env, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", n))
	}
	return nodes, env
}

// The commands of the manifests for Kubernetes, run beside each other on this machine, end with a VALID table. That the
// types of Kubernetes have what the manifests say is tested in test/kubernetes.
func TestCommandsOfManifests(t *testing.T) {
	for _, file := range []string{"one-pod.yaml", "two-pods.yaml"} {
		nodes, env := commands(t, file)
		if len(nodes) != 2 {
			t.Fatalf("%s has %d nodes", file, len(nodes))
		}
		dir := world.Folder(t)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		outcomes := make([]world.Outcome, len(nodes))
		var all sync.WaitGroup
		for n, command := range nodes {
			// The image's programs are those that the build has made.
			path := "PATH=" + built.Path(t, "bin") + ":" + os.Getenv("PATH")
			cmd := exec.CommandContext(ctx, "env", append([]string{path}, command...)...)
			cmd.Env = append(built.Environ(), "DDLEMU_DIR="+dir, env[n])
			all.Go(func() { outcomes[n] = world.Finish(t, cmd) })
		}
		all.Wait()
		for n, o := range outcomes {
			if o.Exit != 0 || (n == 0) != strings.Contains(o.Stdout, "verdict: VALID") {
				t.Errorf("%s: node %d ends with status %d:\n%s", file, n, o.Exit, o.Text())
			}
		}
	}
}
