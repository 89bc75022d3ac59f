package command

import (
	"encoding/base64"
	"fmt"
	"time"

	"agentd/event"
	"agentd/fault"
)

// oneWorker refuses a task that is given to a peer and to another worker.
func oneWorker(worker, peer string) error {
	if peer != "" && worker != "" {
		return fault.Param("worker", "can't be combined with peer: the peer works on the task")
	}
	return nil
}

// GetPeerWork returns what the client of a peer needs to know of a task that is
// delegated to it.
type GetPeerWork struct {
	// TaskID is the local task.
	TaskID string `json:"taskId" check:"id"`
}

// Command implements [Params].
func (*GetPeerWork) Command() Name     { return "get_peer_work" }
func (*GetPeerWork) returns(*PeerWork) {}

// Validate implements [Params].
func (p *GetPeerWork) Validate() error { return check(p) }

// PeerWork is a task that is delegated to a peer, as its newest attempt stands.
type PeerWork struct {
	// TaskID is the local task.
	TaskID string `json:"taskId"`
	// SessionID of the local task.
	SessionID string `json:"sessionId"`
	// Account that the task belongs to.
	Account string `json:"account,omitempty"`
	// Peer that works on it: the id of a configured one, or the address of a card.
	Peer string `json:"peer"`
	// Status of the local task.
	Status string `json:"status"`
	// NativeStatus says more about it.
	NativeStatus string `json:"nativeStatus,omitempty"`
	// RunID of the attempt; absent if there was none.
	RunID string `json:"runId,omitempty"`
	// Active says that the attempt has no end yet.
	Active bool `json:"active"`
	// StartedAt is when the attempt began.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// MessageID is the id of the message that begins the work at the peer. It follows
	// from the attempt.
	MessageID string `json:"messageId,omitempty"`
	// Input is what the peer gets: a list of parts.
	Input event.Raw `json:"input,omitempty"`
	// InputRef is where a large input is.
	InputRef string `json:"inputRef,omitempty"`
	// Sent says that the message was about to be sent: the peer may have it.
	Sent bool `json:"sent"`
	// Link joins the attempt to the peer's task, once that is known.
	Link *PeerLink `json:"link,omitempty"`
	// Answer to what the peer asked last, if it has not been told yet.
	Answer *PeerAnswer `json:"answer,omitempty"`
	// Artifacts are the ids of the artifacts that are stored.
	Artifacts []string `json:"artifacts,omitempty"`
}

// PeerLink is how an attempt stands at the peer.
type PeerLink struct {
	// RemoteTaskID is the task as the peer knows it.
	RemoteTaskID string `json:"remoteTaskId" secret:"refuse"`
	// RemoteContextID is the conversation as the peer knows it.
	RemoteContextID string `json:"remoteContextId,omitempty" secret:"refuse"`
	// DeliveryMechanism says how we learn what becomes of the task.
	DeliveryMechanism string `json:"deliveryMechanism,omitempty"`
	// Status is how the task stands there, in our words.
	Status string `json:"status"`
	// RemoteStatus is the same in the peer's words.
	RemoteStatus string `json:"remoteStatus,omitempty"`
	// LastMessageID is the last message that went to the peer or came from it.
	LastMessageID string `json:"lastMessageId,omitempty"`
	// Recovery is what is to be done about it: one of running, idle, waiting,
	// unreconciled, missing, unreachable, or settled, or unknown.
	Recovery string `json:"recovery"`
}

// PeerAnswer is the answer given here to a peer's question.
type PeerAnswer struct {
	// ActionID is the question's id here.
	ActionID string `json:"actionId"`
	// MessageID is the id of the message that carries the answer.
	MessageID string `json:"messageId"`
	// Decision that was taken.
	Decision string `json:"decision"`
	// Payload of the answer.
	Payload event.Raw `json:"payload,omitempty"`
	// PayloadRef is where a large one is.
	PayloadRef string `json:"payloadRef,omitempty"`
	// Reason for people.
	Reason string `json:"reason,omitempty"`
	// Question is what the peer asked, in its own form.
	Question event.Raw `json:"question,omitempty"`
}

