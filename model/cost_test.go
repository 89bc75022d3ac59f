package model_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/model"
)

func TestCost(t *testing.T) {
	rates := model.Rates{InputPerMTok: 2, OutputPerMTok: 10, CachedInputPerMTok: 0.5, CacheWriteInputPerMTok: 2.5}
	priced := model.Info{Provider: "p", Model: "m", Price: &model.Price{Rates: rates, Row: "config p/m"}}
	nocache := model.Info{Provider: "p", Model: "m", Price: &model.Price{Rates: model.Rates{InputPerMTok: 2, OutputPerMTok: 10}}}
	long := priced
	long.Price = &model.Price{Rates: rates, Row: "row", Long: &model.LongPrice{
		Above: 1000, Rates: model.Rates{InputPerMTok: 4, OutputPerMTok: 20, CachedInputPerMTok: 1, CacheWriteInputPerMTok: 5},
	}}
	for _, c := range []struct {
		name  string
		info  model.Info
		usage event.Usage
		usd   float64
		basis string
	}{
		{"nothing", priced, event.Usage{}, 0, "config p/m"},
		{"input and output", priced, event.Usage{InputTokens: 1_000_000, OutputTokens: 100_000}, 3, "config p/m"},
		{"a part is cached", priced, event.Usage{InputTokens: 1_000_000, CachedInputTokens: 400_000}, 1.4, "config p/m"},
		{"a part is kept for later", priced, event.Usage{InputTokens: 1_000_000, CachedInputTokens: 400_000, CacheWriteInputTokens: 200_000}, 1.5, "config p/m"},
		{"more kept than sent", priced, event.Usage{InputTokens: 1_000_000, CachedInputTokens: 400_000, CacheWriteInputTokens: 9_000_000}, 1.7, "config p/m"},
		{"no price for what is kept", nocache, event.Usage{InputTokens: 1_000_000, CacheWriteInputTokens: 1_000_000}, 2, "price of p/m"},
		{"long and kept", long, event.Usage{InputTokens: 2000, CacheWriteInputTokens: 2000}, 0.01, "row (long input)"},
		{"more cached than sent", priced, event.Usage{InputTokens: 1_000_000, CachedInputTokens: 9_000_000}, 0.5, "config p/m"},
		{"no price for cached", nocache, event.Usage{InputTokens: 1_000_000, CachedInputTokens: 1_000_000}, 2, "price of p/m"},
		{"reasoning is part of the output", priced, event.Usage{OutputTokens: 100_000, ReasoningTokens: 90_000}, 1, "config p/m"},
		{"at the edge of long", long, event.Usage{InputTokens: 1000}, 0.002, "row"},
		{"long", long, event.Usage{InputTokens: 1001, CachedInputTokens: 1, OutputTokens: 1000}, 0.004 + 0.000001 + 0.02, "row (long input)"},
		{"nonsense", priced, event.Usage{InputTokens: -5, OutputTokens: -5, CachedInputTokens: -5}, 0, "config p/m"},
	} {
		usd, basis := model.Cost(c.info, c.usage)
		if usd == nil || math.Abs(*usd-c.usd) > 1e-9 || basis != c.basis {
			t.Errorf("%s: %v %q, want %v %q", c.name, usd, basis, c.usd, c.basis)
		}
	}
	if usd, basis := model.Cost(model.Info{Provider: "p", Model: "m"}, event.Usage{InputTokens: 1}); usd != nil || basis != "no price is known for p/m" {
		t.Errorf("without a price: %v %q", usd, basis)
	}
}

// Anthropic takes a quarter more for input that it keeps, which its adapter asks for with every
// request.
func TestBuiltinPricesOfKeptInput(t *testing.T) {
	for _, vendor := range []string{"openai", "anthropic", "gemini"} {
		for _, i := range model.Builtin(vendor) {
			want := i.Price.InputPerMTok
			if vendor == "anthropic" {
				want *= 1.25
			}
			usd, _ := model.Cost(i, event.Usage{InputTokens: 1000, CacheWriteInputTokens: 1000})
			if usd == nil || math.Abs(*usd-want/1000) > 1e-9 {
				t.Errorf("%s %s: %v for input that costs %v", vendor, i.Model, usd, want)
			}
		}
	}
}

func TestCostFacts(t *testing.T) {
	priced := model.Info{Provider: "p", Model: "m", Price: &model.Price{Rates: model.Rates{InputPerMTok: 2, OutputPerMTok: 10}, Row: "row"}}
	est := model.CostEstimated(priced, "req_1", 1000, 100)
	if *est.CostUSD != 0.003 || est.Basis != "row" || est.Currency != "USD" || est.InputTokens != 1000 {
		t.Errorf("%+v", est)
	}
	checkPayload(t, event.TypeCostEstimated, est)
	rec := model.CostRecorded(priced, "req_1", event.Usage{InputTokens: 1000}, true, 1)
	if *rec.CostUSD != 0.002 || rec.SessionCostUSD != 1.002 || rec.Basis != "row, usage estimated" {
		t.Errorf("%+v", rec)
	}
	checkPayload(t, event.TypeCostRecorded, rec)
	rec = model.CostRecorded(model.Info{Provider: "p", Model: "m"}, "req_1", event.Usage{InputTokens: 1000}, false, 1)
	if rec.CostUSD != nil || rec.SessionCostUSD != 1 {
		t.Errorf("%+v", rec)
	}
	checkPayload(t, event.TypeCostRecorded, rec)
}

