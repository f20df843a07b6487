package merge

import (
	"maps"
	"slices"
)

// circle are tables that refer to each other in a circle, or one that refers to itself, in the order in which
// they are copied. If it is stuck, no order keeps references that cannot be NULL.
type circle struct {
	tables []*tableJob
	stuck  bool
}

// sortTables orders parents before children. Tables that refer to each other in a circle follow each other;
// their order depends only on the references that cannot be NULL. The result depends on names and references
// alone, so every run has the same order.
func sortTables(jobs map[string]*tableJob) (order []*tableJob, circles []circle) {
	g := &graph{jobs: jobs, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		if _, seen := g.index[name]; !seen {
			g.visit(name)
		}
	}
	for _, group := range g.groups {
		names, ok := sortCircle(jobs, group)
		for _, name := range names {
			order = append(order, jobs[name])
		}
		if last := order[len(order)-len(names):]; len(last[0].circular) > 0 {
			circles = append(circles, circle{slices.Clone(last), !ok})
		}
	}
	return order, circles
}

// graph finds the circles, which are the strongly connected components. Tarjan's algorithm returns them with
// parents first.
type graph struct {
	jobs       map[string]*tableJob
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
	for _, ref := range g.jobs[name].refs {
		parent := ref.Parent
		if g.jobs[parent] == nil {
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

// sortCircle orders the tables of a circle and marks the references that must wait until all rows exist. It
// reports whether such an order exists.
func sortCircle(jobs map[string]*tableJob, group []string) ([]string, bool) {
	waits := map[string][]string{} // the parents that must be copied before a table
	possible := true
	for _, name := range group {
		j := jobs[name]
		for i := range j.refs {
			ref := &j.refs[i]
			if !slices.Contains(group, ref.Parent) {
				continue
			}
			j.circular = append(j.circular, *ref)
			switch {
			case !ref.Enforced || j.nullable(*ref) != "":
			case ref.Parent == name:
				possible = false
			default:
				waits[name] = append(waits[name], ref.Parent)
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
