package config

import (
	"fmt"
	"time"

	"agentd/quota"
)

// Quotas say how much each account may use.
type Quotas struct {
	QuotaSet
	// Operator is for the account without a name.
	Operator QuotaSet `json:"operator"`
	// Accounts are those with limits of their own.
	Accounts []AccountQuotas `json:"accounts"`
}

// QuotaSet is one set of limits. What is empty wasn't given.
type QuotaSet struct {
	Sessions            Bounded `json:"sessions"`
	QueuedTurns         Bounded `json:"queuedTurns"`
	Subscriptions       Bounded `json:"subscriptions"`
	StoredBytes         Bounded `json:"storedBytes"`
	Schedules           Bounded `json:"schedules"`
	Processes           Bounded `json:"processes"`
	ScheduleMinInterval Span    `json:"scheduleMinInterval"`
}

// AccountQuotas are the limits of one account.
type AccountQuotas struct {
	ID string `json:"id"`
	QuotaSet
}

func (a AccountQuotas) id() string { return a.ID }

// Policy returns the limits as the runtime takes them.
func (q *Quotas) Policy() quota.Policy {
	p := quota.Policy{Operator: q.Operator.over(quota.Limits{}), Accounts: q.over(quota.Limits{}), Overrides: map[string]quota.Limits{}}
	for _, a := range q.Accounts {
		p.Overrides[a.ID] = a.over(p.Accounts)
	}
	return p
}

// over returns the limits, and for those that were not given others.
func (s *QuotaSet) over(others quota.Limits) quota.Limits {
	l := quota.Limits{
		Sessions: s.Sessions.Or(others.Sessions), QueuedTurns: s.QueuedTurns.Or(others.QueuedTurns),
		Subscriptions: s.Subscriptions.Or(others.Subscriptions), StoredBytes: s.StoredBytes.Or(others.StoredBytes),
		Schedules: s.Schedules.Or(others.Schedules), Processes: s.Processes.Or(others.Processes),
		ScheduleMinInterval: time.Duration(s.ScheduleMinInterval),
	}
	if l.ScheduleMinInterval == 0 {
		l.ScheduleMinInterval = others.ScheduleMinInterval
	}
	return l
}

// quotaSettings are the same limits three times: for accounts, for the operator's
// own, and for accounts by name.
func quotaSettings() []Setting {
	all := limitSettings("quotas.", " of a named account", [7]string{"10000", "1000", "500", "10GiB", "100", "64", "10s"})
	all = append(all, limitSettings("quotas.operator.", " of the unnamed account, which the admin token and tokens without --account use", [7]string{"1000000", "100000", Unlimited, Unlimited, "1000", "512", "1s"})...)
	all = append(
		all,
		Setting{Name: "quotas.accounts[]", Type: Objects, Reload: true, Means: "Accounts with their own limits; limits that an entry leaves out are the same as for every account."},
		Setting{Name: "quotas.accounts[].id", Type: ID, Required: true, Reload: true, Means: "Name of the account."},
	)
	return append(all, limitSettings("quotas.accounts[].", " of this account", [7]string{})...)
}

func limitSettings(prefix, whose string, defaults [7]string) []Setting {
	return []Setting{
		{Name: prefix + string(quota.Sessions), Type: Bound, Default: defaults[0], Reload: true, Means: fmt.Sprintf("Sessions%s.", whose)},
		{Name: prefix + string(quota.QueuedTurns), Type: Bound, Default: defaults[1], Reload: true, Means: fmt.Sprintf("Turns that wait in the queues%s.", whose)},
		{Name: prefix + string(quota.Subscriptions), Type: Bound, Default: defaults[2], Reload: true, Means: fmt.Sprintf("Open streams%s.", whose)},
		{Name: prefix + string(quota.StoredBytes), Type: SizeBound, Default: defaults[3], Reload: true, Means: fmt.Sprintf("Size of the events and stored contents%s.", whose)},
		{Name: prefix + string(quota.Schedules), Type: Bound, Default: defaults[4], Reload: true, Means: fmt.Sprintf("Schedules%s.", whose)},
		{Name: prefix + string(quota.Processes), Type: Bound, Default: defaults[5], Reload: true, Means: fmt.Sprintf("Running processes of the tools%s.", whose)},
		{Name: prefix + "scheduleMinInterval", Type: Duration, Default: defaults[6], Reload: true, Means: fmt.Sprintf("Shortest time between two runs of a schedule%s.", whose)},
	}
}
