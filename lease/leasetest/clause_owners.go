package leasetest

import (
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func owners() clause {
	return clause{
		name: "owners are kept as they are given",
		why: "An owner is up to 255 bytes of printable text in UTF-8 that neither begins nor ends with a " +
			"space; it is empty after a release. Quotes, percent signs and backslashes are text like any other.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			texts := []string{
				`O'Brien's "host" pid 17 since 2026-01-02T03:04:05Z #0123456789abcdef`,
				`100% of %s, %[1]d; _ * ? $1 :name @p {{.}} ${x} <a&b>`,
				`C:\new\table\0 \' \\ -- /* no */ comment; # DROP TABLE nodes`,
				"Zürich, Ελλάδα, Москва, 東京, 🦊👩‍🚀, e\u0301 is not é",
				"tab separated? no: two  spaces, and/a:path,list|of=fields",
				`{"json": [1, null]}`, "null", "NULL", "nil", "0", "true", "{}", "[]", `""`,
				strings.Repeat("x", 255),
				strings.Repeat("東", 85),
			}
			var stored []lease.Record
			for i, text := range texts {
				stored = append(stored, p.create(s, first(int64(i), text)))
			}
			p.holds(other, stored...)
			for i, r := range stored { // and it can be found by that owner, for another
				stored[i] = p.swap(other, r, following(r, texts[(i+1)%len(texts)]))
			}
			p.holds(s, stored...)
			for i, r := range stored {
				stored[i] = p.swap(s, r, following(r, ""))
			}
			p.holds(other, stored...)
		},
	}
}
