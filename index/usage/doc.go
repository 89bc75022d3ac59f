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
// The newest sums stand by session and hour, small and often written. When there are many
// they go into packs: of the hour, the day and the month, of each account and of all
// together, over everything but some parts of the key. So [Query]
// reads few entries for a year, also by account, and rows always add up: what doesn't
// belong to any tool is the row without a tool. Rows of packs are in the order of sessions:
// a query by session, which may have very many rows, merges packs and keeps only the rows
// that it answers.
//
// # Concurrency
//
// A Projection is folded by one goroutine, see index. Queries may be made by many.
package usage
