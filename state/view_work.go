package state

import (
	"slices"

	"agentd/event"
)

// SubagentJobSummary is the children and the batches of a session.
type SubagentJobSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Subagents are the children.
	Subagents SubagentSummary `json:"subagents"`
	// Jobs are the batches.
	Jobs JobSummary `json:"jobs"`
}

// SubagentSummary is the children of a session.
type SubagentSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Open are the children that have not ended.
	Open []Subagent `json:"open"`
	// Recent are the last ended ones, oldest first.
	Recent []Subagent `json:"recent"`
	// Graph leads from threads to the children that they spawned.
	Graph []SubagentEdge `json:"graph"`
	// Spawned counts all children.
	Spawned int64 `json:"spawned"`
	// Completed counts the children that completed their work.
	Completed int64 `json:"completed"`
	// Failed counts the children that failed.
	Failed int64 `json:"failed"`
	// Closed counts the children that were closed.
	Closed int64 `json:"closed"`
}

// SubagentEdge leads from a thread to the child that it spawned.
type SubagentEdge struct {
	// ParentThreadID is where the edge begins.
	ParentThreadID string `json:"parentThreadId"`
	// ParentSubagentID is the child that spawned it, if one did.
	ParentSubagentID string `json:"parentSubagentId,omitempty"`
	// SubagentID is the child.
	SubagentID string `json:"subagentId"`
	// ThreadID is the child's thread.
	ThreadID string `json:"threadId"`
	// Status of the child.
	Status string `json:"status"`
	// Recoverable says whether the child can be resumed: it has not ended.
	Recoverable bool `json:"recoverable"`
}

// JobSummary is the batches of a session.
type JobSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Jobs that have not ended, and the last ended ones.
	Jobs []JobView `json:"jobs"`
	// ByStatus counts the jobs by status.
	ByStatus map[string]int64 `json:"byStatus"`
}

// JobView is the wire form of a job.
type JobView struct {
	Job
	// Items are those that the job still holds: running, to be tried again, and
	// the last failed ones.
	Items []JobItem `json:"items"`
	// AssignedThreadIDs are the threads that items were given to, the last ones at least.
	AssignedThreadIDs []string `json:"assignedThreadIds"`
}

// View returns the wire form of a job; its own lists of items are one there.
func (j *Job) View() JobView {
	v := JobView{Job: *j, Items: copied(func(*JobItem) bool { return true }, j.Running, j.Retrying, j.Failed), AssignedThreadIDs: j.AssignedThreads()}
	v.Running, v.Retrying, v.Failed, v.Threads = nil, nil, nil, nil
	v.Error = j.Failure()
	return v
}

// AssignedThreads are the threads that items were given to: those of the items under way,
// and the last ones before. They stay when the job has ended.
func (j *Job) AssignedThreads() []string {
	out := append([]string{}, j.Threads...)
	for _, item := range j.Running {
		if item.ThreadID != "" && !slices.Contains(out, item.ThreadID) {
			out = append(out, item.ThreadID)
		}
	}
	return out
}

func (s *Session) subagentJobSummary() SubagentJobSummary {
	all := func(*Subagent) bool { return true }
	a := &s.Subagents
	v := SubagentJobSummary{
		Subagents: SubagentSummary{
			Status: statusOf(a.Spawned > 0, NotApplicable), Open: copied(all, a.Open), Recent: copied(all, a.Recent), Graph: s.subagentGraph(),
			Spawned: a.Spawned, Completed: a.Completed, Failed: a.Failed, Closed: a.Closed,
		},
		Jobs: JobSummary{
			Status: statusOf(len(s.Jobs.Counts) > 0, NotApplicable), Jobs: s.jobsOf(""), ByStatus: countsCopy(s.Jobs.Counts),
		},
	}
	v.Status = statusOf(a.Spawned > 0 || len(s.Jobs.Counts) > 0, NotApplicable)
	return v
}

func (s *Session) subagentGraph() []SubagentEdge {
	out := []SubagentEdge{}
	for i, list := range [...][]*Subagent{s.Subagents.Open, s.Subagents.Recent} {
		for _, a := range list {
			out = append(out, SubagentEdge{
				ParentThreadID: a.ParentThreadID, ParentSubagentID: a.ParentSubagentID, SubagentID: a.SubagentID,
				ThreadID: a.ThreadID, Status: a.Status, Recoverable: i == 0,
			})
		}
	}
	return out
}

// descendants returns the edges below a thread, children before grandchildren.
func (s *Session) descendants(thread string) []SubagentEdge {
	graph := s.subagentGraph()
	out := []SubagentEdge{}
	taken := make([]bool, len(graph))
	for parents := []string{thread}; len(parents) > 0; {
		var next []string
		for _, p := range parents {
			for i, e := range graph {
				if e.ParentThreadID == p && !taken[i] {
					taken[i] = true
					out = append(out, e)
					next = append(next, e.ThreadID)
				}
			}
		}
		parents = next
	}
	return out
}

