package command

// scheduleDefs are the catalogue's entries for schedules.
func scheduleDefs() []Def {
	return []Def{
		{
			Name: "create_schedule", Noun: "schedule", Form: formOf[CreateSchedule, ScheduleResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Starts a job or a task again and again.",
			Doc:     "Each run gets an id that follows from the schedule and the time at which it is due, so that none is started twice. A time of day that the clocks skip is passed over; one that they show twice is due once, unless cron names every hour.",
			Example: `{"cron":"0 6 * * 1-5","timeZone":"Europe/Paris","job":{"instruction":"Summarize the page.","items":[{"input":"https://example.org"}]}}`,
		},
		{
			Name: "list_schedules", Noun: "schedule", Form: formOf[ListSchedules, ListSchedulesResult](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Lists schedules with their next and last runs.",
			Doc:     "Schedules that were deleted are not listed.",
			Example: `{"limit":10}`,
		},
		{
			Name: "run_schedule", Noun: "schedule", Form: formOf[RunSchedule, ScheduleResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Starts a run of a schedule now.",
			Doc:     "The runs that are due stay as they are. Unless the schedule's overlap is allow, the run waits for the end of the one before; if a run waits already, that is the one. A paused schedule starts nothing: 409.",
			Example: `{"scheduleId":"schedule_daily"}`,
		},
		{
			Name: "pause_schedule", Noun: "schedule", Form: formOf[PauseSchedule, ScheduleResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Holds a schedule.",
			Doc:     "It starts nothing until resume_schedule; what it started continues. Pausing a paused one changes nothing.",
			Example: `{"scheduleId":"schedule_daily","reason":"holidays"}`,
		},
		{
			Name: "resume_schedule", Noun: "schedule", Form: formOf[ResumeSchedule, ScheduleResult](),
			Mutates: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Lets a paused schedule go on.",
			Doc:     "Runs that were due in the meantime follow its policy for missed runs. With recovery: manual a schedule is paused at every start of the runtime.",
			Example: `{"scheduleId":"schedule_daily"}`,
		},
		{
			Name: "delete_schedule", Noun: "schedule", Form: formOf[DeleteSchedule, ScheduleResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Ends a schedule.",
			Doc:     "What it started stays and continues.",
			Example: `{"scheduleId":"schedule_daily"}`,
		},
	}
}
