package merge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// apply does to rows what was decided. Rows that are not copied are left out.
func (d *decisions) apply(ctx context.Context, f *feed, rows []row) ([]row, error) {
	of := tableServer{f.work.name, d.m.servers[f.server].Number}
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = keyText(r.key)
	}
	if d.drops[of] > 0 {
		gone := map[string]bool{}
		err := d.lookup(ctx, tableDrops, "keeper_key", of, clone(keys), func(key, _,
			_ string) {
			gone[key] = true
		})
		if err != nil {
			return nil, err
		}
		kept := rows[:0]
		keptKeys := keys[:0]
		for i, r := range rows {
			if !gone[keys[i]] {
				kept, keptKeys = append(kept, r), append(keptKeys, keys[i])
			}
		}
		rows, keys = kept, keptKeys
	}
	if err := d.redirect(ctx, f, rows); err != nil {
		return nil, err
	}
	if at := f.renamed(); at >= 0 && d.renames[of] > 0 {
		names := map[string]string{}
		err := d.lookup(ctx, tableRenames, "new_name", of, clone(keys), func(key, _,
			v string) {
			names[key] = v
		})
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			if name, ok := names[key]; ok {
				rows[i].values[at] = name
			}
		}
	}
	if d.values[of] > 0 {
		if err := d.setValues(ctx, f, of, rows, keys); err != nil {
			return nil, err
		}
	}
	if err := d.copyNames(ctx, f, rows); err != nil {
		return nil, err
	}
	d.m.renumber(f, rows)
	return d.custom(ctx, f, rows)
}

// renamed is the position of the column of names, or -1.
func (f *feed) renamed() int {
	if f.work.plan.Rename == nil {
		return -1
	}
	return f.at(f.work.plan.Rename.Column)
}

func clone(keys []string) []string { return append([]string(nil), keys...) }

func (d *decisions) setValues(ctx context.Context, f *feed, of tableServer, rows []row,
	keys []string) error {
	at := map[string][]int{}
	for i, key := range keys {
		at[key] = append(at[key], i)
	}
	var failure error
	err := d.lookup(ctx, tableValues, "value", of, clone(keys), func(key, name, value string) {
		position := f.at(name)
		if position < 0 {
			return
		}
		v, err := canonical(value, f.pairs[position].to, false)
		if err != nil {
			failure = err
		}
		for _, i := range at[key] {
			rows[i].values[position] = v
		}
	})
	if err != nil {
		return err
	}
	return failure
}

// redirect leads references to rows that became one with another to the one that stays.
func (d *decisions) redirect(ctx context.Context, f *feed, rows []row) error {
	number := d.m.servers[f.server].Number
	for _, ref := range f.work.refs {
		parent := tableServer{ref.parent, number}
		if d.moves[parent] == 0 || len(ref.columns) != 1 {
			continue
		}
		at := f.at(ref.columns[0])
		if at < 0 {
			continue
		}
		moved := map[string]string{}
		err := d.lookup(ctx, tableDrops, "keeper_key", parent, referred(rows, at), func(key, _,
			v string) {
			moved[key] = v
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.values[at] == nil {
				continue
			}
			if key, ok := moved[keyText([]any{r.values[at]})]; ok {
				if r.values[at], err = keyValue(key, f.pairs[at].to); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// referred returns the keys in a column.
func referred(rows []row, at int) []string {
	keys := make([]string, 0, len(rows))
	for _, r := range rows {
		if r.values[at] != nil {
			keys = append(keys, keyText([]any{r.values[at]}))
		}
	}
	return keys
}

// nameCopy is a column of a feed that repeats names of another table.
type nameCopy struct {
	NameCopy
	of string
}

// copiesInto lists the columns of a feed in which names have to change.
func (d *decisions) copiesInto(f *feed) []nameCopy {
	var all []nameCopy
	number := d.m.servers[f.server].Number
	for _, w := range d.m.order {
		if w.plan.Rename == nil || d.renames[tableServer{w.name, number}] == 0 {
			continue
		}
		for _, c := range w.plan.Rename.Copies {
			if c.Table == f.work.name && f.has(c.Column) && f.has(c.Ref) {
				all = append(all, nameCopy{NameCopy: c, of: w.name})
			}
		}
	}
	return all
}

func (d *decisions) copyNames(ctx context.Context, f *feed, rows []row) error {
	for _, c := range d.copiesInto(f) {
		ref, at := f.at(c.Ref), f.at(c.Column)
		names := map[string]string{}
		err := d.lookup(ctx, tableRenames, "new_name", tableServer{c.of, d.m.servers[f.server].Number},
			referred(rows, ref), func(key, _, v string) { names[key] = v })
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.values[ref] == nil {
				continue
			}
			if name, ok := names[keyText([]any{r.values[ref]})]; ok {
				r.values[at] = name
			}
		}
	}
	return nil
}

// custom hands rows to the function of the plan.
func (d *decisions) custom(ctx context.Context, f *feed, rows []row) ([]row, error) {
	if f.work.plan.Policy != Custom {
		return rows, nil
	}
	fn := d.m.funcs[f.work.plan.Func]
	if fn == nil {
		return nil, fmt.Errorf("%w: table %s: no function %q is registered: use WithFunc", ErrPlan, f.work.name,
			f.work.plan.Func)
	}
	kept := rows[:0]
	for _, r := range rows {
		keep, err := fn(ctx, &Row{server: d.m.servers[f.server].Server, feed: f, values: r.values})
		if err != nil {
			return nil, fmt.Errorf("%w: %s: table %s, row %s: function %s: %w", ErrRow,
				d.m.servers[f.server].Name, f.work.name, keyText(r.key), f.work.plan.Func, err)
		}
		if keep {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// keyParts takes apart what keyText wrote.
func keyParts(text string) ([]string, error) {
	if !strings.HasPrefix(text, "[") {
		return []string{text}, nil
	}
	var parts []string
	err := json.Unmarshal([]byte(text), &parts)
	return parts, err
}
