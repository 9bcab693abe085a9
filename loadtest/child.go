package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// child is a part of the load test that runs in a process of its own, or in a
// test. It ends when its input does.
type child struct {
	in   io.WriteCloser
	out  io.Reader
	kill func() error // at once, as kill -9 does
	wait func() error // once, after out has ended
}

// stop ends the child in its own time, or at once when that takes too long.
func (c *child) stop() {
	_ = c.in.Close()
	impatient := time.AfterFunc(5*time.Second, func() { _ = c.kill() })
	defer impatient.Stop()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.wait()
}

// roleEnv makes a process of this program a part of another's load test.
const roleEnv = "PACELINE_LOADTEST_ROLE"

// roles are the parts, each over its input and output.
var roles = map[string]func(io.Reader, io.Writer) error{
	"worker":   func(in io.Reader, out io.Writer) error { return serveWorker(in, out, openRedis, newTransport()) },
	"provider": serveProvider,
	"redis":    serveRedis,
}

// runRole plays the part that this process was started for, if any.
func runRole() (played bool, err error) {
	name := os.Getenv(roleEnv)
	if name == "" {
		return false, nil
	}
	role := roles[name]
	if role == nil {
		return true, fmt.Errorf("loadtest: no role %q", name)
	}
	// An interrupt from the terminal reaches every process: the parent decides.
	signal.Ignore(os.Interrupt)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	return true, role(bufio.NewReader(os.Stdin), os.Stdout)
}

// spawn starts this program again in a role.
func spawn(role string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	c := &child{wait: cmd.Wait}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	if c.out, err = cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	c.kill = cmd.Process.Kill
	return c, nil
}
