// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// What `ddlemu up` and the daemon that it starts agree on.
const (
	CommandName = "daemon"  // the command of ddlemu that runs a daemon
	ReadyLine   = "ready\n" // what the daemon writes to standard output when the fabric can be used
)

// Start runs the daemon of the fabric in file as a command of this program, and returns its process ID when the
// fabric can be used. After an error there is no daemon, and only the fabric's file remains. If the daemon wrote an
// error message, the error is a *configs.Error. If ctx is done before the fabric can be used, Start stops the daemon
// and fails.
func Start(ctx context.Context, dir *state.Dir, file *state.File) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the ddlemu command: %w", err)
	}
	cmd := exec.Command(self, "--dir", dir.Path, "--owner", fmt.Sprint(dir.UID()), CommandName, file.Name())
	cmd.Args[0] = "ddlemu"                               // this process may have been called by the name of a link
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in this terminal does not stop the daemon
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("start the fabric's daemon: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the fabric's daemon: %w", err)
	}
	cancel := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has just ended
	})
	_, err = io.ReadFull(out, make([]byte, len(ReadyLine)))
	if cancel() && err == nil {
		return cmd.Process.Pid, nil // it continues to run; init reaps it
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("bring up fabric %s: %w", file.Name(), ctx.Err())
	}
	message := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "ddlemu: ")
	if message == "" {
		message = fmt.Sprintf("the fabric's daemon ended: %v", err)
	}
	return 0, configs.Errorf("", "%s", message)
}

// removalTimeout is how long CleanUp waits for a daemon. There may be hundreds of interfaces, and deleting one takes
// milliseconds.
const removalTimeout = 30 * time.Second

// CleanUp returns when nothing of a fabric that was taken down remains in the kernel. It waits until the daemon has
// removed everything. If the daemon is gone, CleanUp removes it.
func CleanUp(dir *state.Dir, file *state.File) error {
	for end := time.Now().Add(removalTimeout); file.Served(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the daemon of fabric %s has not removed it in %v: is it stopped?", file.Name(),
				removalTimeout)
		}
	}
	fab, err := fabricfile.Read(file)
	if err != nil {
		return err
	}
	p, err := Plan(dir.Path, fab, file.Name())
	if err != nil {
		return err
	}
	if err := Remove(dir, p); err != nil {
		if errors.Is(err, os.ErrPermission) {
			return configs.Errorf("",
				"%w: the daemon of fabric %s was killed, so only root can remove what it created: use sudo", err,
				file.Name())
		}
		return err
	}
	return nil
}

// Detach closes the standard files of this process and leaves its working folder, so that the daemon does not keep the
// terminal or a file system of the command that started it in use.
func Detach() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // only the terminal remains open
	}
	defer null.Close()
	for fd := range 3 {
		_ = syscall.Dup3(int(null.Fd()), fd, 0)
	}
	_ = os.Chdir("/")
}
