package verify

import (
	"context"
	"fmt"
	"strconv"
)

// listedServers compares which server is where by the list of the merge.
func listedServers(ctx context.Context, v *verifier) {
	stored := map[string]string{}
	for _, row := range v.target.texts(ctx, "SELECT number, name, merged_into, target FROM "+listOfServers) {
		stored[row[0]] = fmt.Sprintf("%s in %s, %s", row[1], row[2], row[3])
	}
	wrong, numbers := 0, 0
	for _, s := range v.plan.Servers {
		place := fmt.Sprintf("%s in %d, %s", s.Name, v.plan.Target.Number, v.plan.Target.Name)
		for _, number := range s.Numbers {
			if numbers++; stored[strconv.FormatInt(number, 10)] != place {
				wrong++
			}
		}
	}
	v.none("lists", listOfServers, "servers that are not where it says", int64(wrong))
	v.compare("lists", listOfServers, "", "servers", strconv.Itoa(numbers), strconv.Itoa(len(stored)))
}

// listedOffsets compares what was added to the keys of a table with where the keys are.
func listedOffsets(ctx context.Context, j *job) {
	if j.plan.Renumber && !j.moves {
		return
	}
	j.v.list(ctx, listOfOffsets, "server, added", j.name, func(row []string) {
		if s := j.side(j.v.position(row[0])); s != nil && (s.counts || !j.moves) { // or it has no row
			j.v.compare("lists", j.name, s.d.Name, "added to the keys, by "+listOfOffsets,
				strconv.FormatInt(s.added, 10), row[1])
		}
	})
}

// listedCopies compares how many rows of a table were read. Tables of PostgreSQL that inherit from another
// one are read with it here, and the merge has copied them by themselves.
func listedCopies(ctx context.Context, j *job) {
	t := j.v.target
	if t.kind == postgres && t.text(ctx, "SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent "+
		"WHERE c.relkind = 'r' AND c.oid = to_regclass($1::text) LIMIT 1", t.kind.quote(j.name)) != "" {
		return
	}
	j.v.list(ctx, listOfCopies, "server, rows_read, done, step", j.name, func(row []string) {
		switch s := j.side(j.v.position(row[0])); {
		case row[3] != "copy":
		case s == nil:
			j.v.compare("lists", j.name, "", "a server in "+listOfCopies, "", row[0])
		default:
			j.v.compare("lists", j.name, s.d.Name, "rows that were read, and 1 for the end, by "+listOfCopies,
				fmt.Sprintf("%d 1", s.read), row[1]+" "+row[2])
		}
	})
}
