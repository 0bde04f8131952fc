// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// GuardCommand is the command of ddlemu that runs Guard, with the identity of the job.
const GuardCommand = "guard"

// StartGuard starts ddlemu again as a guard: if this process is killed, the guard ends the programs of the job. Nobody
// else would: they poll on a fabric that is gone. The guard ends when stop is called.
func (j *Job) StartGuard() (stop func(), err error) {
	cmd := exec.Command("/proc/self/exe", GuardCommand, j.id)
	cmd.Args[0] = "ddlemu" // what ps shows
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal for the terminal, or for our group, is not for it
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the job's programs: %w", err)
	}
	j.guard = cmd.Process.Pid
	return func() {
		_, _ = life.Write([]byte{0}) // the guard may have been killed
		_ = life.Close()
		_ = cmd.Wait()
		j.guard = 0
	}, nil
}

// EndOrphans is the function EndOrphans, and keeps the daemon of the fabric and the guard.
func (j *Job) EndOrphans() { EndOrphans(j.daemon, j.guard) }

// Guard waits until life ends. If nothing was written to it before, its writer was killed: Guard ends all processes
// that have the job in their environment. It returns how many there were.
func Guard(life io.Reader, id string) (ended int, err error) {
	if n, err := life.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return 0, err
	}
	return endPrograms(id)
}

// endPrograms ends all processes that have the job in their environment, first by SIGTERM, then by SIGKILL. It returns
// how many there were.
func endPrograms(id string) (ended int, err error) {
	deadline := time.Now().Add(orphanGrace)
	known := map[int]bool{}
	for signal := unix.SIGTERM; ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			signal = unix.SIGKILL
		}
		pids, err := signalPrograms(id, signal)
		if err != nil || len(pids) == 0 {
			return len(known), err
		}
		for _, pid := range pids {
			known[pid] = true
		}
	}
}

// signalPrograms sends a signal to all processes, but this one, that have the job in their environment. It returns
// them.
func signalPrograms(id string, signal unix.Signal) (pids []int, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Opened first: then the environment that is read belongs to the process that gets the signal.
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if belongsTo(folder, id) && unix.PidfdSendSignal(process, signal, nil, 0) == nil {
			pids = append(pids, pid)
		}
		_ = unix.Close(process)
	}
	return pids, nil
}

// belongsTo says whether the process has the job in its environment. One that has ended has no environment.
func belongsTo(folder, id string) bool {
	environment, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil {
		return false // it has ended, or is another user's
	}
	return bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+JobEnv+"="+id+"\x00"))
}
