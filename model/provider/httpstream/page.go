package httpstream

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"

	"agentd/internal/clip"
	"agentd/model"
)

// isWebPage tells the error pages of proxies and web servers.
func isWebPage(body []byte) bool {
	b := bytes.ToLower(trimSpace(body[:min(len(body), 512)]))
	b = bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))
	return bytes.HasPrefix(b, []byte("<"))
}

var (
	titlePattern = regexp.MustCompile(`(?is)<(title|h1)[^>]*>(.*?)</(?:title|h1)>`)
	tagPattern   = regexp.MustCompile(`(?s)<[^>]*>`)
)

// pageError is the error for a web page in place of an answer. Its message is the
// page's title: the rest is decoration.
func pageError(status int, body []byte) *model.Error {
	title := ""
	if m := titlePattern.FindSubmatch(body); m != nil {
		title = clip.Valid(strings.Join(strings.Fields(html.UnescapeString(string(tagPattern.ReplaceAll(m[2], nil)))), " "), maxShown)
	}
	message := "the server, or a proxy before it, answered with a web page"
	if title != "" {
		message += fmt.Sprintf(" (%q)", title)
	}
	if status/100 == 2 {
		// The address exists, but it is no API.
		return &model.Error{Category: model.Malformed, Message: message + ": is the base URL right?", HTTPStatus: status}
	}
	category, retryable := byStatus(status)
	return &model.Error{Category: category, Message: fmt.Sprintf("HTTP %d %s: %s", status, http.StatusText(status), message), Retryable: retryable, HTTPStatus: status}
}
