package command

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// freeObjects are the objects of parameters that have no bound of their own, and why the
// state of a session doesn't grow with them.
var freeObjects = map[string]string{
	"SendChannelMessage.body": "a long one is behind a reference",
	"CreateJob.outputSchema":  "schemas are bounded where they are read",
	"CreateSchedule.job":      "it is checked as the parameters of create_job",
	"CreateSchedule.task":     "it is checked as the parameters of create_task",
	"PeerStep.message":        "a message of a peer's task, behind a reference",
	"UpdatePeerTask.message":  "a message of a peer's task, behind a reference",
	"LinkPeerTask.card":       "the peer's card, behind a reference",
	"PeerQuestion.schema":     "schemas are bounded where they are read",
}

// TestObjectsOfCallersAreBounded: an object that a caller gives as it likes is part of the
// session's state, and so of every snapshot of it. Each has a bound, or a reason.
func TestObjectsOfCallersAreBounded(t *testing.T) {
	found := map[string]bool{}
	for _, d := range Catalog() {
		freeObjectsIn(reflect.TypeOf(d.New()), map[reflect.Type]bool{}, found)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if freeObjects[name] == "" {
			t.Errorf("%s has no max: the state of a session would grow with it", name)
		}
	}
	for name := range freeObjects {
		if !found[name] {
			t.Errorf("%s is exempt and needn't be", name)
		}
	}
}

// freeObjectsIn finds the objects without a bound in a type, by type and member.
func freeObjectsIn(in reflect.Type, seen map[reflect.Type]bool, found map[string]bool) {
	switch in.Kind() {
	case reflect.Pointer, reflect.Slice:
		freeObjectsIn(in.Elem(), seen, found)
	case reflect.Struct:
		if seen[in] {
			return
		}
		seen[in] = true
		for _, f := range reflect.VisibleFields(in) {
			if f.Type == reflect.TypeFor[event.Raw]() {
				if f.Tag.Get("check") == "object" && f.Tag.Get("max") == "" {
					member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
					found[in.Name()+"."+member] = true
				}
				continue
			}
			freeObjectsIn(f.Type, seen, found)
		}
	}
}
