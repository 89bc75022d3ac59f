package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The statements that a step may have: none of them rewrites or scans a table that is in use,
// or takes away what the version before works with. What isn't listed is refused.
var (
	onlineStatements = regexp.MustCompile(`(?i)^(CREATE TABLE|CREATE SEQUENCE|CREATE( OR REPLACE)? FUNCTION|COMMENT ON|GRANT) `)
	madeTable        = regexp.MustCompile(`(?i)^CREATE TABLE (?:IF NOT EXISTS )?([\w.]+)`)
	alteredTable     = regexp.MustCompile(`(?i)^ALTER TABLE (?:IF EXISTS )?(?:ONLY )?([\w.]+) (.*)$`)
	indexedTable     = regexp.MustCompile(`(?i)^CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON (?:ONLY )?([\w.]+)`)
	// A default that is the same for all rows is kept once. now() is.
	addedColumn = regexp.MustCompile(`(?i)^ADD COLUMN (IF NOT EXISTS )?\w+ [a-z]+(\[\])?( COLLATE "C")?(( NOT NULL)? DEFAULT ('[^']*'|-?\d+|true|false|now\(\)))?$`)
	setColumn   = regexp.MustCompile(`(?i)^ALTER COLUMN \w+ (SET STORAGE|SET COMPRESSION|SET STATISTICS|SET DEFAULT|DROP DEFAULT|DROP NOT NULL)\b`)
	unchecked   = regexp.MustCompile(`(?i)^ADD CONSTRAINT .* NOT VALID$`)
	validated   = regexp.MustCompile(`(?i)^ALTER TABLE [\w.]+ VALIDATE CONSTRAINT \w+$`)
	parameters  = regexp.MustCompile(`(?i)^SET \([^()]*\)$`)
	ddlFunction = regexp.MustCompile(`(?s)\$\$.*?\$\$`)
)

// checkOnline says why a step could hold up those who use the database.
func checkOnline(text string) error {
	list := statementsOf(ddlFunction.ReplaceAllString(text, "''"))
	if len(list) == 0 {
		return errors.New("it has no statement")
	}
	if strings.HasPrefix(text, aloneMark) {
		for _, s := range list {
			if !concurrentIndex.MatchString(s) && !validated.MatchString(s) {
				return fmt.Errorf("outside of a transaction only CREATE INDEX CONCURRENTLY IF NOT EXISTS and VALIDATE CONSTRAINT are known to be safe: %s", s)
			}
		}
		return nil
	}
	made := map[string]bool{}
	for _, s := range list {
		if m := madeTable.FindStringSubmatch(s); m != nil && !regexp.MustCompile(`(?i)\bAS\b`).MatchString(s) {
			made[m[1]] = true
			continue
		}
		if m := indexedTable.FindStringSubmatch(s); len(m) > 1 && made[m[1]] {
			continue
		}
		if m := alteredTable.FindStringSubmatch(s); m != nil {
			if made[m[1]] {
				continue
			}
			for action := range strings.SplitSeq(m[2], ", ") {
				if !addedColumn.MatchString(action) && !setColumn.MatchString(action) && !unchecked.MatchString(action) && !parameters.MatchString(action) {
					return fmt.Errorf("it may rewrite, scan or take away a table that is in use: %s", s)
				}
			}
			continue
		}
		if !onlineStatements.MatchString(s) || madeTable.MatchString(s) {
			return fmt.Errorf("it is not known to leave tables that are in use alone: %s", s)
		}
	}
	return nil
}

// exempted are steps that the rule can't see through, with the reason why they are harmless.
var exempted = map[string]string{
	"0010_packs": "it sets a storage parameter of each month's table, which neither scans nor conflicts with reads and writes",
}

// TestMigrationsAreOnline reads the steps that were written since the rule.
func TestMigrationsAreOnline(t *testing.T) {
	t.Parallel()
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.version < firstOnline || exempted[s.name] != "" {
			continue
		}
		if err := checkOnline(s.sql); err != nil {
			t.Errorf("%s: %v; docs/operations.md, \"What a migration may do\"", s.name, err)
		}
	}
}

