package command

// ListModels lists the models that turns can be routed to.
type ListModels struct {
	Page
	// Query keeps the models whose id contains it; upper and lower case are the same.
	Query string `json:"query,omitempty" max:"1000"`
	// Provider keeps the models of a provider.
	Provider string `json:"provider,omitempty" max:"256"`
	// Capabilities keeps the models that have all of them.
	Capabilities []string `json:"capabilities,omitempty" max:"32"`
	// Status keeps the models that can be used, or those that lack a credential.
	Status string `json:"status,omitempty" enum:"@modelStatus"`
	// Sort is what the models are ordered by; default id. A price that isn't known counts
	// as the lowest.
	Sort string `json:"sort,omitempty" enum:"id price context"`
	// Order is asc or desc; default asc for ids, and desc for the rest.
	Order string `json:"order,omitempty" enum:"@sortOrder"`
}

// Command implements [Params].
func (*ListModels) Command() Name             { return "list_models" }
func (*ListModels) returns(*ListModelsResult) {}

// Validate implements [Params].
func (p *ListModels) Validate() error { return check(p) }

// ListModelsResult is a page of models.
type ListModelsResult struct {
	// Models of this page.
	Models []ModelRecord `json:"models"`
	// Total counts the models that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ModelRecord is a model that turns can be routed to.
type ModelRecord struct {
	// ModelID names the model among all providers: the model of a turn's options.
	ModelID string `json:"modelId"`
	// Provider of the model.
	Provider string `json:"provider"`
	// Model is the provider's name of it.
	Model string `json:"model"`
	// Default says that turns which name no model are routed to it first.
	Default bool `json:"default,omitempty"`
	// FallbackRank is its place, from 1, among the models that are tried when another
	// one fails; absent if it isn't one of them.
	FallbackRank int64 `json:"fallbackRank,omitempty"`
	// Status is ready, or no_credential if the key that it needs isn't there.
	Status string `json:"status" enum:"@modelStatus"`
	// CredentialHint says how to give the key that is missing.
	CredentialHint string `json:"credentialHint,omitempty"`
	// Capabilities that the model has.
	Capabilities []string `json:"capabilities"`
	// ContextWindow is how many tokens a request and its answer may have together; absent
	// if it isn't known.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// MaxOutputTokens is how many tokens an answer may have; absent if it isn't known.
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty"`
	// Price is what tokens cost; absent if it isn't known.
	Price *ModelPrice `json:"price,omitempty"`
}

// ModelPrice is what a million tokens of a model cost, in US dollars.
type ModelPrice struct {
	// InputPerMTok is for the input.
	InputPerMTok float64 `json:"inputPerMTok"`
	// OutputPerMTok is for the output.
	OutputPerMTok float64 `json:"outputPerMTok"`
	// CachedInputPerMTok is for the part of the input that the provider had kept; absent
	// without a discount.
	CachedInputPerMTok float64 `json:"cachedInputPerMTok,omitempty"`
	// CacheWriteInputPerMTok is for the part of the input that the provider keeps for later
	// requests; absent if it costs what other input does.
	CacheWriteInputPerMTok float64 `json:"cacheWriteInputPerMTok,omitempty"`
}
