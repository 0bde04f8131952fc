// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/intercept/serve"
	"github.com/ddlemu/ddlemu/intercept/serve/history"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

const defaultListen = "127.0.0.1:8470"

// shortestToken is the least length of a token, in characters: nobody guesses that many.
const shortestToken = 16

// serveOptions are the flags of serve.
type serveOptions struct {
	Listen    string
	TokenFile string
}

// NewServeCommand is `ddlemu serve`.
func NewServeCommand(g *cli.Global) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show a fabric that is up in a browser, live",
		Long: cli.Long("docs/serve.md", `
Serve a page that shows a fabric while jobs run on it: the load of each link, jobs, events, and a
form that changes links. /metrics has the counters for Prometheus. It ends with Ctrl-C.

On a loopback address, processes of the fabric's user and of root may use it. Everybody else needs
the token that is printed. The connection is not encrypted: forward the port with ssh.`),
		Example: `  ddlemu up --profile ndr400 --nodes 4
  ddlemu serve
  ddlemu serve --listen 127.0.0.1:0      # a free port
  ddlemu serve --token-file token        # for Prometheus, which runs as another user`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), g, o) },
	}
	cmd.Flags().StringVar(&o.Listen, "listen", defaultListen, "`address` and port")
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "",
		"take the token from this `file`; it is made if there is none")
	g.AddFabricFlag(cmd.Flags())
	return cmd
}

func runServe(ctx context.Context, g *cli.Global, o *serveOptions) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return cli.BadInput("--listen: %w: give an address and a port, such as %s", err, defaultListen)
	}
	up, err := g.OpenToRead()
	if err != nil {
		return err
	}
	private := cli.Owner(up.File)
	named := *g
	named.Fabric = up.File.Name() // also if others are brought up
	up.Close()
	uid, err := g.UID()
	if err != nil {
		return err
	}
	auth := serve.NewAuth(uid)
	if o.TokenFile != "" {
		if auth.Token, err = fileToken(o.TokenFile, auth.Token); err != nil {
			return err
		}
	}
	l, err := listen(ctx, o.Listen)
	if err != nil {
		return err
	}
	address := l.Addr().(*net.TCPAddr)
	fmt.Fprintf(g.Stdout, "fabric %s: %s\n", named.Fabric, pageURL(address, auth.Token))
	if address.IP.IsLoopback() {
		token := auth.Token
		if o.TokenFile != "" {
			token = "in " + o.TokenFile
		}
		fmt.Fprintf(g.Stdout, "other users of this host need the token %s\n", token)
	}
	s := &served{g: &named}
	if g.Named() == "" {
		s.private = private
	}
	go s.record(ctx)
	return serve.Serve(ctx, l, auth, serve.New(s, auth, cli.Version()))
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, cli.BadInput("--listen: %s is in use: give another port, or 127.0.0.1:0 for a free one", address)
	case err != nil:
		return nil, cli.BadInput("--listen: %w: give an address of this host and a port, such as %s", err,
			defaultListen)
	}
	return l, nil
}

