package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func spanHint() clause {
	return clause{
		name: "a hint at the span is one for all and not negative",
		why: "SpanHint is the length of window that suits the system, or 0 for the default. It needs no " +
			"request and does not change, so that all processes use the same.",
		check: func(p *probe) {
			hints := make(map[string]bool)
			for _, s := range p.handles(3) {
				able, ok := s.(lease.SpanHinter)
				if !ok {
					p.t.Skipf("the store has no SpanHint, which it may leave out")
				}
				for range 3 {
					hint := able.SpanHint()
					if hint < 0 {
						p.failf("SpanHint returned %v", hint)
					}
					hints[hint.String()] = true
				}
			}
			if len(hints) != 1 {
				p.failf("SpanHint returned different spans: %v", hints)
			}
		},
	}
}
