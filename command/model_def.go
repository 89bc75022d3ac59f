package command

// modelDefs are the catalogue's entries for models.
func modelDefs() []Def {
	return []Def{
		{
			Name: "list_models", Noun: "model", Form: formOf[ListModels, ListModelsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists the models that turns can be routed to.",
			Doc:     "The list follows the configuration as it is now. It never holds a key; a model whose key is missing says how to give it.",
			Example: `{"capabilities":["tools"],"status":"ready"}`,
		},
	}
}
