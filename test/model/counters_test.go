package model_test

const maxNumber = 8

// The clauses of counters.
const (
	oneNumber  = "No number is given twice."
	oneCounter = "A counter that was emptied or replaced gives nothing to those who know its identity."
	oneStore   = "The numbers of a column come from one store, or have other remainders."
	frozen     = "What somebody has found to be claimed, in a counter that went back, is claimed by nobody else."
	above      = "Nobody claims a number twice, and whose number was refused uses no other one of that claim."
)

// counterMechanism is what can be taken away.
type counterMechanism int8

const (
	none                   counterMechanism = iota
	counterIsMadeOnce                       // by the primary key
	claimComparesAbove                      // what the source knows to be claimed
	claimComparesIdentity                   // that of the row of the counter
	firstClaimComparesMark                  // that of the table
	columnIsCompared                        // the store that is noted
	modulusIsCompared                       // that is noted
	columnIsReadAgain                       // after it was noted
	refusalGivesBlockUp                     // what is left of it
	standingLooksAgain                      // whether the counter was raised
	refusalFreezes                          // the counter that went back, for those who do not know that
	claimComparesFrozen                     // whether the counter is frozen
	counterMechanisms                       // how many there are, and one
)

// counterTable is a table of counters with its mark, and one counter in it.
type counterTable struct {
	mark     int8 // the identity that lies in the table; 0 if that is not there or was emptied
	identity int8 // of the store that made the counter
	next     int8 // the first number that was not claimed; 0 if there is no counter
	frozen   int8 // the greatest number that is known to be claimed, if the counter went back; 0 otherwise
}

// column has numbers, which a unique index keeps apart, and the notes of where they come from.
type column struct {
	modulus int8
	stores  [2]int8         // the identities, by their remainders
	makers  [maxNumber]int8 // of the rows, by their numbers; 0 for no row
}

// greatest returns the greatest number that a row has, for the operator.
func (c column) greatest() (greatest int8) {
	for n, maker := range c.makers {
		if maker != 0 {
			greatest = int8(n)
		}
	}
	return greatest
}

// turn is what a source does next.
type turn int8

const (
	waits      turn = iota
	opens           // looks for the mark, and makes it if there is none
	reads           // reads the notes of its column, and compares
	notes           // inserts a note that is missing
	claims          // claims a block
	creates         // makes the counter, because there is none
	uses            // has a block
	freezes         // the counter, because it went back
	stands          // is not served until the counter is above what it knows
	turnedAway      // its column has numbers of another store
)

// source takes numbers for a column.
type source struct {
	at         turn
	knows      int8 // the identity of its store
	above      int8 // the greatest number that it knows to be claimed
	next, left int8 // what is left of its block
	doubted    int8 // the greatest number that it had claimed when one was refused
}

type counterState struct {
	tables               [2]counterTable
	columns              [2]column
	s                    [maxPrograms]source
	backup               counterTable
	marks                int8
	lost, empty, restore int8 // what may still happen: answers that are lost, and acts of the operator
	saved, harmed        bool
	found                [2]int8 // the greatest claimed number of a counter that somebody found to have gone back
}

// counting is a program with a source: where its counter is, for which column, and which numbers it takes.
type counting struct{ table, column, remainder, modulus int8 }

// counterWorld is the world of counters.
type counterWorld struct {
	programs                    []counting
	lost, empty, restore, width int8
	without                     counterMechanism

	s   counterState
	v   counterView
	out []step[counterState]
}

// counterView is the state after a step, while it is being made, as the source sees it that takes the step.
type counterView struct {
	s *counterState
	*source
	program counting
	table   *counterTable
	column  *column
	breaks  string
}

func (w *counterWorld) start() counterState {
	return counterState{lost: w.lost, empty: w.empty, restore: w.restore}
}

