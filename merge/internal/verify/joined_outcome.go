package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

func (n *joiner) outcome(id sum) (o outcome, ok bool, err error) {
	text, ok, err := n.state.get(id)
	if err == nil && ok {
		err = json.Unmarshal([]byte(text), &o)
	}
	return o, ok, err
}

func (n *joiner) keep(id sum, o outcome) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return n.state.set(id, string(text))
}

// first finds whose rows those of the target are, and adds up totals.
func (n *joiner) first(_ context.Context, row *joinedRow) error {
	for _, h := range row.found {
		o, known, err := n.outcome(h.id)
		if err != nil {
			return err
		}
		mine := h.sum == row.sum
		switch {
		case n.j.plan.Policy == policySum:
			if !known {
				o = outcome{Owner: row.server, Sum: string(fmt.Appendf(nil, "%x", row.sum))}
			}
			n.add(&o, row)
		case !known && mine:
			o = outcome{Owner: row.server, Sum: string(fmt.Appendf(nil, "%x", row.sum)), By: n.by(row)}
		default:
			continue
		}
		if err := n.keep(h.id, o); err != nil {
			return err
		}
	}
	return nil
}

func (n *joiner) by(row *joinedRow) string {
	at := n.at(n.j.plan.By)
	if at < 0 || row.values[at] == nil {
		return ""
	}
	return string(n.forms[at].append(nil, row.values[at])[5:])
}

// add adds a row to the totals of a row of the target.
func (n *joiner) add(o *outcome, row *joinedRow) {
	p := n.j.plan
	if o.Totals == nil {
		o.Totals, o.Least, o.Most = make(
			[]string,
			len(p.Sum),
		), make(
			[]*string,
			len(p.Min),
		), make(
			[]*string,
			len(p.Max),
		)
	}
	for i, name := range p.Sum {
		v := row.values[n.at(name)]
		more, ok := new(big.Rat).SetString(plainNumber(textOf(v)))
		if v == nil || !ok {
			continue
		}
		if before, ok := new(big.Rat).SetString(o.Totals[i]); ok {
			more.Add(more, before)
		}
		o.Totals[i] = more.RatString()
	}
	for i, list := range [][]string{p.Min, p.Max} {
		kept := [][]*string{o.Least, o.Most}[i]
		for at, name := range list {
			v := row.values[n.at(name)]
			if v == nil {
				continue
			}
			text := string(n.forms[n.at(name)].append(nil, v)[5:])
			if kept[at] == nil || (compareTexts(text, *kept[at]) < 0) == (i == 0) {
				kept[at] = &text
			}
		}
	}
}

// second checks that each row is there or has become a row that comes before it, and notes where
// references to it have to lead.
func (n *joiner) second(ctx context.Context, row *joinedRow) error {
	var stays []heldRow
	for _, h := range row.found {
		o, known, err := n.outcome(h.id)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		own := o.Owner == row.server && h.sum == row.sum
		if own || n.comesFirst(o, row) {
			stays = append(stays, h)
		}
		if own {
			stays = []heldRow{h}
			break
		}
	}
	if len(stays) != 1 {
		listed, err := n.listed(ctx, row)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(
			stays,
			func(h heldRow) bool { return listed != nil && h.key == listed.key },
		); i >= 0 {
			stays = stays[i : i+1]
		} else if len(stays) == 0 &&
			listed != nil {
			stays = []heldRow{*listed}
		}
	}
	if len(stays) == 0 {
		if n.lost++; n.example == "" {
			n.example = fmt.Sprintf("%s: row %s", n.v.plan.Servers[row.server].Name, row.key)
		}
		return nil
	}
	return n.move(row, stays[0])
}

// third compares the references of rows to rows of their own table. Only now it is known where all of these
// are.
func (n *joiner) third(_ context.Context, row *joinedRow) error {
	for _, h := range row.found {
		o, known, err := n.outcome(h.id)
		if err != nil {
			return err
		}
		if !known || o.Leads || o.Owner != row.server || h.sum != row.sum {
			continue
		}
		o.Leads = !slices.ContainsFunc(n.own, func(at int) bool {
			f := n.forms[at]
			return !bytes.Equal(f.append(nil, row.values[at]), f.append(nil, h.values[at]))
		})
		if err := n.keep(h.id, o); err != nil {
			return err
		}
	}
	return nil
}

// comesFirst reports whether the row that stayed is the one that the policy keeps.
func (n *joiner) comesFirst(o outcome, row *joinedRow) bool {
	if n.j.plan.Policy == policyNewest {
		by := n.by(row)
		return by == "" || o.By != "" && compareTexts(o.By, by) >= 0
	}
	return o.Owner <= row.server
}

// listed finds the row that the list of drops names for a row that is not equal to any row of the target.
// Such a row was equal to one that itself became another. It counts only if there is such a row.
func (n *joiner) listed(ctx context.Context, row *joinedRow) (*heldRow, error) {
	if len(n.keys) < 2 {
		return nil, nil
	}
	k := n.v.target.kind
	rows, err := n.v.target.texts(
		ctx,
		"SELECT keeper_server, keeper_key FROM "+k.quote(listOfDrops)+" WHERE tbl = "+
			k.placeholder(1)+" AND server = "+k.placeholder(2)+" AND row_key = "+k.placeholder(3),
		n.j.name,
		n.v.plan.Servers[row.server].Number,
		row.key,
	)
	if err != nil || len(rows) == 0 || len(n.j.to.primary) != 1 {
		return nil, err
	}
	primary := n.columns[n.at(n.j.to.primary[0])]
	key := keyValue(rows[0][1])
	value := k.placeholder(1)
	if k == postgres {
		value = "CAST(" + value + " AS " + primary.declared + ")"
	}
	list := make([]string, len(n.columns))
	for i, c := range n.columns {
		list[i] = n.v.target.expression("k", c)
	}
	var found *heldRow
	err = n.v.target.each(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+k.quote(n.j.name)+" AS k WHERE k."+
		k.quote(primary.name)+" = "+value, []any{bindable(k, primary, key)}, func(values []any) error {
		h := n.held(values)
		found = &h
		return nil
	})
	return found, err
}

// move notes what children of the row hold in the target.
func (n *joiner) move(row *joinedRow, to heldRow) error {
	for _, targets := range n.targets {
		n.buffer = n.buffer[:0]
		now := make([][]byte, len(targets))
		complete := true
		for i, name := range targets {
			at := n.at(name)
			if at < 0 || row.before[at] == nil {
				complete = false
				break
			}
			n.buffer = form{class: n.columns[at].class, digits: -1}.append(n.buffer, row.before[at])
			now[i] = packed(to.values[at])
		}
		if !complete {
			continue
		}
		text, err := json.Marshal(now)
		if err != nil {
			return err
		}
		if err := n.j.moved.set(moveKey(row.server, targets, n.buffer), string(text)); err != nil {
			return err
		}
	}
	return nil
}