func TestOnlineRule(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"ALTER TABLE agentd.events ADD COLUMN first bigint;",
		"-- why\nALTER TABLE agentd.events ADD COLUMN first bigint, ADD COLUMN x text COLLATE \"C\" NOT NULL DEFAULT '';",
		"ALTER TABLE agentd.blobs ADD COLUMN touched timestamptz NOT NULL DEFAULT now();",
		"ALTER TABLE agentd.appends ADD COLUMN befores bigint[] NOT NULL DEFAULT '{}';\nALTER TABLE agentd.appends ALTER COLUMN befores SET STORAGE EXTERNAL;",
		"CREATE TABLE agentd.a (x bigint PRIMARY KEY);\nCREATE INDEX a_x ON agentd.a (x);\nALTER TABLE agentd.a ADD COLUMN y bigint REFERENCES agentd.b;",
		"ALTER TABLE agentd.events SET (fillfactor = 90);",
		"ALTER TABLE agentd.events ADD CONSTRAINT positive CHECK (sequence > 0) NOT VALID;",
		"CREATE OR REPLACE FUNCTION agentd.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE x; END $$;",
		aloneMark + "CREATE INDEX CONCURRENTLY IF NOT EXISTS events_first ON agentd.events (first);",
		aloneMark + "ALTER TABLE agentd.events VALIDATE CONSTRAINT positive;",
	} {
		if err := checkOnline(text); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, text := range []string{
		"",
		"-- nothing\n",
		"ALTER TABLE agentd.events ALTER COLUMN crc TYPE integer;",
		"ALTER TABLE agentd.events ALTER COLUMN crc SET DATA TYPE integer;",
		"ALTER TABLE agentd.events ALTER COLUMN crc SET NOT NULL;",
		"ALTER TABLE agentd.events ADD COLUMN at timestamptz DEFAULT clock_timestamp();",
		"ALTER TABLE agentd.events ADD COLUMN id uuid DEFAULT gen_random_uuid();",
		"ALTER TABLE agentd.events ADD COLUMN id bigserial;\nUPDATE agentd.events SET id = 1;",
		"ALTER TABLE agentd.events ADD COLUMN x bigint NOT NULL;",
		"ALTER TABLE agentd.events ADD COLUMN x bigint UNIQUE;",
		"ALTER TABLE agentd.events ADD COLUMN x bigint REFERENCES agentd.blobs;",
		"ALTER TABLE agentd.events ADD COLUMN first bigint, ALTER COLUMN crc SET NOT NULL;",
		"ALTER TABLE agentd.events ADD CONSTRAINT positive CHECK (sequence > 0);",
		"ALTER TABLE agentd.events ADD CONSTRAINT positive CHECK (sequence > 0) NOT VALID;\nALTER TABLE agentd.events VALIDATE CONSTRAINT positive;",
		"ALTER TABLE agentd.events DROP COLUMN crc;",
		"ALTER TABLE agentd.events RENAME TO facts;",
		"ALTER TABLE agentd.appends SET UNLOGGED;",
		"CREATE INDEX events_crc ON agentd.events (crc);",
		"CREATE INDEX CONCURRENTLY IF NOT EXISTS events_crc ON agentd.events (crc);",
		"CREATE TABLE agentd.copy AS SELECT * FROM agentd.events;",
		"UPDATE agentd.sessions SET owner = NULL;",
		"INSERT INTO agentd.meta SELECT name, value FROM agentd.meta;",
		"DELETE FROM agentd.meta;",
		"DO $$ BEGIN UPDATE agentd.sessions SET owner = NULL; END $$;",
		"LOCK TABLE agentd.events;",
		"DROP TABLE agentd.meta;",
		"VACUUM FULL agentd.events;",
		aloneMark + "CREATE INDEX events_crc ON agentd.events (crc);",
		aloneMark + "CREATE INDEX CONCURRENTLY events_crc ON agentd.events (crc);",
		aloneMark + "CREATE INDEX CONCURRENTLY IF NOT EXISTS events_crc ON agentd.events (crc);\nUPDATE agentd.events SET crc = 1;",
	} {
		if checkOnline(text) == nil {
			t.Errorf("accepted: %s", text)
		}
	}
}