func (w *counterWorld) add(i int, who, does string, k kind, do func(*counterView)) {
	w.out = append(w.out, step[counterState]{w.s, who, does, "", k, ""})
	made, p := &w.out[len(w.out)-1], w.programs[i]
	n := &made.next
	w.v = counterView{n, &n.s[i], p, &n.tables[p.table], &n.columns[p.column], ""}
	do(&w.v)
	made.breaks = w.v.breaks
}

// steps lists what can happen next, in the order of the life of a source.
func (w *counterWorld) steps(s counterState) []step[counterState] {
	w.s, w.out = s, w.out[:0]
	for i, program := range w.programs {
		p, table := s.s[i], s.tables[program.table]
		does := func(does string, do func(*counterView)) { w.add(i, name(i), does, progress, do) }
		switch p.at {
		case waits:
			does("starts", func(v *counterView) { v.at = opens })
		case opens:
			does("looks for the mark, or makes it", func(v *counterView) {
				if v.table.mark == 0 {
					v.s.marks++
					v.table.mark = v.s.marks
				}
				v.knows, v.at = v.table.mark, reads
			})
		case reads:
			does("compares the notes of the column", w.compare)
		case notes:
			does("notes its modulus or its remainder, unless that is noted", w.note)
		case claims:
			w.claim(i, p, table)
		case creates:
			does("makes the counter", w.create)
		case uses:
			w.add(i, name(i), "inserts a row with its next number", chance, w.insert)
		case freezes:
			does("freezes the counter", w.freeze)
		case stands:
			if table.identity == p.knows && table.next > p.above && table.frozen == 0 && w.without != standingLooksAgain {
				does("tries once more", func(v *counterView) { v.at = claims })
			}
		}
	}
	w.operate()
	return w.out
}

// compare compares the notes of a column. The modulus is one row, and each remainder is another one.
func (w *counterWorld) compare(v *counterView) {
	modulus, store := v.column.modulus, v.column.stores[v.program.remainder]
	switch {
	case modulus != 0 && modulus != v.program.modulus && w.without != modulusIsCompared,
		store != 0 && store != v.knows && w.without != columnIsCompared:
		v.at = turnedAway
	case modulus == 0 || store == 0:
		v.at = notes
	default:
		v.at = claims
	}
}

// note inserts the first note that is missing.
func (w *counterWorld) note(v *counterView) {
	store := &v.column.stores[v.program.remainder]
	switch v.at = reads; {
	case v.column.modulus == 0:
		v.column.modulus = v.program.modulus
	case *store == 0 && (v.column.modulus == v.program.modulus || w.without == modulusIsCompared):
		*store = v.knows
	case w.without == columnIsReadAgain:
		v.at = claims
	}
}

// claim is one statement of the store.
func (w *counterWorld) claim(i int, p source, table counterTable) {
	width := w.width * w.programs[i].modulus
	switch {
	case table.next == 0:
		w.add(i, name(i), "finds no counter", progress, func(v *counterView) { v.at = creates })
	case table.frozen != 0 && w.without != claimComparesFrozen:
		w.add(i, name(i), "is told that the counter is frozen", progress, func(v *counterView) {
			if v.at = stands; p.above > table.frozen {
				v.at = freezes // and notes the greater number
			}
		})
	case table.identity != p.knows && w.without != claimComparesIdentity,
		table.next <= p.above && w.without != claimComparesAbove:
		w.add(i, name(i), "is told that the counter went back", progress, func(v *counterView) { v.at = freezes })
	case table.next+width <= maxNumber:
		w.add(i, name(i), "claims a block", progress, func(v *counterView) {
			v.table.next += width
			w.got(v, table.next, table.identity)
		})
		if w.s.lost > 0 {
			w.add(i, name(i), "claims a block, and the answer is lost", chance, func(v *counterView) {
				v.table.next += width
				v.s.lost--
			})
		}
	}
}

