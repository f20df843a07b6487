package merge

import (
	"maps"
	"slices"
)

// sortTables puts parents before children. Tables that refer to each other in a circle stand side by side;
// among them only the references that cannot be NULL decide. The result depends on names and references
// alone, so that it is the same in every run.
func sortTables(works map[string]*work) (order []*work, stuck [][]string) {
	g := &graph{works: works, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(works)) {
		if _, seen := g.index[name]; !seen {
			g.visit(name)
		}
	}
	for _, group := range g.groups {
		names, ok := sortCircle(works, group)
		if !ok {
			stuck = append(stuck, names)
		}
		for _, name := range names {
			order = append(order, works[name])
		}
	}
	return order, stuck
}

// graph finds the circles: the strongly connected components, by Tarjan's algorithm, which hands them
// out parents first.
type graph struct {
	works      map[string]*work
	index, low map[string]int
	on         map[string]bool
	stack      []string
	groups     [][]string
}

func (g *graph) visit(name string) {
	g.index[name] = len(g.index)
	g.low[name] = g.index[name]
	g.stack = append(g.stack, name)
	g.on[name] = true
	for _, ref := range g.works[name].refs {
		parent := ref.parent
		if g.works[parent] == nil {
			continue
		}
		if _, seen := g.index[parent]; !seen {
			g.visit(parent)
			g.low[name] = min(g.low[name], g.low[parent])
		} else if g.on[parent] {
			g.low[name] = min(g.low[name], g.index[parent])
		}
	}
	if g.low[name] != g.index[name] {
		return
	}
	var group []string
	for {
		last := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		g.on[last] = false
		group = append(group, last)
		if last == name {
			break
		}
	}
	slices.Sort(group)
	g.groups = append(g.groups, group)
}

// sortCircle orders the tables of a circle, marks the references that have to wait until all rows are
// there, and tells whether that is possible.
func sortCircle(works map[string]*work, group []string) ([]string, bool) {
	waits := map[string][]string{} // the parents that a table cannot do without
	possible := true
	for _, name := range group {
		w := works[name]
		for i := range w.refs {
			ref := &w.refs[i]
			if !slices.Contains(group, ref.parent) {
				continue
			}
			w.circular = append(w.circular, *ref)
			switch {
			case !ref.enforced || w.nullable(*ref) != "":
			case ref.parent == name:
				possible = false
			default:
				waits[name] = append(waits[name], ref.parent)
			}
		}
	}
	var order []string
	for len(order) < len(group) {
		next := slices.IndexFunc(group, func(name string) bool {
			return !slices.Contains(order, name) && !slices.ContainsFunc(waits[name], func(parent string) bool {
				return !slices.Contains(order, parent)
			})
		})
		if next < 0 {
			return group, false
		}
		order = append(order, group[next])
	}
	return order, possible
}
