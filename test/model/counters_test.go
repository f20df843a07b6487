package model_test

// counterStore is a table of counters with its mark, and one counter in it.
type counterStore struct {
	mark     int8 // the identity that lies in the table; 0 if it is not there or was emptied
	identity int8 // of the store that made the counter
	next     int8 // the first number that was not claimed; 0 if there is no counter
}

const maxNumber = 8

// column has numbers of a counter, which a unique index keeps apart, and the notes of where they come from.
type column struct {
	modulus int8
	stores  [2]int8         // the identities, by their remainders
	makers  [maxNumber]int8 // of the rows, by their numbers; 0 for no row
}

// greatest returns the greatest number that a row has.
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
	unstarted  turn = iota
	opens           // looks for the mark, and makes one if there is none
	reads           // reads the notes of its column, and compares
	notes           // inserts its notes
	claims          // claims a block
	creates         // makes the counter, because there is none
	uses            // has a block
	asks            // asks for the greatest number, because a number was refused
	wentBack        // stands, because the counter is not above what it knows to be claimed
	turnedAway      // its column has numbers of another store
)

// source takes the numbers of a counter for a column.
type source struct {
	at           turn
	knows        int8 // the identity of its store
	above        int8 // the greatest number that it knows to be claimed
	first, width int8 // its block
	asked        int8 // the greatest number of the column, after a refusal that was not made up for; or 0
}

type counterState struct {
	stores   [2]counterStore
	columns  [2]column
	s        [maxPrograms]source
	backup   counterStore
	marks    int8
	lost     int8 // what may still go wrong: answers
	empty    int8
	restore  int8
	copies   int8
	harmed   bool
	backedUp bool
}

// The clauses of counters.
const (
	oneNumber  = "No number is given twice."
	oneCounter = "A counter that was emptied or replaced gives nothing to who knows its identity."
	oneStore   = "The numbers of a column come from one store, or have other remainders."
	goingOn    = "Whose number was refused goes on above all numbers of the column, or stands."
)

// counting is a program with a source: where its counter is, and what column it is for.
type counting struct{ store, column, remainder, modulus int8 }

// counterScene is what happens in a search.
type counterScene struct {
	programs             []counting
	lost, empty, restore int8
	copies               int8
	width                int8
}

type counterMechanism int8

const (
	none counterMechanism = iota
	claimComparesAbove
	claimComparesIdentity
	firstClaimComparesMark
	columnIsCompared
	modulusIsCompared
	refusalGivesBlockUp
	refusalAsks
)

// counterWorld is the world of counters.
type counterWorld struct {
	counterScene
	without counterMechanism
	out     []step[counterState]
}

func (w *counterWorld) start() counterState {
	return counterState{lost: w.lost, empty: w.empty, restore: w.restore, copies: w.copies}
}

func (w *counterWorld) add(s counterState, who, does string, k kind, do func(*counterState) (breaks string)) {
	breaks := do(&s)
	w.out = append(w.out, step[counterState]{s, who, does, "", k, breaks})
}

// steps lists what can happen next, in the order of the life of a source.
func (w *counterWorld) steps(s counterState) []step[counterState] {
	w.out = w.out[:0]
	for i := range w.programs {
		does := func(does string, k kind, do func(p *source, store *counterStore, c *column, n *counterState) string) {
			w.add(s, name(i), does, k, func(n *counterState) string {
				return do(&n.s[i], &n.stores[w.programs[i].store], &n.columns[w.programs[i].column], n)
			})
		}
		switch s.s[i].at {
		case unstarted:
			does("starts", progress, func(p *source, _ *counterStore, _ *column, _ *counterState) string {
				p.at = opens
				return ""
			})
		case opens:
			does("looks for the mark, or makes it", progress,
				func(p *source, store *counterStore, _ *column, n *counterState) string {
					if store.mark == 0 {
						n.marks++
						store.mark = n.marks
					}
					p.knows, p.at = store.mark, reads
					return ""
				})
		case reads:
			does("compares the notes of the column", progress, w.compare(i))
		case notes:
			does("notes its modulus and its remainder, unless that is noted", progress, w.note(i))
		case claims:
			w.claim(s, i, does)
		case creates:
			does("makes the counter", progress, w.create(i))
		case uses:
			does("inserts a row with its next number", chance, w.insert(i))
		case asks:
			does("asks for the greatest number", progress,
				func(p *source, _ *counterStore, c *column, _ *counterState) string {
					p.at, p.asked = claims, c.greatest()
					if w.without != refusalAsks {
						p.above = max(p.above, p.asked)
					}
					return ""
				})
		case wentBack:
			if store := s.stores[w.programs[i].store]; store.identity == s.s[i].knows && store.next > s.s[i].above {
				does("tries once more", progress, func(p *source, _ *counterStore, _ *column, _ *counterState) string {
					p.at = claims
					return ""
				})
			}
		}
	}
	w.operate(s)
	return w.out
}

type counterStep = func(p *source, store *counterStore, c *column, n *counterState) (breaks string)

// compare compares the notes of a column. The modulus is one row, and each remainder another one.
func (w *counterWorld) compare(i int) counterStep {
	program := w.programs[i]
	return func(p *source, _ *counterStore, c *column, _ *counterState) string {
		modulus, store := c.modulus, c.stores[program.remainder]
		switch {
		case modulus != 0 && modulus != program.modulus && w.without != modulusIsCompared,
			store != 0 && store != p.knows && w.without != columnIsCompared:
			p.at = turnedAway
		case modulus == 0 || store == 0:
			p.at = notes
		default:
			p.at = claims
		}
		return ""
	}
}