// LinkPeerTask joins an attempt to the task that it is at the peer. Without a remote
// task it records that the message is about to be sent.
type LinkPeerTask struct {
	Mutation
	// TaskID is the local task.
	TaskID string `json:"taskId" check:"id"`
	// RunID is the attempt.
	RunID string `json:"runId" check:"id"`
	// ChannelID is the channel to the peer.
	ChannelID string `json:"channelId" check:"id"`
	// NativeProtocol of the peer, such as a2a.
	NativeProtocol string `json:"nativeProtocol" max:"128"`
	// RemoteAgentRef names the peer; never a credential.
	RemoteAgentRef string `json:"remoteAgentRef,omitempty" max:"1024"`
	// RemoteMessageID is the message that begins the work.
	RemoteMessageID string `json:"remoteMessageId" max:"1024" secret:"refuse"`
	// RemoteTaskID is the task as the peer knows it; absent before it is known.
	RemoteTaskID string `json:"remoteTaskId,omitempty" max:"256" secret:"refuse"`
	// RemoteContextID is the conversation as the peer knows it.
	RemoteContextID string `json:"remoteContextId,omitempty" max:"1024" secret:"refuse"`
	// DeliveryMechanism says how we learn what becomes of the task.
	DeliveryMechanism string `json:"deliveryMechanism,omitempty" enum:"@deliveryMechanism"`
	// Card is the peer's card as it was read.
	Card event.Raw `json:"card,omitempty" check:"object"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"1000"`
}

// Command implements [Params].
func (*LinkPeerTask) Command() Name       { return "link_peer_task" }
func (*LinkPeerTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *LinkPeerTask) Validate() error { return check(p) }

// UpdatePeerTask records how a delegated attempt stands at the peer and brings the
// local task to where that takes it.
type UpdatePeerTask struct {
	Mutation
	// TaskID is the local task.
	TaskID string `json:"taskId" check:"id"`
	// RunID is the attempt.
	RunID string `json:"runId" check:"id"`
	// ChannelID is the channel to the peer.
	ChannelID string `json:"channelId" check:"id"`
	// RemoteTaskID is the task as the peer knows it; absent before it is known.
	RemoteTaskID string `json:"remoteTaskId,omitempty" max:"256" secret:"refuse"`
	// Status is how the task stands there, in our words.
	Status string `json:"status" enum:"@peerTaskStatus"`
	// RemoteStatus is the same in the peer's words.
	RemoteStatus string `json:"remoteStatus,omitempty" max:"128"`
	// Reason for people; never a credential.
	Reason string `json:"reason,omitempty" max:"4000"`
	// Final says that nothing more will be tried: an unreachable task is held until
	// it is resumed.
	Final bool `json:"final,omitempty"`
	// Retryable says that another attempt may succeed, if this one failed.
	Retryable bool `json:"retryable,omitempty"`
	// Category of the failure, for programs.
	Category string `json:"category,omitempty" max:"128"`
	// RemoteMessageID is the message that the change is about.
	RemoteMessageID string `json:"remoteMessageId,omitempty" max:"1024" secret:"refuse"`
	// Message is that message in the peer's own form.
	Message event.Raw `json:"message,omitempty" check:"object"`
	// Question is what a waiting peer wants to know.
	Question *PeerQuestion `json:"question,omitempty"`
	// Artifacts that the peer delivered.
	Artifacts []PeerDelivery `json:"artifacts,omitempty" max:"1000"`
	// Summary of the result.
	Summary string `json:"summary,omitempty" max:"1048576"`
}

// Command implements [Params].
func (*UpdatePeerTask) Command() Name       { return "update_peer_task" }
func (*UpdatePeerTask) returns(*TaskResult) {}

// Validate implements [Params].
func (p *UpdatePeerTask) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	for i := range p.Artifacts {
		if _, err := p.Artifacts[i].Bytes(); err != nil {
			return fault.Param(fmt.Sprintf("artifacts[%d].content", i), "is not base64")
		}
	}
	return nil
}

// PeerQuestion is what a peer wants to know before it goes on.
type PeerQuestion struct {
	// Prompt for people.
	Prompt string `json:"prompt" max:"65536"`
	// Decisions that can be taken; submit and cancel if absent.
	Decisions []string `json:"decisions,omitempty" enum:"@actionAnswer" max:"4"`
	// Schema of the answer.
	Schema event.Raw `json:"schema,omitempty" check:"object"`
	// Permission is what the peer wants to be allowed, such as the name of its tool; the
	// question is then a request for permission.
	Permission string `json:"permission,omitempty" max:"1000"`
}

// PeerDelivery is something that a peer delivered, with its content.
type PeerDelivery struct {
	// ArtifactID is the artifact's id here.
	ArtifactID string `json:"artifactId" check:"id"`
	// RemoteArtifactID is the artifact as the peer knows it.
	RemoteArtifactID string `json:"remoteArtifactId,omitempty" max:"1024"`
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// MediaType of the content.
	MediaType string `json:"mediaType,omitempty" max:"256"`
	// URI of the content, where it has one.
	URI string `json:"uri,omitempty" max:"4096"`
	// Content in base64.
	Content string `json:"content,omitempty" max:"134217728"`
}

// Bytes returns the content.
func (d *PeerDelivery) Bytes() ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(d.Content)
	if err != nil {
		return nil, fmt.Errorf("command: content of artifact %s: %w", d.ArtifactID, err)
	}
	return b, nil
}
