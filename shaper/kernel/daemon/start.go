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
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// CommandName is ddlemu's command that is a daemon; ReadyLine is what it writes when the
// fabric can be used.
const (
	CommandName = "daemon"
	ReadyLine   = "ready\n"
)

// Start starts the daemon of the fabric in file, as this program's CommandName, and
// returns its process id when the fabric can be used. After an error there is no
// daemon, and nothing of the fabric but its file is left. What the daemon said is
// a *configs.Error. When ctx is done first, Start ends the daemon and fails.
func Start(ctx context.Context, dir *state.Dir, file *state.File) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the ddlemu command: %w", err)
	}
	cmd := exec.Command(self, "--dir", dir.Path, "--owner", fmt.Sprint(dir.UID()), CommandName, file.Name())
	cmd.Args[0] = "ddlemu"                               // whatever name this process goes by
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C here is not for it
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("start the fabric's daemon: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the fabric's daemon: %w", err)
	}
	end := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	})
	text := make([]byte, len(ReadyLine))
	_, err = io.ReadFull(out, text)
	if end() && err == nil {
		return cmd.Process.Pid, nil // it lives on; init reaps it
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("bring up fabric %s: %w", file.Name(), ctx.Err())
	}
	why := strings.TrimPrefix(strings.TrimSpace(said.String()), "ddlemu: ")
	if why == "" {
		why = fmt.Sprintf("the fabric's daemon ended: %v", err)
	}
	return 0, configs.Errorf("", "%s", why)
}

// patience is how long a daemon has to take a fabric down: it deletes hundreds of
// interfaces, each in milliseconds.
const patience = 30 * time.Second

// CleanUp removes what a fabric that has been taken down has in the kernel: it waits
// for its daemon to do so or, if that is gone, does it.
func CleanUp(dir *state.Dir, file *state.File) error {
	for end := time.Now().Add(patience); file.Served(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the daemon of fabric %s has not removed it in %v: is it stopped?", file.Name(), patience)
		}
	}
	fab, err := live.Fabric(file)
	if err != nil {
		return err
	}
	p, err := Plan(dir.Path, fab, file.Name())
	if err != nil {
		return err
	}
	if err := Remove(dir, p); err != nil {
		if errors.Is(err, os.ErrPermission) {
			return configs.Errorf("", "%w: the daemon of fabric %s was killed, so only root can remove what it made: use sudo", err, file.Name())
		}
		return err
	}
	return nil
}
