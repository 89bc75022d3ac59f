package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagMistake says what is wrong with the flags of a command line in the words of the
// user: which flag, what it takes, and which one may have been meant.
func flagMistake(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, e)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s needs a value: %s", e.GetFlag().Name, e.GetFlag().Usage)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s: %s", e.GetFlag().Name, wrongValue(e))
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return usagef("%q is not a flag; flags are written --name or --name=value", e.GetSpecifiedFlag())
	}
	return &exitError{exitUsage, err}
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	if letters := e.GetSpecifiedShortnames(); letters != "" {
		return usagef("unknown flag: -%s; flags with more than one letter begin with two dashes", e.GetSpecifiedName())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	text := "unknown flag: --" + e.GetSpecifiedName()
	if near := nearest(e.GetSpecifiedName(), names); near != "" {
		text += "; did you mean --" + near + "?"
	}
	return usagef("%s", text)
}

// wrongValue says what a flag takes in place of what it was given.
func wrongValue(e *pflag.InvalidValueError) string {
	value := e.GetValue()
	tooLarge := errors.Is(e, strconv.ErrRange)
	switch kind := e.GetFlag().Value.Type(); {
	case tooLarge:
		return fmt.Sprintf("%q is out of range; give a smaller number", value)
	case strings.HasPrefix(kind, "uint"):
		return fmt.Sprintf("%q is not a whole number of 0 or more, such as 20", value)
	case strings.HasPrefix(kind, "int"):
		return fmt.Sprintf("%q is not a whole number such as 20", value)
	case strings.HasPrefix(kind, "float"):
		return fmt.Sprintf("%q is not a number such as 1.5", value)
	case kind == "duration":
		return fmt.Sprintf("%q is not a duration such as 90s, 30m or 24h", value)
	case kind == "bool":
		return fmt.Sprintf("%q is neither true nor false", value)
	case strings.HasPrefix(kind, "string"): // a list whose quotes don't match
		return fmt.Sprintf("%q is not a list of values with commas between them", value)
	}
	return describe(errors.Unwrap(e)) // a type of this program, which says it itself
}

// checkValues has a command and those below it refuse values that a flag doesn't take,
// before anything else is done.
func checkValues(cmd *cobra.Command, all map[string][]string) {
	for _, c := range cmd.Commands() {
		checkValues(c, all)
	}
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		var wrong error
		cmd.Flags().Visit(func(f *pflag.Flag) {
			values := choicesOf(cmd, f, all)
			switch got := f.Value.String(); {
			case wrong != nil:
			case got == "" && f.Value.Type() == "string" && !mayBeEmpty[f.Name]:
				wrong = usagef("--%s needs a value: %s", f.Name, f.Usage)
			case values != nil && !slices.Contains(values, got):
				wrong = usagef("--%s: %q is not one of %s", f.Name, got, strings.Join(values, ", "))
			}
		})
		if wrong != nil {
			return wrong
		}
		return run(cmd, given)
	}
}

// mayBeEmpty are the flags that can be given an empty text: what people write, and the cursor
// that a script begins with. An empty value of any other is most likely a variable of the shell
// that isn't set, and without it the command would do something else: undo another session, make
// a token that sees more.
var mayBeEmpty = map[string]bool{"cursor": true, "instruction": true, "query": true, "reason": true, "title": true}

// notOneOf is how all parts of the program refuse a value of which there are few.
var notOneOf = regexp.MustCompile(`"([^"]*)" is not one of ([^;:]*)$`)

// suggestValue adds to such a text the value that may have been meant.
func suggestValue(text string) string {
	m := notOneOf.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	if near := nearest(m[1], strings.Split(m[2], ", ")); near != "" {
		return text + "; did you mean " + near + "?"
	}
	return text
}

// nearest returns the name that a person who typed something else may have meant; empty
// if none is near. Of names that are equally near it is the one whose mistake people make
// most.
func nearest(typed string, names []string) string {
	typed = strings.ToLower(typed)
	best, at := "", 3
	for _, name := range names {
		lower := strings.ToLower(name)
		d := distance(typed, lower)
		if len(typed) >= 3 && strings.HasPrefix(lower, typed) || len(name) >= 3 && strings.HasPrefix(typed, lower) {
			d = min(d, 2)
		}
		if d >= 3 || d >= len(name) || d >= len(typed) {
			continue
		}
		if d < at || d == at && likelier(typed, lower, strings.ToLower(best)) {
			best, at = name, d
		}
	}
	return best
}

// likelier reports whether a mistyped text stands for one name rather than for another:
// letters in another order before letters left out, those before letters too many, and
// those before other letters; else the name that begins more like it.
func likelier(typed, name, than string) bool {
	if a, b := slipRank(typed, name), slipRank(typed, than); a != b {
		return a < b
	}
	return commonPrefix(typed, name) > commonPrefix(typed, than)
}

func slipRank(typed, name string) int {
	a, b := []byte(typed), []byte(name)
	slices.Sort(a)
	slices.Sort(b)
	switch {
	case slices.Equal(a, b):
		return 0
	case len(typed) < len(name):
		return 1
	case len(typed) > len(name):
		return 2
	}
	return 3
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is how many letters must be added, removed, changed or swapped with the next
// one to make one text of another.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			change := 1
			if x[i-1] == y[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