func TestExpectedOutput(t *testing.T) {
	for _, c := range []struct {
		modelMax, asked, tokens, answers, want int64
	}{
		{0, 0, 0, 0, 1000},
		{500, 0, 0, 0, 500},
		{500, 200, 0, 0, 200},
		{0, 0, 900, 3, 300},
		{0, 0, 0, 3, 1},
		{100, 0, 900, 3, 100},
	} {
		if got := model.ExpectedOutput(model.Info{MaxOutputTokens: c.modelMax}, c.asked, event.Usage{OutputTokens: c.tokens}, c.answers); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestBudget(t *testing.T) {
	b := model.Budget{SessionCostUSD: 5}
	for _, c := range []struct {
		used   float64
		status string
		left   float64
	}{
		{0, "ok", 5},
		{3.99, "ok", 1.01},
		{4, "low", 1},
		{4.99, "low", 0.01},
		{5, "blocked", 0},
		{7, "blocked", 0},
	} {
		s := b.Standing(c.used, 0)
		if s.Status != c.status || math.Abs(s.Remaining-c.left) > 1e-9 {
			t.Errorf("%v: %+v", c.used, s)
		}
	}
	if s := (model.Budget{SessionCostUSD: 5, LowAt: 0.5}).Standing(2.5, 0); s.Status != "low" {
		t.Errorf("LowAt is not kept: %+v", s)
	}
	if s := (model.Budget{}).Standing(1e9, 0); s.Status != "not_applicable" {
		t.Errorf("without a budget: %+v", s)
	}
}

func TestBudgetTellsEachChangeOnce(t *testing.T) {
	b := model.Budget{SessionCostUSD: 5}
	ok, low, spent := b.Standing(1, 0), b.Standing(4.5, 2), b.Standing(5, 0)
	for _, c := range []struct {
		before, after model.BudgetStanding
		want          event.Type
	}{
		{ok, ok, ""},
		{ok, low, event.TypeQuotaLow},
		{low, low, ""},
		{low, spent, event.TypeQuotaBlocked},
		{ok, spent, event.TypeQuotaBlocked},
		{spent, spent, ""},
		{spent, ok, ""},
		{model.BudgetStanding{}, low, event.TypeQuotaLow},
	} {
		typ, p := c.after.Event(c.before, "req_1")
		if typ != c.want || (p == nil) != (c.want == "") {
			t.Errorf("%s to %s: %q", c.before.Status, c.after.Status, typ)
		}
	}
	_, p := low.Event(ok, "req_1")
	if *p.Limit != 5 || *p.Used != 4.5 || *p.Remaining != 0.5 || p.Unit != "USD" || p.QuotaName != model.QuotaBudget ||
		p.Reason != "4.5000 of 5.0000 USD are spent, and 2 requests have no known price" {
		t.Errorf("%+v", p)
	}
	checkPayload(t, event.TypeQuotaLow, p)
	checkPayload(t, event.TypeQuotaBlocked, spent.Blocked(""))
}

func TestBudgetProperties(t *testing.T) {
	rank := map[string]int{"ok": 0, "low": 1, "blocked": 2}
	rapid.Check(t, func(t *rapid.T) {
		b := model.Budget{SessionCostUSD: rapid.Float64Range(0.01, 100).Draw(t, "limit"), LowAt: rapid.Float64Range(0, 1).Draw(t, "low")}
		x := rapid.Float64Range(0, 200).Draw(t, "x")
		y := x + rapid.Float64Range(0, 50).Draw(t, "more")
		if rank[b.Standing(x, 0).Status] > rank[b.Standing(y, 0).Status] {
			t.Fatal("spending more made it better")
		}
	})
}

func TestQuotaTold(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *model.Standing
		unit string
	}{
		{"nothing said", nil, ""},
		{"unknown", &model.Standing{RequestsLeft: -1, RequestsLimit: -1, TokensLeft: -1, TokensLimit: -1}, ""},
		{"plenty", &model.Standing{RequestsLeft: 10, RequestsLimit: 100, TokensLeft: 50, TokensLimit: 100}, ""},
		{"few requests", &model.Standing{RequestsLeft: 9, RequestsLimit: 100, TokensLeft: -1, TokensLimit: -1}, "requests"},
		{"no tokens", &model.Standing{RequestsLeft: -1, RequestsLimit: -1, TokensLeft: 0, TokensLimit: 100}, "tokens"},
		{"left of unknown", &model.Standing{RequestsLeft: 0, RequestsLimit: -1, TokensLeft: -1, TokensLimit: -1}, ""},
	} {
		q := model.QuotaTold("p", "req_1", c.s)
		if (q == nil) != (c.unit == "") || q != nil && (q.Unit != c.unit || q.Provider != "p" || *q.Used != *q.Limit-*q.Remaining) {
			t.Errorf("%s: %+v", c.name, q)
		}
		if q != nil {
			checkPayload(t, event.TypeQuotaLow, q)
		}
	}
}
