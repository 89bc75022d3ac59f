package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agentd/event"
)

// wholeModels maps what Go callers rely on, in package command, to the read model
// that the answer really is. Documents describe the whole.
var wholeModels = map[string]string{
	"agentd/command.SessionRead":     "agentd/session.GetSessionResult",
	"agentd/command.ThreadRead":      "agentd/state.ThreadReadModel",
	"agentd/command.TurnRead":        "agentd/state.TurnView",
	"agentd/command.QueuedTurnRead":  "agentd/state.QueuedTurn",
	"agentd/command.TurnOrigin":      "agentd/state.TurnOrigin",
	"agentd/command.ListTasksResult": "agentd/work.ListTasksResult",
	"agentd/command.TaskRecord":      "agentd/state.Task",
	"agentd/command.AttemptRecord":   "agentd/state.Attempt",
	"agentd/command.Relationship":    "agentd/state.Relationship",
	"agentd/command.ActionRecord":    "agentd/state.Action",
	"agentd/command.EnvironmentRead": "agentd/loop.environment",
}

// rawModels are the read models that commands carry as raw JSON, by the field's tag "as".
var rawModels = map[string]string{
	"action":           "agentd/state.Action",
	"session_snapshot": "agentd/state.SessionSnapshot",
}

// modelNames are the names of read models in documents, where that of the Go type is
// taken or says too little without its package. Clients are written with them: they stay.
var modelNames = map[string]string{
	"agentd/event.LimitState":   "LimitHeadroom",
	"agentd/state.Block":        "ThreadBlock",
	"agentd/state.Channel":      "ChannelRead",
	"agentd/state.ComparedRun":  "BenchmarkRun",
	"agentd/state.Comparison":   "BenchmarkComparison",
	"agentd/state.Decision":     "DecisionRead",
	"agentd/state.Grant":        "GrantRead",
	"agentd/state.Interrupt":    "InterruptRead",
	"agentd/state.JobItem":      "JobItemRead",
	"agentd/state.JobSummary":   "JobsSummary",
	"agentd/state.JobView":      "JobRead",
	"agentd/state.Limit":        "LimitRead",
	"agentd/state.ModelCall":    "ModelCallRead",
	"agentd/state.Output":       "OutputRead",
	"agentd/state.Plan":         "PlanRead",
	"agentd/state.Policy":       "PolicyRead",
	"agentd/state.Process":      "ProcessRead",
	"agentd/state.Reward":       "TrialReward",
	"agentd/state.StepView":     "StepRead",
	"agentd/state.Subagent":     "SubagentRead",
	"agentd/state.ToolCall":     "ToolCallRead",
	"agentd/state.Trial":        "TrialRead",
	"agentd/state.TrialDataset": "BenchmarkDataset",
}

// addModel enters a read model and what it holds, once.
func (c *commandModel) addModel(key string) *commandStruct {
	if s, ok := c.byKey[key]; ok {
		return s
	}
	for part, whole := range wholeModels {
		if whole == key {
			s := c.partOf(part)
			return s
		}
	}
	t := c.sources.types[key]
	if t == nil {
		c.failed = errors.Join(c.failed, fmt.Errorf("there is no type %s", key))
		return &commandStruct{name: key}
	}
	name := t.name
	if n, ok := modelNames[key]; ok {
		name = n
	}
	s := &commandStruct{name: name, doc: firstSentence(structDoc(t.name, t.doc))}
	c.byKey[key] = s
	c.structs = append(c.structs, s)
	s.fields = c.modelFields(key, nil)
	return s
}

// partOf enters a read model of which package command has a part, under the part's name.
func (c *commandModel) partOf(part string) *commandStruct {
	if s, ok := c.byKey[part]; ok {
		return s
	}
	name := part[strings.LastIndexByte(part, '.')+1:]
	s := &commandStruct{name: name, whole: true, doc: firstSentence(structDoc(name, c.docs["agentd/command"].of(name)))}
	c.byKey[part], c.byKey[wholeModels[part]] = s, s
	c.structs = append(c.structs, s)
	c.fillModel(s, part)
	return s
}

// fillModel gives s the fields of a read model. Where the part that package command
// has of it documents or bounds a field and the read model doesn't, that holds.
func (c *commandModel) fillModel(s *commandStruct, part string) {
	known := map[string]sourceField{}
	list, err := c.sources.fields(part)
	c.failed = errors.Join(c.failed, err)
	for _, f := range list {
		known[wireName(f.tag)] = f
	}
	s.fields = c.modelFields(wholeModels[part], known)
	for name := range known {
		if !slices.ContainsFunc(s.fields, func(f commandField) bool { return f.wire == name }) {
			c.failed = errors.Join(c.failed, fmt.Errorf("%s has the field %s, which %s lacks", part, name, wholeModels[part]))
		}
	}
}

// firstSentence leaves out what a comment says to readers of the code.
func firstSentence(doc string) string {
	if first, _, more := strings.Cut(doc, ". "); more {
		return first + "."
	}
	return doc
}

func wireName(tag reflect.StructTag) string {
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	return name
}

// modelFields lists the fields of a read model.
func (c *commandModel) modelFields(key string, known map[string]sourceField) []commandField {
	declared, err := c.sources.fields(key)
	if err != nil {
		c.failed = errors.Join(c.failed, err)
		return nil
	}
	var list []commandField
	for _, sf := range declared {
		name, options, _ := strings.Cut(sf.tag.Get("json"), ",")
		if name == "" {
			c.failed = errors.Join(c.failed, fmt.Errorf("%s.%s needs a json name", key, sf.goName))
			continue
		}
		part := known[name]
		doc, goName, enum := sf.doc, sf.goName, sf.tag.Get("enum")
		if part.doc != "" {
			doc, goName = part.doc, part.goName
		}
		if enum == "" {
			enum = part.tag.Get("enum")
		}
		as := sf.tag.Get("as")
		if as == "" {
			as = part.tag.Get("as")
		}
		f := commandField{
			wire: name, source: sf.owner + "." + sf.goName, doc: fieldDoc(goName, name, doc), typ: sf.typ, tagged: options == "" && !sf.absent,
			enum: event.EnumValues(enum), check: strings.Fields(sf.tag.Get("check")),
			min: sf.tag.Get("min"), max: sf.tag.Get("max"), as: as, also: sf.tag.Get("also"),
		}
		if raw, ok := rawModels[f.as]; ok {
			f.of = c.addModel(raw)
		} else if sf.of != "" {
			f.of = c.addModel(sf.of)
		}
		list = append(list, f)
	}
	return list
}

// undocumented names what has no comment: a reference whose fields have to be guessed
// is none.
func (c *commandModel) undocumented() error {
	missing := map[string]bool{}
	for _, s := range c.structs {
		if s.doc == "" {
			missing[s.name] = true
		}
		for i := range s.fields {
			if s.fields[i].doc == "" {
				missing[s.fields[i].source] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("these have no comment:\n  %s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n  "))
}
