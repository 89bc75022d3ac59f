package tui

import (
	"io"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// blank is a model that tells when it was drawn for the first time.
type blank struct{ drawn chan struct{} }

func (b *blank) Init() tea.Cmd { return func() tea.Msg { return spinMsg{} } }

func (b *blank) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := msg.(spinMsg); ok {
		close(b.drawn)
	}
	return b, nil
}

func (b *blank) View() tea.View { return tea.NewView("") }

// TestIsDrawing holds the name by which the goroutine that draws is known.
func TestIsDrawing(t *testing.T) {
	if isDrawing() {
		t.Fatal("something draws already")
	}
	b := &blank{drawn: make(chan struct{})}
	p := tea.NewProgram(b, tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		ended <- err
	}()
	<-b.drawn
	if !isDrawing() {
		t.Error("the goroutine that draws has another name")
	}
	p.Quit()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