// got gives a source the numbers of a claim that have its remainder.
func (w *counterWorld) got(v *counterView, first, identity int8) {
	known := v.above
	v.at, v.next, v.left, v.above = uses, first, w.width, first+w.width*v.program.modulus-1
	for v.next%v.program.modulus != v.program.remainder {
		v.next++
	}
	switch {
	case identity != v.knows:
		v.breaks = oneCounter
	case first <= known:
		v.breaks = above
	case first <= v.s.found[v.program.table]:
		v.breaks = frozen
	}
}

// freeze lets nobody claim from a counter that went back. A counter of another store is left alone, and one
// that is not there is made. Whoever knows that much waits for the operator.
func (w *counterWorld) freeze(v *counterView) {
	v.at = stands
	if v.table.mark != v.knows || v.table.next != 0 && v.table.identity != v.knows {
		return
	}
	found := &v.s.found[v.program.table]
	*found = max(*found, v.above)
	if w.without != refusalFreezes {
		v.table.identity, v.table.next = v.knows, max(v.table.next, 1)
		v.table.frozen = max(v.table.frozen, v.above)
	}
}

// create makes the counter if the table has its mark, and claims its first block.
func (w *counterWorld) create(v *counterView) {
	mark := v.table.mark
	switch {
	case v.table.next != 0 && w.without != counterIsMadeOnce:
		v.at = claims
	case mark != v.knows && w.without != firstClaimComparesMark, v.above > 0 && w.without != claimComparesAbove:
		v.at = freezes
	default:
		v.table.identity, v.table.next = v.knows, 1+w.width*v.program.modulus
		w.got(v, 1, mark)
	}
}

// insert uses a number. If the unique index refuses it, the source gives up its block.
func (w *counterWorld) insert(v *counterView) {
	row := &v.column.makers[v.next]
	switch {
	case v.column.stores[v.program.remainder] != v.knows || v.column.modulus != v.program.modulus:
		v.breaks = oneStore
		return
	case v.next <= v.doubted:
		v.breaks = above
		return
	case *row == 0:
		*row = 1
	case !v.s.harmed:
		v.breaks = oneNumber
		return
	default:
		v.doubted = v.above
		if w.without != refusalGivesBlockUp {
			v.at, v.next, v.left = claims, 0, 0
			return
		}
	}
	v.next += v.program.modulus
	if v.left--; v.left == 0 {
		v.at = claims
	}
}

// operate is what happens to the first table.
func (w *counterWorld) operate() {
	if w.s.empty > 0 && w.s.tables[here].mark != 0 {
		w.add(0, "the operator", "empties the counters", chance, func(v *counterView) {
			v.s.empty--
			v.s.harmed, v.s.found[here], v.s.tables[here] = true, 0, counterTable{}
		})
	}
	if w.s.restore > 0 && !w.s.saved {
		w.add(0, "the operator", "makes a backup", chance, func(v *counterView) {
			v.s.saved, v.s.backup = true, v.s.tables[here]
		})
	}
	if w.s.restore > 0 && w.s.saved {
		w.add(0, "the operator", "restores the backup of the counters", chance, func(v *counterView) {
			v.s.restore--
			v.s.harmed, v.s.found[here], v.s.tables[here] = true, 0, v.s.backup
		})
	}
}

// patience is what the operator does for a source that stands: he gives the table its mark back, and raises
// the counter above all numbers that are used or known.
func (w *counterWorld) patience(s counterState) (step[counterState], bool) {
	w.s, w.out = s, w.out[:0]
	for i, p := range s.s[:len(w.programs)] {
		// If the table has the mark of another store now, the program has to be started again.
		if mark := s.tables[w.programs[i].table].mark; p.at != stands || mark != 0 && mark != p.knows {
			continue
		}
		w.add(i, "the operator", "raises the counter", progress, func(v *counterView) {
			known := max(p.above, v.table.frozen, v.s.columns[0].greatest(), v.s.columns[1].greatest())
			*v.table = counterTable{p.knows, p.knows, known + 1, 0}
		})
		return w.out[0], true
	}
	return step[counterState]{}, false
}

func (w *counterWorld) verdict(counterState) string { return "" }
