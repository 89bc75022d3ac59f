// Package usage keeps figures about what was used: turns, tokens, cost, tool calls,
// failures and approvals, by account, workspace, session, model and tool, and by hour.
//
// # Contract
//
// A [Projection] folds facts into sums. A fact counts in the hour that it happened in, and
// once: the sums are written with the position of the index. What was counted stays when a
// session is deleted or its events are removed. Sums that are built anew have what the
// facts that are there say.
//
// The newest sums stand by session and hour, small and often written. When there are some
// hundreds they are put together in one entry, and when there are many they go into packs:
// of the hour, the day and the month, of each account and of all together, over everything,
// over everything but the session, and over models and tools. Beside them is kept how many
// rows each bucket has, by each set of parts of the key. So [Query] reads few entries for a
// year, whatever it is by: of the buckets that it answers no row of, only the number of rows.
// Rows always add up: what doesn't belong to any tool is the row without a tool.
//
// There may be very many sessions, and rows by session. A pack has a head for each session,
// with what rows are ordered by, and the sessions that used most come first. No row of a
// session comes before the session itself, so a query reads only the heads and rows of those
// that may come first. How many rows there are a pack says as a whole; a query corrects it
// by the sessions that are in several packs, which it finds by hashes that packs have of
// their sessions.
//
// Sums that go from some entries to others while a query reads would be counted twice or not
// at all. Each such step has a number; a query that finds another one afterwards begins again.
//
// # Concurrency
//
// A Projection is folded by one goroutine, see index. Queries may be made by many.
package usage