// jobsOf returns the jobs of a thread (its own, and those that have an item
// under way in it), or of the session.
func (s *Session) jobsOf(thread string) []JobView {
	out := []JobView{}
	for _, list := range [...][]*Job{s.Jobs.Open, s.Jobs.Recent} {
		for _, j := range list {
			if inView(thread, j.ThreadID) || indexWhere(j.Running, func(i *JobItem) bool { return i.ThreadID == thread }) >= 0 {
				out = append(out, j.View())
			}
		}
	}
	return out
}

// ChannelSummary is the remote peers of a session.
type ChannelSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Channels that are connected, and the last ones that went.
	Channels []Channel `json:"channels"`
	// Connected counts the connected ones in the list.
	Connected int `json:"connected"`
	// Disconnected counts the ones in the list that went.
	Disconnected int `json:"disconnected"`
	// PeerTasks are the tasks that peers work on for us, or we for them.
	PeerTasks []PeerTaskView `json:"peerTasks"`
	// PermissionBridge lists the forwarded requests without an answer.
	PermissionBridge []ChannelBridge `json:"permissionBridge"`
	// Connections counts how often a peer came.
	Connections int64 `json:"connections"`
	// Resumes counts how often a peer came back.
	Resumes int64 `json:"resumes"`
	// Disconnects counts how often a peer went.
	Disconnects int64 `json:"disconnects"`
}

// PeerTaskView is a peer's task with what is to be done about it.
type PeerTaskView struct {
	PeerTask
	// Recovery says what is to be done about it.
	Recovery string `json:"recovery"`
}

// ChannelBridge is a request for permission that crosses a channel.
type ChannelBridge struct {
	// ChannelID is the channel that it crosses.
	ChannelID string `json:"channelId"`
	Bridge
}

func (s *Session) channels() []Channel {
	return copied(func(*Channel) bool { return true }, s.Channels.Connected, s.Channels.Disconnected)
}

func (s *Session) channelSummary() ChannelSummary {
	c := &s.Channels
	v := ChannelSummary{
		Channels: s.channels(), Connected: len(c.Connected), Disconnected: len(c.Disconnected),
		PeerTasks: []PeerTaskView{}, PermissionBridge: []ChannelBridge{},
		Connections: c.Connections, Resumes: c.Resumes, Disconnects: c.Disconnects,
	}
	for _, list := range [...][]*PeerTask{c.PeerTasks, c.RecentPeerTasks} {
		for _, t := range list {
			v.PeerTasks = append(v.PeerTasks, PeerTaskView{PeerTask: *t, Recovery: t.Recovery()})
		}
	}
	for _, ch := range v.Channels {
		for _, b := range ch.Pending {
			v.PermissionBridge = append(v.PermissionBridge, ChannelBridge{ChannelID: ch.ChannelID, Bridge: b})
		}
	}
	v.Status = statusOf(len(v.Channels)+len(v.PeerTasks) > 0, NotApplicable)
	return v
}

// BenchmarkSummary is the trials that a session is part of.
type BenchmarkSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Dataset that is tried.
	Dataset *TrialDataset `json:"dataset,omitempty"`
	// Configurations that are tried, each as its newest fact says.
	Configurations []TrialConfiguration `json:"configurations"`
	// Trials that have not ended, and the last ended ones.
	Trials []Trial `json:"trials"`
	// Comparisons are the last ones, oldest first.
	Comparisons []Comparison `json:"comparisons"`
	// Delta has the differences of the last comparison.
	Delta *event.Comparison `json:"aggregateDelta,omitempty"`
	// Decision of the last comparison.
	Decision string `json:"decision,omitempty"`
	// Started counts the trials that were started.
	Started int64 `json:"started"`
	// Completed counts the trials that were completed.
	Completed int64 `json:"completed"`
	// Failed counts the trials that failed.
	Failed int64 `json:"failed"`
	// Rewards counts the rewards that were recorded.
	Rewards int64 `json:"rewards"`
}

func (s *Session) benchmarkSummary() BenchmarkSummary {
	b := &s.Benchmark
	v := BenchmarkSummary{
		Dataset: b.Dataset, Configurations: listCopy(b.Configurations), Comparisons: listCopy(b.Comparisons),
		Trials:  copied(func(*Trial) bool { return true }, b.Open, b.Recent),
		Started: b.Started, Completed: b.Completed, Failed: b.Failed, Rewards: b.Rewards,
	}
	if n := len(b.Comparisons); n > 0 {
		delta := b.Comparisons[n-1].Delta
		v.Delta, v.Decision = &delta, b.Comparisons[n-1].Decision
	}
	v.Status = statusOf(b.Dataset != nil || len(v.Configurations)+len(v.Trials)+len(v.Comparisons) > 0, NotApplicable)
	return v
}
