package client

import (
	"context"
	"net/http"
)

// ConsoleLink has the server make an address that logs a browser in to the web console with
// this client's token, once and within two minutes. A server without a console answers
// with a NotFound fault.
func (c *Client) ConsoleLink(ctx context.Context) (string, error) {
	req, err := c.request(ctx, http.MethodPost, "/ui/link", nil, http.NoBody)
	if err != nil {
		return "", err
	}
	var link struct {
		Path string `json:"path"`
	}
	if err := c.json(req, &link); err != nil {
		return "", err
	}
	return c.base.String() + link.Path, nil
}
