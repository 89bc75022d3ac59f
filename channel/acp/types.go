package acp

import "agentd/event"

// protocolVersion is the one that this package speaks.
const protocolVersion = 1

// initializeParams are what a client says of itself.
type initializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
}

// clientCapabilities are what the client offers; what is absent it doesn't.
type clientCapabilities struct {
	FS struct {
		ReadTextFile bool `json:"readTextFile"`
	} `json:"fs"`
	Session *struct {
		Compaction *struct{} `json:"compaction"`
		Notices    *struct{} `json:"notices"`
	} `json:"session"`
	Elicitation *struct {
		Form *struct{} `json:"form"`
	} `json:"elicitation"`
}

func (c *clientCapabilities) forms() bool { return c.Elicitation != nil && c.Elicitation.Form != nil }

func (c *clientCapabilities) notices() bool { return c.Session != nil && c.Session.Notices != nil }

func (c *clientCapabilities) compaction() bool {
	return c.Session != nil && c.Session.Compaction != nil
}

// offered is an empty object: its presence says that something is offered.
type offered struct{}

// initializeResult says what this agent offers.
type initializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities agentCapabilities `json:"agentCapabilities"`
	AgentInfo         implementation    `json:"agentInfo"`
	AuthMethods       []struct{}        `json:"authMethods"`
}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type agentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  promptCapabilities  `json:"promptCapabilities"`
	MCPCapabilities     mcpCapabilities     `json:"mcpCapabilities"`
	SessionCapabilities sessionCapabilities `json:"sessionCapabilities"`
}

type promptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type mcpCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

type sessionCapabilities struct {
	List   *offered `json:"list,omitempty"`
	Resume *offered `json:"resume,omitempty"`
	Close  *offered `json:"close,omitempty"`
}

// sessionParams are what a session is opened with.
type sessionParams struct {
	SessionID             string   `json:"sessionId"`
	Cwd                   string   `json:"cwd"`
	AdditionalDirectories []string `json:"additionalDirectories"`
	MCPServers            []struct {
		Name string `json:"name"`
	} `json:"mcpServers"`
}

// sessionResult is an open session.
type sessionResult struct {
	SessionID     string         `json:"sessionId,omitempty"`
	Modes         *modeState     `json:"modes"`
	ConfigOptions []configOption `json:"configOptions"`
	Meta          event.Raw      `json:"_meta,omitempty"`
}

type modeState struct {
	CurrentModeID  string        `json:"currentModeId"`
	AvailableModes []sessionMode `json:"availableModes"`
}

type sessionMode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// configOption is a setting of a session with a value out of a list.
type configOption struct {
	Type         string         `json:"type"`
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Category     string         `json:"category"`
	CurrentValue string         `json:"currentValue"`
	Options      []configChoice `json:"options"`
}

type configChoice struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type listParams struct {
	Cwd    string `json:"cwd"`
	Cursor string `json:"cursor"`
}

type listResult struct {
	Sessions   []sessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

type sessionInfo struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"`
}

type promptParams struct {
	SessionID string    `json:"sessionId"`
	Prompt    []content `json:"prompt"`
}

type promptResult struct {
	StopReason string `json:"stopReason"`
}

// content is one block of a prompt or of an update.
type content struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

// MarshalJSON keeps the text of a text block, also when it is empty: the schema
// wants it.
func (c content) MarshalJSON() ([]byte, error) {
	type plain content
	if c.Type == "text" {
		return marshalPlain(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{c.Type, c.Text})
	}
	return marshalPlain(plain(c))
}

// resource is a file that came with a prompt.
type resource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

func textContent(s string) *content { return &content{Type: "text", Text: s} }

// update is a session update for the client: one of the structs below, each
// with the name of its kind.
type update any

// chunk is a piece of a message.
type chunk struct {
	SessionUpdate string   `json:"sessionUpdate"`
	MessageID     string   `json:"messageId,omitempty"`
	Content       *content `json:"content"`
}

// toolUpdate is a tool call, or what changed about it. Content replaces what was
// shown before.
type toolUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	toolCall
	Content []toolContent `json:"content,omitempty"`
}

type planUpdate struct {
	SessionUpdate string      `json:"sessionUpdate"`
	Entries       []planEntry `json:"entries"`
}

type commandsUpdate struct {
	SessionUpdate     string             `json:"sessionUpdate"`
	AvailableCommands []availableCommand `json:"availableCommands"`
}

type modeUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	CurrentModeID string `json:"currentModeId"`
}

type configUpdate struct {
	SessionUpdate string         `json:"sessionUpdate"`
	ConfigOptions []configOption `json:"configOptions"`
}

type infoUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	Title         string `json:"title"`
}

type usageUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	Used          int64  `json:"used"`
	Size          int64  `json:"size"`
	Cost          *cost  `json:"cost,omitempty"`
}

type compactionUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	CompactionID  string `json:"compactionId"`
	Status        string `json:"status"`
	Error         string `json:"error,omitempty"`
}

type noticeUpdate struct {
	SessionUpdate string `json:"sessionUpdate"`
	Severity      string `json:"severity"`
	Title         string `json:"title"`
	Description   string `json:"description,omitempty"`
}

// toolCall is a call, or what changed about it.
type toolCall struct {
	ToolCallID string     `json:"toolCallId"`
	Title      string     `json:"title,omitempty"`
	Name       string     `json:"name,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Status     string     `json:"status,omitempty"`
	Locations  []location `json:"locations,omitempty"`
	RawInput   event.Raw  `json:"rawInput,omitempty"`
	RawOutput  event.Raw  `json:"rawOutput,omitempty"`
}

type location struct {
	Path string `json:"path"`
}

// toolContent is something that a tool call shows: a block or a change of a file.
type toolContent struct {
	Type    string   `json:"type"`
	Content *content `json:"content,omitempty"`
	*diff
}

// diff is a change of a file; without OldText the file is new.
type diff struct {
	Path    string  `json:"path"`
	OldText *string `json:"oldText"`
	NewText string  `json:"newText"`
}

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

type availableCommand struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// notification is the parameters of session/update.
type notification struct {
	SessionID string `json:"sessionId"`
	Update    update `json:"update"`
}

// permissionRequest asks the client's user.
type permissionRequest struct {
	SessionID string             `json:"sessionId"`
	ToolCall  permissionCall     `json:"toolCall"`
	Options   []permissionOption `json:"options"`
}

type permissionCall struct {
	toolCall
	Content []toolContent `json:"content,omitempty"`
}

type permissionOption struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
}

type permissionAnswer struct {
	Outcome struct {
		Outcome  string `json:"outcome"`
		OptionID string `json:"optionId"`
	} `json:"outcome"`
}

// formRequest asks the client's user for values.
type formRequest struct {
	Mode            string    `json:"mode"`
	SessionID       string    `json:"sessionId"`
	ToolCallID      string    `json:"toolCallId,omitempty"`
	Message         string    `json:"message"`
	RequestedSchema event.Raw `json:"requestedSchema"`
}

type formAnswer struct {
	Action  string               `json:"action"`
	Content map[string]event.Raw `json:"content"`
}
