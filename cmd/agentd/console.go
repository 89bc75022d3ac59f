package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"agentd/client"
	"agentd/cmd/agentd/internal/config"
	"agentd/fault"
)

func (a *app) consoleCommand() *cobra.Command {
	noBrowser := false
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the web console in a browser",
		Long: `Opens the web console of a running server in the browser, with a link that logs in
once and within two minutes. The link is also printed, for a browser elsewhere.

Exit codes: 0 the link was made, 1 the server can't be reached or has no console,
2 usage.`,
		Example: "  agentd console\n  agentd console --no-browser\n  agentd console --server https://agents.example:8700",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load(cmd)
			if err != nil {
				return err
			}
			link, err := a.consoleLink(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			if a.json {
				return json.NewEncoder(a.out).Encode(map[string]string{"url": link})
			}
			if _, err := fmt.Fprintln(a.out, link); err != nil || noBrowser {
				return err
			}
			if openBrowser(cmd.Context(), link) != nil {
				a.sayf("agentd: no browser could be started; open the link above within two minutes")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the link")
	return a.withDataFlags(cmd)
}

// consoleLink has the server make a link that logs a browser in.
func (a *app) consoleLink(ctx context.Context, c *config.Config) (string, error) {
	r, err := a.remote(ctx, c)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", errors.New("no server runs here; start one with agentd serve, or name one with --server")
	}
	defer func() { _ = r.Close() }() // nothing is left to say
	token := r.token
	// The token of the note ends with the server's process, and a login with its token.
	if kept := a.token(c); kept != "" && a.server == "" {
		token = kept
	}
	if r.socket != "" {
		return "", errors.New("the server listens on a Unix socket, which browsers can't reach; give it an address with --listen")
	}
	over := r.http
	if t, ok := over.Transport.(*renewing); ok && token != r.token {
		over = &http.Client{Transport: t.next}
	}
	door, err := client.New(r.base, &client.Options{Token: token, HTTPClient: over})
	if err != nil {
		return "", err
	}
	link, err := door.ConsoleLink(ctx)
	if fault.KindOf(err) == fault.NotFound {
		return "", errors.New("this server has no console: it is older, or was built without it")
	}
	return link, err
}

// openBrowser starts the user's browser.
func openBrowser(ctx context.Context, link string) error {
	if !strings.HasPrefix(link, "http://") && !strings.HasPrefix(link, "https://") {
		return errors.New("not a web address")
	}
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	return exec.CommandContext(ctx, name, args...).Run()
}
