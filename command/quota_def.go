package command

// quotaDefs are the catalogue's entries for quotas.
func quotaDefs() []Def {
	return []Def{
		{
			Name: "get_quotas", Noun: "quota", Form: formOf[GetQuotas, GetQuotasResult](),
			Scope: RoleObserver, Available: true, Since: "0.2",
			Means:   "Says how much of its quotas an account uses.",
			Doc:     "An admin sees every account, or the one it names; everyone else sees its own. storedBytes is the size of events and of the contents stored with them, counted as it is written: content that is stored twice counts twice. Where several nodes share a database, all quotas are of all nodes together; what another node began in the last second and a half may not be counted yet.",
			Example: `{"account":"acme"}`,
		},
	}
}
