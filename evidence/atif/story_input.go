package atif

import (
	"cmp"
	"slices"
)

// inputPart is a part of an input.
type inputPart struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Ref       string `json:"ref"`
	URL       string `json:"url"`
	Data      string `json:"data"`
	MediaType string `json:"mediaType"`
}

// shown is a message of parts, with the types of those that it has no place for: a
// text, unless there is a picture in it.
func (x *exporting) shown(parts []inputPart) (Content, []string) {
	said, list, others, pictures := "", []Part{}, []string{}, 0
	for _, p := range parts {
		source := x.picture(&p)
		switch {
		case source != nil:
			list, pictures = append(list, Part{Type: "image", Source: source}), pictures+1
		case p.Text == "" && p.Type != "text":
			others = append(others, p.Type)
		case p.Text != "":
			if said != "" {
				said += "\n\n"
			}
			said, list = said+p.Text, append(list, Part{Type: "text", Text: p.Text})
		}
	}
	if pictures == 0 {
		return *Text(said), others
	}
	return Content{Parts: list}, others
}

// picture says where the picture of a part is; nil if it is none that the format
// knows, or too large to be a part of the document.
func (x *exporting) picture(p *inputPart) *Source {
	if p.Type != "image" || !slices.Contains(mediaTypes["image"], p.MediaType) || x.opt.Version == Level14 {
		return nil
	}
	path := cmp.Or(p.URL, p.Ref)
	if path == "" && p.Data != "" && len(p.Data) <= inlineBytes {
		path = "data:" + p.MediaType + ";base64," + p.Data
	}
	if path == "" {
		return nil
	}
	return &Source{MediaType: p.MediaType, Path: path}
}
