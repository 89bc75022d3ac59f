package work

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cronSpec is when a schedule is due: the minutes that all its fields allow. Each
// field is a set of small numbers, as bits.
type cronSpec struct {
	minute, hour, day, month, weekday uint64
	// anyDay and anyWeekday say that the field is a star: if neither is, a day that
	// one of them allows is enough, as cron does it.
	anyDay, anyWeekday bool
	zone               *time.Location
}

// cronField says what a field may hold.
type cronField struct {
	name     string
	min, max int
	names    []string
}

var cronFields = [...]cronField{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of the month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// cronNames are short forms of whole expressions.
var cronNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCron reads a cron expression of five fields.
func parseCron(text string, zone *time.Location) (*cronSpec, error) {
	if whole, ok := cronNames[strings.ToLower(strings.TrimSpace(text))]; ok {
		text = whole
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return nil, fmt.Errorf("expected five fields (minute, hour, day, month, day of the week), not %d", len(fields))
	}
	var sets [len(cronFields)]uint64
	for i, f := range cronFields {
		set, err := f.parse(fields[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		sets[i] = set
	}
	c := &cronSpec{
		minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4] | sets[4]>>7&1, // Sunday is 0 and 7
		anyDay: strings.HasPrefix(fields[2], "*"), anyWeekday: strings.HasPrefix(fields[4], "*"), zone: zone,
	}
	if c.next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("no date ever matches it")
	}
	return c, nil
}

// parse reads a field: a list of numbers, ranges and stars, each perhaps with a step.
func (f *cronField) parse(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		rng, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 {
				return 0, fmt.Errorf("%q is not a step", stepText)
			}
			step = n
		}
		from, to, err := f.bounds(rng, stepped)
		if err != nil {
			return 0, err
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

// bounds reads a star, a number or a range. A number with a step reaches to the end.
func (f *cronField) bounds(text string, stepped bool) (from, to int, err error) {
	if text == "*" {
		return f.min, f.max, nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if from, err = f.number(first); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		if to, err = f.number(last); err != nil {
			return 0, 0, err
		}
	case stepped:
		to = f.max
	default:
		to = from
	}
	if to < from {
		return 0, 0, fmt.Errorf("the range %q goes backwards", text)
	}
	return from, to, nil
}

func (f *cronField) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return i + f.min, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not between %d and %d", text, f.min, f.max)
	}
	return n, nil
}

// cronHorizon is how far ahead a due time is looked for: a leap day comes within
// eight years.
const cronHorizon = 9 * 366

// everyHour is the set of all hours.
const everyHour = 1<<24 - 1

// next returns the first due time after a moment; zero if none comes in years. A
// time of day that the clocks skip is passed over, one that comes twice is due
// once; but what is due in every hour goes by the hours that pass, whatever the
// clocks show.
func (c *cronSpec) next(after time.Time) time.Time {
	if c.hour == everyHour {
		return c.nextHourly(after)
	}
	local := after.In(c.zone)
	for day := range cronHorizon {
		date := time.Date(local.Year(), local.Month(), local.Day()+day, 0, 0, 0, 0, c.zone)
		if !c.allowsDay(date) {
			continue
		}
		hours := c.hour
		if day == 0 {
			hours &^= 1<<local.Hour() - 1 // they have passed
		}
		for ; hours != 0; hours &= hours - 1 {
			for minutes := c.minute; minutes != 0; minutes &= minutes - 1 {
				h, m := bits.TrailingZeros64(hours), bits.TrailingZeros64(minutes)
				t := firstAt(date, h, m)
				if t.After(after) && t.Hour() == h && t.Minute() == m {
					return t
				}
			}
		}
	}
	return time.Time{}
}

// firstAt returns when the clocks first show a time on a day. If they never do the
// result shows another.
func firstAt(date time.Time, h, m int) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day(), h, m, 0, 0, date.Location())
	for _, back := range [...]time.Duration{time.Hour, 30 * time.Minute} {
		if x := t.Add(-back); x.Hour() == h && x.Minute() == m {
			return x
		}
	}
	return t
}

// nextHourly is next for what is due in every hour of its days.
func (c *cronSpec) nextHourly(after time.Time) time.Time {
	t := after.In(c.zone).Truncate(time.Minute).Add(time.Minute)
	for end := t.AddDate(0, 0, cronHorizon); t.Before(end); {
		if !c.allowsDay(t) {
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, c.zone)
			continue
		}
		rest := c.minute >> t.Minute()
		if rest&1 == 1 {
			return t
		}
		wait := 60 - t.Minute() // the next hour, if none is left in this one
		if rest != 0 {
			wait = bits.TrailingZeros64(rest)
		}
		t = t.Add(time.Duration(wait) * time.Minute)
	}
	return time.Time{}
}

// allowsDay reports whether something can be due on a day.
func (c *cronSpec) allowsDay(t time.Time) bool {
	if c.month>>uint(t.Month())&1 == 0 {
		return false
	}
	day, weekday := c.day>>uint(t.Day())&1 == 1, c.weekday>>uint(t.Weekday())&1 == 1
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