// fileToken reads the token in a file. If there is no file, it makes one that only the user can read, with this token.
func fileToken(path, token string) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(path)
	}
	if err != nil {
		return "", cli.BadInput("--token-file: %w: give a file that you can write", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = cmp.Or(err, f.Close()); err != nil {
		return "", cli.BadInput("--token-file: %w: give a file on another file system", err)
	}
	return token, nil
}

// readToken reads a token from a file that not everybody can read or write.
func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return "", cli.BadInput("--token-file: %s is not a file: give the path of one", path)
	case err == nil && info.Mode().Perm()&0o007 != 0:
		return "", cli.BadInput(
			"--token-file: all users of this host have access to %s: remove it to have another made", path)
	}
	text, err := bounds.ReadFile(path)
	if err != nil {
		return "", cli.BadInput("--token-file: %w: give a file that you can read", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortestToken {
		return "", cli.BadInput(
			"--token-file: the token in %s has %d characters: write %d or more, or remove the file to have one made",
			path, len(token), shortestToken)
	}
	return token, nil
}

// pageURL is the address of the page. The user's processes on this host need no token.
func pageURL(a *net.TCPAddr, token string) string {
	u := url.URL{Scheme: "http", Host: a.String(), Path: "/"}
	if name, err := os.Hostname(); a.IP.IsUnspecified() && err == nil {
		u.Host = net.JoinHostPort(name, strconv.Itoa(a.Port))
	}
	if !a.IP.IsLoopback() {
		u.RawQuery = "token=" + token
	}
	return u.String()
}

// served is the fabric that a server shows. It is opened for each request, because it may be taken down and brought
// up again.
type served struct {
	g       *cli.Global
	private string // whose the fabric is, if it is a private one that the user has not named
	recorder
}

func (s *served) State() (*serve.State, error) {
	up, err := s.g.Open()
	if err != nil {
		return nil, err
	}
	defer up.Close()
	return serve.Read(up.File)
}

func (s *served) Metrics(w io.Writer) error {
	write, err := liveMetrics(s.g)
	if err != nil {
		return err
	}
	return write(w)
}

// Shape does what `ddlemu shape` does, but brings no fabric up.
func (s *served) Shape(ctx context.Context, c serve.Change) (string, error) {
	if s.private != "" {
		return "", cli.BadInput("fabric %s %s: to change it, start `ddlemu serve --fabric %[1]s`", s.g.Fabric, s.private)
	}
	o, err := shapeOf(c)
	if err != nil {
		return "", err
	}
	patch, err := o.patch()
	if err != nil {
		return "", err
	}
	pattern, err := o.pattern()
	if err != nil {
		return "", err
	}
	if patch.Empty() {
		return "", cli.BadInput("nothing to change is given")
	}
	up, err := s.g.Open()
	if err != nil {
		return "", err
	}
	defer up.Close()
	said := &bytes.Buffer{}
	g := *s.g
	g.Stdout, g.Stderr = said, said
	err = shapeExisting(ctx, &g, up.File, pattern, patch)
	if err != nil && cli.ExitStatus(err) != cli.ExitInput {
		err = fmt.Errorf("%w: %w", serve.ErrInternal, err)
	}
	return said.String(), err
}

// shapeOf are the flags of shape that a change stands for.
func shapeOf(c serve.Change) (*shapeOptions, error) {
	o := &shapeOptions{}
	o.AddFlags(pflag.NewFlagSet("shape", pflag.ContinueOnError))
	for name, value := range c.Set {
		if !slices.ContainsFunc(configs.LinkParams(),
			func(m configs.LinkParam) bool { return m.Flag == name && name != "" }) {
			return nil, cli.BadInput("%q is not a parameter of links", name)
		}
		if err := o.flags.Set(name, value); err != nil {
			return nil, cli.BadInput("--%s: %w", name, cmp.Or(errors.Unwrap(err), err))
		}
	}
	o.Link = c.Link
	switch c.State {
	case "up":
		o.Up = true
	case "down":
		o.Down = true
	case "":
	default:
		return nil, cli.BadInput("state %q is neither up nor down", c.State)
	}
	return o, nil
}

// Real times between two looks of the recorder. On a real clock a look is work beside the job; on a virtual one it
// changes no time, and a job is over soon.
const (
	lookReal    = time.Second
	lookVirtual = 250 * time.Millisecond
)

// recorder keeps what the fabric of a server does, also while no page is open.
type recorder struct {
	mu      sync.Mutex
	history history.History
}

// History answers a page.
func (r *recorder) History(hop string) (*history.Series, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.history.Series(hop)
	if !ok {
		return nil, cli.BadInput("there is no port or link %s", hop)
	}
	return s, nil
}

// record records the fabric until ctx ends. While the fabric is down it waits for it.
func (s *served) record(ctx context.Context) {
	for ctx.Err() == nil {
		up, err := s.g.Open()
		if err == nil {
			s.recordOne(ctx, up)
			up.Close()
		}
		sleep(ctx, lookReal)
	}
}

// recordOne records a fabric until it is taken down.
func (s *served) recordOne(ctx context.Context, up *cli.Opened) {
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return // the page says why
	}
	reader, pause := status.NewReader(up.File, fab), lookReal
	if up.File.Virtual() {
		pause = lookVirtual
	}
	for ctx.Err() == nil && !up.File.Down() && !up.File.Removed() {
		now := reader.ReadCounters()
		s.mu.Lock()
		s.history.Add(now)
		s.mu.Unlock()
		sleep(ctx, pause)
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