// note inserts the first note of a column that is missing.
func (w *counterWorld) note(i int) counterStep {
	program := w.programs[i]
	return func(p *source, _ *counterStore, c *column, _ *counterState) string {
		switch p.at = reads; {
		case c.modulus == 0:
			c.modulus = program.modulus
		case c.stores[program.remainder] == 0 && (c.modulus == program.modulus || w.without == modulusIsCompared):
			c.stores[program.remainder] = p.knows
		}
		return ""
	}
}

// claim is one statement of the store.
func (w *counterWorld) claim(s counterState, i int, does func(string, kind, counterStep)) {
	program, p, store := w.programs[i], s.s[i], s.stores[w.programs[i].store]
	width := w.width * program.modulus
	is := store.identity == p.knows || w.without == claimComparesIdentity
	switch {
	case store.next == 0:
		does("finds no counter", progress, func(p *source, _ *counterStore, _ *column, _ *counterState) string {
			p.at = creates
			return ""
		})
		return
	case !is || store.next <= p.above && w.without != claimComparesAbove:
		does("is told that the counter went back", progress,
			func(p *source, _ *counterStore, _ *column, _ *counterState) string {
				p.at = wentBack
				return ""
			})
		return
	case store.next+width > maxNumber:
		return
	}
	does("claims a block", progress, func(p *source, store *counterStore, _ *column, _ *counterState) string {
		first := store.next
		store.next += width
		return w.got(p, program, first, store.identity)
	})
	if s.lost > 0 {
		does("claims a block, and the answer is lost", chance,
			func(_ *source, store *counterStore, _ *column, n *counterState) string {
				store.next += width
				n.lost--
				return ""
			})
	}
}

// got gives a source the numbers of a claim that have its remainder.
func (w *counterWorld) got(p *source, program counting, first, identity int8) string {
	last := first + w.width*program.modulus - 1
	p.at, p.first, p.above = uses, first, last
	for p.first%program.modulus != program.remainder {
		p.first++
	}
	p.width = w.width
	if identity != p.knows {
		return oneCounter
	}
	if p.asked > 0 && p.first <= p.asked {
		return goingOn
	}
	p.asked = 0
	return ""
}

// create makes the counter if the table has its mark, and claims its first block.
func (w *counterWorld) create(i int) counterStep {
	program := w.programs[i]
	return func(p *source, store *counterStore, _ *column, _ *counterState) string {
		switch {
		case store.next != 0:
			p.at = claims
		case store.mark != p.knows && w.without != firstClaimComparesMark, p.above > 0 && w.without != claimComparesAbove:
			p.at = wentBack
		default:
			forgotten := store.mark != p.knows
			store.identity, store.next = p.knows, 1+w.width*program.modulus
			if broken := w.got(p, program, 1, store.identity); broken != "" || !forgotten {
				return broken
			}
			return oneCounter
		}
		return ""
	}
}

// insert uses a number. If the unique index refuses it, the source gives its block up.
func (w *counterWorld) insert(i int) counterStep {
	program := w.programs[i]
	return func(p *source, _ *counterStore, c *column, n *counterState) string {
		if c.stores[program.remainder] != p.knows || c.modulus != program.modulus {
			return oneStore
		}
		row := &c.makers[p.first]
		if *row == 0 {
			*row = int8(i + 1)
			p.first += program.modulus
			if p.width--; p.width == 0 {
				p.at = claims
			}
			return ""
		}
		if !n.harmed {
			return oneNumber
		}
		if p.asked > 0 {
			return goingOn
		}
		if p.at = asks; w.without == refusalGivesBlockUp {
			p.asked, p.at = c.greatest(), uses
			p.first += program.modulus
			if p.width--; p.width == 0 {
				p.at = asks
			}
		}
		return ""
	}
}

// operate is what happens to the first store.
func (w *counterWorld) operate(s counterState) {
	act := func(may bool, does string, do func(n *counterState, store *counterStore)) {
		if may {
			w.add(s, "the operator", does, chance, func(n *counterState) string {
				do(n, &n.stores[here])
				return ""
			})
		}
	}
	act(s.empty > 0 && s.stores[here].mark != 0, "empties the counters", func(n *counterState, store *counterStore) {
		n.empty--
		n.harmed, *store = true, counterStore{}
	})
	act(s.restore > 0 && !s.backedUp, "makes a backup", func(n *counterState, store *counterStore) {
		n.backedUp, n.backup = true, *store
	})
	act(s.restore > 0 && s.backedUp, "restores the backup of the counters", func(n *counterState, store *counterStore) {
		n.restore--
		n.harmed, *store = true, n.backup
	})
	act(s.copies > 0, "copies the counters over the other ones", func(n *counterState, store *counterStore) {
		n.copies--
		n.harmed, n.stores[there] = true, *store
	})
}

// patience is what the operator does for a source that stands: he gives the store its mark back, and raises the
// counter above all numbers that are used or known.
func (w *counterWorld) patience(s counterState) (step[counterState], bool) {
	for i, p := range s.s[:len(w.programs)] {
		if mark := s.stores[w.programs[i].store].mark; p.at != wentBack || mark != 0 && mark != p.knows {
			continue // he is well, or has to be started again
		}
		w.out = w.out[:0]
		w.add(s, "the operator", "raises the counter", progress, func(n *counterState) string {
			greatest := p.above
			for _, c := range n.columns {
				greatest = max(greatest, c.greatest())
			}
			n.stores[w.programs[i].store] = counterStore{p.knows, p.knows, greatest + 1}
			return ""
		})
		return w.out[0], true
	}
	return step[counterState]{}, false
}

func (w *counterWorld) verdict(counterState) string { return "" }
