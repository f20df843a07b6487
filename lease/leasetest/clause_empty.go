package leasetest

func emptyStore() clause {
	return clause{
		name: "a new storage has no records",
		why: "A storage on which nothing was ever swapped is empty, and that is no error: the first keeper " +
			"of all begins there. Tables, keys and directories are the store's own affair.",
		check: func(p *probe) {
			for _, s := range p.handles(2) {
				if records := p.list(s); len(records) != 0 {
					p.failf("List returned %d records, want none: %+v", len(records), records)
				}
			}
		},
	}
}
