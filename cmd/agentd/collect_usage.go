package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"agentd/index/usage"
	"agentd/server"
)

// maxUsageSeries bounds the models and the tools that metrics have series of; what others
// used is counted together.
const maxUsageSeries = 50

// otherUsage stands for the models or tools that have no series of their own.
const otherUsage = "other"

// usageSeries are the figures that metrics have, by what they are split by.
var usageSeries = []struct {
	by         usage.Dimension
	figure     int
	name, help string
	scale      float64
}{
	{usage.ByModel, usage.Turns, "agentd_usage_turns_total", "Turns that ended, by the model that worked on them last.", 1},
	{usage.ByModel, usage.Failures, "agentd_usage_turn_failures_total", "Turns that failed.", 1},
	{usage.ByModel, usage.Cancelled, "agentd_usage_turns_cancelled_total", "Turns that were cancelled.", 1},
	{usage.ByModel, usage.ModelCalls, "agentd_usage_model_calls_total", "Requests to models.", 1},
	{usage.ByModel, usage.ModelFailures, "agentd_usage_model_failures_total", "Requests to models that failed.", 1},
	{usage.ByModel, usage.InputTokens, "agentd_usage_input_tokens_total", "Tokens that models read.", 1},
	{usage.ByModel, usage.CachedInputTokens, "agentd_usage_cached_input_tokens_total", "Tokens of the input that providers had kept.", 1},
	{usage.ByModel, usage.OutputTokens, "agentd_usage_output_tokens_total", "Tokens that models wrote.", 1},
	{usage.ByModel, usage.ReasoningTokens, "agentd_usage_reasoning_tokens_total", "Tokens of the output that were reasoning.", 1},
	{usage.ByModel, usage.CostNanoUSD, "agentd_usage_cost_usd_total", "Cost of model calls whose price is known, in US dollars.", 1e-9},
	{usage.ByTool, usage.ToolCalls, "agentd_usage_tool_calls_total", "Tool calls that models asked for.", 1},
	{usage.ByTool, usage.ToolFailures, "agentd_usage_tool_failures_total", "Tool calls that failed, were denied or never ran.", 1},
	{usage.ByTool, usage.Approvals, "agentd_usage_approvals_total", "Actions that were answered, expired or were cancelled.", 1},
	{usage.ByTool, usage.ApprovalWaitMs, "agentd_usage_approval_wait_seconds_total", "How long these actions waited.", 1e-3},
}

// collectUsage writes what was used since the data began. It doesn't wait for the index:
// the newest seconds may come with the next scrape. Figures that can't be read are left
// out, because the other metrics say what is wrong then.
func collectUsage(ctx context.Context, w *server.MetricWriter, s usage.Entries) {
	labels := map[usage.Dimension]string{usage.ByModel: "model", usage.ByTool: "tool"}
	rows := map[usage.Dimension]map[string]*usage.Figures{}
	for by := range labels {
		found, err := usage.Query{By: by, Everyone: true}.Rows(ctx, s)
		if err != nil {
			return
		}
		rows[by] = boundedSeries(found)
	}
	for _, series := range usageSeries {
		for _, name := range slices.Sorted(maps.Keys(rows[series.by])) {
			// Those that are zero, too: a counter that begins with its first failure has no increase.
			if n := rows[series.by][name][series.figure]; n != 0 || name != "" {
				w.Counter(series.name, series.help, float64(n)*series.scale, labels[series.by], name)
			}
		}
	}
}

// boundedSeries returns figures by name: those with the most turns and calls, and the
// rest together.
func boundedSeries(rows []usage.Row) map[string]*usage.Figures {
	slices.SortFunc(rows, func(a, b usage.Row) int {
		used := func(r *usage.Row) int64 { return r.Figures[usage.ModelCalls] + r.Figures[usage.ToolCalls] }
		return cmp.Or(cmp.Compare(used(&b), used(&a)), cmp.Compare(a.Key.Model+a.Key.Tool, b.Key.Model+b.Key.Tool))
	})
	out := map[string]*usage.Figures{}
	for i := range rows {
		name := rows[i].Key.Model + rows[i].Key.Tool
		if len(out) >= maxUsageSeries && out[name] == nil {
			name = otherUsage
		}
		if out[name] == nil {
			out[name] = &usage.Figures{}
		}
		out[name].Sum(&rows[i].Figures)
	}
	return out
}
