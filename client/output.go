package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Range is a part of an output. The zero value is all of it.
type Range struct {
	// Offset of the first byte; a negative one counts from the end.
	Offset int64
	// Length in bytes; zero means to the end.
	Length int64
}

// header returns the value of the Range header, or "".
func (r Range) header() string {
	switch {
	case r.Offset < 0:
		return fmt.Sprintf("bytes=%d", r.Offset)
	case r.Length > 0:
		return fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1)
	case r.Offset > 0:
		return fmt.Sprintf("bytes=%d-", r.Offset)
	default:
		return ""
	}
}

// Output is the bytes behind a reference. The caller must close the body.
type Output struct {
	Body      io.ReadCloser
	MediaType string
	ETag      string
	// Size of the whole output, or -1 if the server doesn't tell.
	Size int64
	// Offset of the body's first byte in it.
	Offset int64
}

// Output returns the bytes behind a reference that agentd made, or a part of
// them. A range outside of the output is RangeNotSatisfiable.
func (c *Client) Output(ctx context.Context, ref string, part Range) (*Output, error) {
	req, err := c.request(ctx, http.MethodGet, "/v1/outputs/"+url.PathEscape(ref), nil, nil)
	if err != nil {
		return nil, err
	}
	if h := part.header(); h != "" {
		req.Header.Set("Range", h)
	}
	res, err := c.send(req) //nolint:bodyclose // the caller closes the output
	if err != nil {
		return nil, err
	}
	out := &Output{
		Body: res.Body, MediaType: res.Header.Get("Content-Type"), ETag: res.Header.Get("ETag"), Size: res.ContentLength,
	}
	if res.StatusCode == http.StatusPartialContent {
		out.Offset, out.Size = contentRange(res.Header.Get("Content-Range"))
	}
	return out, nil
}

// contentRange reads "bytes 10-19/100"; what isn't told is 0 and -1.
func contentRange(h string) (offset, size int64) {
	size = -1
	span, total, _ := strings.Cut(strings.TrimPrefix(h, "bytes "), "/")
	if n, err := strconv.ParseInt(total, 10, 64); err == nil {
		size = n
	}
	first, _, _ := strings.Cut(span, "-")
	if n, err := strconv.ParseInt(first, 10, 64); err == nil {
		offset = n
	}
	return offset, size
}

// ProcessOutput returns what a process prints, from an offset on, which counts the bytes
// that the caller has already. With follow the body ends when the process does, otherwise
// with what there is now. The caller must close it; a body that ends with an error is
// continued with another call.
func (c *Client) ProcessOutput(ctx context.Context, processID string, offset int64, follow bool) (io.ReadCloser, error) {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}, "follow": {strconv.FormatBool(follow)}}
	req, err := c.request(ctx, http.MethodGet, "/v1/processes/"+url.PathEscape(processID)+"/output", query, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
