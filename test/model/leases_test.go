package model_test

const (
	maxNodes, maxTicks, maxPrograms = 2, 3, 3

	// Where the leases and the rows of most scenes are, and the database beside it.
	here, there = 0, 1
)

// record is what a store has of a node. Version 0 means that there is none.
type record struct {
	owner, until, version int8
	moved                 bool // its layout says that the leases were moved to another store
}

// database may have a table of leases with its mark, the notes beside it, and rows.
type database struct {
	mark     int8 // the identity that lies in the table of leases; 0 if it is not there or was emptied
	records  [maxNodes]record
	leases   int8                     // the note of the identity of the table of leases; 0 for none
	rows     int8                     // the note of where the IDs of the rows come from; 0 for none
	keys     [maxNodes][maxTicks]int8 // the makers of the rows, by their keys; 0 for no row
	readOnly bool
}

// phase is what the keeper of a process does next.
type phase int8

const (
	stopped  phase = iota
	opening        // looks for the mark
	making         // has found none, and reads the note of the identity
	marking        // inserts the mark
	naming         // reads the note of the identity, and compares
	naming2        // inserts it
	claiming       // reads the note of the rows, and compares; or inserts it
	listing        // reads all records, to take a free number
	swapping       // sends a swap
	looking        // reads all records again, after a swap
	idle           // has a number
	refused        // was told why it gets none
)

// noted is how far the note of the rows is.
type noted int8

const (
	unread    noted = iota
	unwritten       // was read, and there is none
	later           // cannot be written, because the database is read-only
	same            // tells the identity of this process
	another         // tells another one, or the database is a copy: no row gets an ID
)

// swap is a change of a record that a process wants, and by whom.
type swap struct {
	prev, next record
	node, from int8
	by         int8
	extends    bool
}

// process is a program that runs, or ran. It leases from one database and writes rows into one.
type process struct {
	at     phase
	note   noted
	starts int8
	knows  int8 // the identity of its store
	wants  swap
	// answered means that the swap was. hollow means that the store had lost its identity, and swapped all the same.
	answered, hollow bool
	node, from       int8
	holds            record // version 0 for none
	sent             record // an extension that was not answered
	// running means that it has had a number. compared means that its database was looked at for a copy.
	running, compared bool
	wrote             bool // its record, since the database was copied
	asks, met         int8 // the key for whose row it will ask, or that it has met last, counted from 1
	contested         bool
}

// faults are how often something may happen.
type faults struct {
	lost, late, twice                                                     int8 // answers, requests, rows of a proxy
	crash, stop, empty, remove, forget, backup, restore, wild, copy, move int8
}

type leaseState struct {
	now, ends int8 // ends is when the last window ends
	db        [2]database
	backup    database
	p         [maxPrograms]process
	late      swap // is still under way
	marks     int8 // how many identities were made
	emptied   int8 // the identity of a store that was emptied, until an operator has acted
	moved     int8 // how far a move is
	left      faults
	harmed    bool // something was done to a database
	outside   bool // it was something that is outside of the guarantee
	wasCopied bool
}

// The clauses.
const (
	resting   = "Without faults, everybody comes to rest."
	oneRow    = "A row keeps its key to itself."
	oneMaker  = "No two processes make one ID for the rows of a database."
	grants    = "A store that was emptied or replaced grants nothing to who knows its identity."
	noting    = "Nobody makes an ID for rows whose database does not note the identity of his store."
	copies    = "Nobody fills a copy that is older than his last swap."
	strangers = "A witness is the row of somebody else."
	leaving   = "Who has met two rows of somebody else takes another number, if one is free."
	waiting   = "Without faults, somebody gets a number, unless an operator has to act."
)

// program is what a process is started with: the database in which it leases, and the one whose rows it fills.
type program struct{ leases, rows int8 }

// scene is what happens in a search.
type scene struct {
	programs           []program
	nodes, ticks, span int8
	starts             int8 // of a process
	faults             faults
	readOnly           bool // the rows lie in a database that cannot be written to at first
	inUse              bool // the first program has noted its leases
}

// mechanism is what can be taken away.
type mechanism int8

const (
	nothing mechanism = iota
	markIsSoughtAgain
	firstComparesMark
	listComparesMark
	noteIsCompared
	noteIsReadAgain
	rowsWaitForNote
	copyIsSought
	copyIsSoughtByVersion
	extensionComparesVersion
	silenceIsNoGrant
	keyIsJudge
	ownRowIsNoWitness
	contestLeaves
	firstListsAgain
	moveDrains
	moveRaises
	operatorWaits
)

// leaseWorld is the world of the leases and the notes.
type leaseWorld struct {
	scene
	without mechanism
	out     []step[leaseState]
}

func (w *leaseWorld) start() leaseState {
	s := leaseState{left: w.faults}
	for _, p := range w.programs {
		s.db[p.rows].readOnly = w.readOnly
	}
	if w.inUse {
		s.marks = 1
		s.db[w.programs[0].leases].mark, s.db[w.programs[0].leases].leases = 1, 1
		s.db[w.programs[0].rows].rows = 1
	}
	return s
}

// steps lists what can happen next, in the order of the life of a process.
func (w *leaseWorld) steps(s leaseState) []step[leaseState] {
	w.out = w.out[:0]
	for i := range w.programs {
		w.open(s, i)
		w.claim(s, i)
		w.take(s, i)
		w.keep(s, i)
		w.write(s, i)
	}
	w.operate(s)
	if s.late.by > 0 {
		w.add(s, "the network", "delivers the late request of", name(int(s.late.by-1)), chance,
			func(n *leaseState) string {
				w.apply(n, s.late)
				n.late = swap{}
				return ""
			})
	}
	if s.now+w.span < w.ticks {
		w.add(s, "time", "passes", "", chance, func(n *leaseState) string { n.now++; return "" })
	}
	return w.out
}

func name(i int) string { return [...]string{"P1", "P2", "P3"}[i] }

// add adds a step.
func (w *leaseWorld) add(
	s leaseState, who, does, about string, k kind, do func(*leaseState) (breaks string),
) {
	breaks := do(&s)
	w.out = append(w.out, step[leaseState]{s, who, does, about, k, breaks})
}

// does adds a step of a process.
func (w *leaseWorld) does(
	s leaseState, i int, does, about string, k kind,
	do func(p *process, store, rows *database, n *leaseState) (breaks string),
) {
	w.add(s, name(i), does, about, k, func(n *leaseState) string {
		return do(&n.p[i], &n.db[w.programs[i].leases], &n.db[w.programs[i].rows], n)
	})
}

// open starts a process, which finds or makes the table of leases, its mark, and the note of its identity.
func (w *leaseWorld) open(s leaseState, i int) {
	store := s.db[w.programs[i].leases]
	switch p := s.p[i]; p.at {
	case stopped, refused:
		if p.starts < w.starts {
			k := chance
			if p.starts == 0 {
				k = progress
			}
			w.does(s, i, "starts", "", k, func(p *process, _, _ *database, _ *leaseState) string {
				*p = process{at: opening, starts: p.starts + 1, wrote: s.wasCopied}
				return ""
			})
		}
	case opening:
		w.does(s, i, "looks for the mark", "", progress, func(p *process, _, _ *database, _ *leaseState) string {
			p.knows, p.at = store.mark, naming
			if store.mark == 0 {
				p.at = making
			}
			return ""
		})
	case making:
		w.does(s, i, "finds none, and reads the note of the leases", "", progress,
			func(p *process, _, _ *database, _ *leaseState) string {
				p.knows, p.at = store.leases, marking
				return ""
			})
	case marking:
		// A table that lacks its mark, and that is noted, gets it back only if it has records.
		w.does(s, i, "inserts the mark, if there may be one", "", progress,
			func(p *process, store, _ *database, n *leaseState) string {
				p.at = opening
				switch {
				case store.mark != 0 && (w.without != markIsSoughtAgain || p.knows == 0):
					// Somebody was faster.
				case p.knows != 0 && store.records == [maxNodes]record{}:
					p.at = refused
				case p.knows != 0:
					store.mark = p.knows
				default:
					n.marks++
					store.mark = n.marks
				}
				return ""
			})
	case naming:
		w.does(s, i, "compares the note of the leases", "", progress,
			func(p *process, _, _ *database, _ *leaseState) string {
				switch store.leases {
				case 0:
					p.at = naming2
				case p.knows:
					p.at = claiming
				default:
					p.at = refused
				}
				return ""
			})
	case naming2:
		w.does(s, i, "notes the leases, unless they are noted", "", progress,
			func(p *process, store, _ *database, _ *leaseState) string {
				if p.at = naming; store.leases == 0 {
					store.leases = p.knows
				}
				return ""
			})
	}
}

// claim notes where the IDs of the rows come from, and compares it. In a database that is read-only this is left
// to the first row.
func (w *leaseWorld) claim(s leaseState, i int) {
	p := s.p[i]
	if p.at != claiming && !p.running {
		return
	}
	// goesOn takes a number when the note is settled.
	goesOn := func(p *process, note noted) {
		p.note = note
		switch {
		case p.running:
		case note == another:
			p.at = refused
		case note == same || note == later:
			p.at = listing
		}
	}
	switch p.note {
	case later:
		if !s.db[w.programs[i].rows].readOnly {
			w.does(s, i, "wants to note the rows now", "", progress,
				func(p *process, _, _ *database, _ *leaseState) string {
					p.note = unread
					return ""
				})
		}
	case unread:
		w.does(s, i, "compares the note of the rows", "", progress,
			func(p *process, _, rows *database, _ *leaseState) string {
				switch {
				case rows.rows == 0:
					goesOn(p, unwritten)
				case rows.rows == p.knows || w.without == noteIsCompared:
					goesOn(p, same)
				default:
					goesOn(p, another)
				}
				return ""
			})
	case unwritten:
		w.does(s, i, "notes the rows, unless they are noted", "", progress,
			func(p *process, _, rows *database, _ *leaseState) string {
				switch {
				case rows.readOnly:
					goesOn(p, later)
					return ""
				case rows.rows == 0:
					rows.rows = p.knows
				}
				if goesOn(p, unread); w.without == noteIsReadAgain {
					goesOn(p, same)
				}
				return ""
			})
	case same:
		if !p.compared && p.holds.version > 0 {
			w.does(s, i, "looks whether the database is a copy", "", progress, w.seekCopy)
		}
	}
}

// seekCopy compares the record that a process has with the one in the database of its rows, if the same leases
// seem to lie there.
func (w *leaseWorld) seekCopy(p *process, store, rows *database, n *leaseState) string {
	own, theirs := store.records[p.node], rows.records[p.node]
	p.compared = true
	switch {
	case store == rows || rows.leases != p.knows || w.without == copyIsSought:
	case theirs.owner != own.owner, theirs.version < own.version && w.without != copyIsSoughtByVersion:
		p.note = another
		return ""
	}
	if n.wasCopied && p.wrote && store != rows {
		return copies
	}
	return ""
}

// take takes a number: it lists the records, swaps a free one, and lists them again if nobody had the number
// before, or if the swap was not answered.
func (w *leaseWorld) take(s leaseState, i int) {
	store := s.db[w.programs[i].leases]
	p := s.p[i]
	switch p.at {
	case listing:
		if !w.readable(store, p) {
			if !p.running {
				w.does(s, i, "finds a store that was emptied or replaced or moved", "", progress,
					func(p *process, _, _ *database, _ *leaseState) string {
						p.at = refused
						return ""
					})
			}
			return
		}
		free := false
		for node := range w.nodes {
			prev := store.records[node]
			if prev.until > s.now || prev.version > 0 && p.holds.version > 0 && node == p.node {
				continue
			}
			free = true
			w.does(s, i, "lists the records, and wants", nodeName(node), progress,
				func(p *process, _, _ *database, _ *leaseState) string {
					p.at, p.answered, p.hollow = swapping, false, false
					next := record{owner: maker(i, p), until: s.now + w.span, version: prev.version + 1}
					p.wants = swap{prev, next, node, max(prev.until, s.now), int8(i + 1), false}
					return ""
				})
		}
		if !free && p.holds.version > 0 {
			w.does(s, i, "finds no other number, and keeps its own", "", progress,
				func(p *process, _, _ *database, _ *leaseState) string {
					p.at, p.contested = idle, false
					return ""
				})
		}
	case swapping:
		w.send(s, i)
	case looking:
		if !w.readable(store, p) && p.wants.extends {
			return // it tries again
		}
		w.does(s, i, "lists the records again", "", progress, w.look)
	}
}

// maker is the owner of the records of a process, and the maker of its rows.
func maker(i int, p *process) int8 { return int8(i) + 1 + maxPrograms*(p.starts-1) }

// readable tells whether a process can list the records of its store.
func (w *leaseWorld) readable(store database, p process) bool {
	moved := false
	for _, r := range store.records {
		moved = moved || r.moved
	}
	return !moved && (store.mark == p.knows || w.without == listComparesMark)
}

// send sends a swap. It is answered, or its answer is lost, or it is under way for long.
func (w *leaseWorld) send(s leaseState, i int) {
	wants := s.p[i].wants
	about := nodeName(wants.node)
	unanswered := func(p *process) {
		if p.at = looking; wants.extends {
			p.sent = wants.next
		}
	}
	w.does(s, i, "swaps the record of", about, progress, func(p *process, _, _ *database, n *leaseState) string {
		ok := w.apply(n, wants)
		switch p.answered = ok; {
		case ok && (wants.extends || wants.prev.version > 0 || w.without == firstListsAgain):
			return w.hold(p, wants.next)
		case !ok && !wants.extends:
			p.at = listing
		default:
			p.at = looking
		}
		return ""
	})
	if s.left.lost > 0 {
		w.does(s, i, "swaps without an answer the record of", about, chance,
			func(p *process, _, _ *database, n *leaseState) string {
				n.left.lost--
				w.apply(n, wants)
				unanswered(p)
				return ""
			})
	}
	if s.left.late > 0 {
		w.does(s, i, "gives up a request that will be late, for", about, chance,
			func(p *process, _, _ *database, n *leaseState) string {
				n.left.late--
				n.late = wants
				unanswered(p)
				return ""
			})
	}
}

// apply is what the store does with a swap: it compares and changes a record with one statement.
func (w *leaseWorld) apply(n *leaseState, m swap) bool {
	db, p := &n.db[w.programs[m.by-1].leases], &n.p[m.by-1]
	stored := &db.records[m.node]
	switch {
	case m.prev.version == 0:
		if stored.version != 0 || db.mark != p.knows && w.without != firstComparesMark {
			return false
		}
	case stored.owner != m.prev.owner || stored.version == 0:
		return false
	case stored.version != m.prev.version && (!m.extends || w.without != extensionComparesVersion):
		return false
	}
	p.hollow = db.mark != p.knows || n.emptied == p.knows
	*stored = m.next
	p.wrote = n.wasCopied
	n.ends = max(n.ends, m.next.until)
	return true
}

// hold makes the wanted record, as it is stored, that of the process.
func (w *leaseWorld) hold(p *process, stored record) string {
	if !p.wants.extends {
		if p.running && p.node != p.wants.node {
			p.contested = false
		}
		p.node, p.from = p.wants.node, p.wants.from
	}
	p.at, p.holds, p.sent, p.running = idle, stored, record{}, true
	if p.hollow {
		return grants
	}
	return ""
}

// look finds out what a process has. A number that was never taken before is given back if the store has lost its
// identity or was moved meanwhile.
func (w *leaseWorld) look(p *process, store, _ *database, _ *leaseState) string {
	stored := &store.records[p.wants.node]
	readable := w.readable(*store, *p)
	switch {
	case p.wants.extends:
		if *stored == p.holds || *stored == p.sent || w.without == silenceIsNoGrant {
			if w.without == silenceIsNoGrant {
				return w.hold(p, p.wants.next)
			}
			return w.hold(p, *stored)
		}
		p.holds, p.sent, p.at = record{}, record{}, listing // it has lost its number
	case readable && (p.answered || *stored == p.wants.next) || w.without == silenceIsNoGrant:
		return w.hold(p, p.wants.next)
	default:
		if *stored == p.wants.next {
			*stored = record{until: p.wants.from, version: stored.version + 1}
		}
		if p.at = listing; !readable && !p.running {
			p.at = refused
		}
	}
	return ""
}

// keep extends the window of a process, and leaves a number that is contested.
func (w *leaseWorld) keep(s leaseState, i int) {
	p, store := s.p[i], s.db[w.programs[i].leases]
	if p.at != idle {
		return
	}
	if p.contested && w.without != contestLeaves && w.readable(store, p) {
		w.does(s, i, "leaves a number that is contested", "", progress,
			func(p *process, _, _ *database, _ *leaseState) string {
				p.at = listing
				return ""
			})
	}
	if until := s.now + w.span; until > p.holds.until {
		k := chance
		if p.holds.until <= s.now {
			k = progress
		}
		w.does(s, i, "wants to extend its window of", nodeName(p.node), k,
			func(p *process, _, _ *database, _ *leaseState) string {
				next := record{owner: p.holds.owner, until: until, version: p.holds.version + 1}
				p.at, p.answered, p.hollow = swapping, false, false
				p.wants = swap{p.holds, next, p.node, p.from, int8(i + 1), true}
				return ""
			})
	}
}

// ready tells whether a process makes IDs for rows.
func (w *leaseWorld) ready(p process) bool {
	return p.running && (p.note == same && p.compared || p.note == later && w.without == rowsWaitForNote)
}

// write inserts rows, and asks for the row that has refused a key.
func (w *leaseWorld) write(s leaseState, i int) {
	p := s.p[i]
	if p.asks > 0 {
		w.does(s, i, "asks for the row of", keyName(p.asks-1), progress, w.ask(i))
		return
	}
	if !w.ready(p) || p.holds.version == 0 {
		return
	}
	for tick := p.from; tick < min(p.holds.until, w.ticks); tick++ {
		key := p.node*maxTicks + tick
		row := s.db[w.programs[i].rows].keys[p.node][tick]
		if row == maker(i, &p) && s.left.twice == 0 {
			continue
		}
		w.does(s, i, "inserts a row of", keyName(key), chance,
			func(p *process, _, rows *database, n *leaseState) string {
				row := &rows.keys[p.node][tick]
				switch me := maker(i, p); {
				case rows.rows != p.knows && !n.outside && n.moved != 3:
					return noting
				case *row == 0:
					*row = me
				case *row == me: // a proxy has sent it twice
					n.left.twice--
					p.asks = key + 1
				case !n.outside:
					return oneMaker
				case w.without == keyIsJudge:
					return oneRow
				default:
					p.asks = key + 1
				}
				return ""
			})
	}
}

// ask is the question of a process whose row was of somebody else, or its own.
func (w *leaseWorld) ask(i int) func(p *process, _, rows *database, _ *leaseState) string {
	return func(p *process, _, rows *database, _ *leaseState) string {
		key := p.asks
		row := rows.keys[(key-1)/maxTicks][(key-1)%maxTicks]
		p.asks = 0
		switch {
		case row == 0, row == maker(i, p) && w.without != ownRowIsNoWitness:
			return ""
		case row == maker(i, p):
			return strangers
		}
		if p.met != 0 && p.met != key && (p.met-1)/maxTicks == (key-1)/maxTicks && (key-1)/maxTicks == p.node {
			p.contested = true
		}
		p.met = key
		return ""
	}
}

func nodeName(node int8) string { return [...]string{"node 0", "node 1"}[node] }

func keyName(key int8) string {
	return [...]string{
		"node 0, tick 0", "node 0, tick 1", "node 0, tick 2", "node 1, tick 0", "node 1, tick 1", "node 1, tick 2",
	}[key]
}

// operate is what happens to processes and databases. What the documents ask for is done when all programs are
// stopped and their windows have ended.
func (w *leaseWorld) operate(s leaseState) {
	act := func(may bool, does string, do func(n *leaseState, db *database)) {
		if may {
			w.add(s, "the operator", does, "", chance, func(n *leaseState) string {
				n.harmed = true
				do(n, &n.db[here])
				return ""
			})
		}
	}
	left, mark, allStopped := s.left, s.db[here].mark, true
	for i := range w.programs {
		if s.p[i].at == stopped {
			continue
		}
		allStopped = false
		if left.crash > 0 {
			w.does(s, i, "dies", "", chance, func(p *process, _, _ *database, n *leaseState) string {
				*p = process{starts: p.starts}
				n.left.crash--
				return ""
			})
		}
	}
	act(left.stop > 0 && !allStopped, "stops all programs", func(n *leaseState, _ *database) {
		n.left.stop--
		for i := range n.p {
			n.p[i] = process{starts: n.p[i].starts}
		}
	})
	quiet := allStopped && (s.ends <= s.now || w.without == operatorWaits)
	act(left.empty > 0 && mark != 0, "empties the leases", func(n *leaseState, db *database) {
		n.left.empty--
		n.emptied, db.mark, db.records = mark, 0, [maxNodes]record{}
	})
	act(quiet && s.emptied != 0 && mark == 0, "inserts the mark, as the error says", func(n *leaseState, db *database) {
		db.mark, n.emptied = s.emptied, 0
	})
	act(quiet && left.remove > 0, "removes leases and notes", func(n *leaseState, db *database) {
		n.left.remove--
		n.emptied, *db = 0, database{keys: db.keys}
	})
	act(left.forget > 0 && mark != 0, "removes leases and notes under running programs", func(n *leaseState, db *database) {
		n.left.forget--
		n.emptied, n.outside, *db = mark, true, database{keys: db.keys}
	})
	act(left.forget > 0, "removes the notes under running programs", func(n *leaseState, db *database) {
		n.left.forget--
		n.outside, db.leases, db.rows = true, 0, 0
	})
	act(left.backup > 0, "makes a backup", func(n *leaseState, db *database) {
		n.left.backup--
		n.backup = *db
	})
	made := w.faults.backup > 0 && left.backup == 0
	act(quiet && made && left.restore > 0, "restores the backup", func(n *leaseState, db *database) {
		n.left.restore--
		*db = n.backup
	})
	act(made && left.wild > 0, "restores the backup under running programs", func(n *leaseState, db *database) {
		n.left.wild--
		n.outside, n.emptied, *db = true, 0, n.backup
	})
	act(left.copy > 0, "copies the database over the other one", func(n *leaseState, db *database) {
		n.left.copy--
		n.outside, n.wasCopied, n.db[there] = true, true, *db
		for i := range n.p {
			n.p[i].wrote = false
		}
	})
	for i := range s.db {
		if s.db[i].readOnly {
			w.add(s, "the database", "can be written to again", "", progress, func(n *leaseState) string {
				n.db[i].readOnly = false
				return ""
			})
		}
	}
	w.move(s, act)
}

// move moves the rows of the first database to the leases of the second one.
func (w *leaseWorld) move(s leaseState, act func(bool, string, func(*leaseState, *database))) {
	records := s.db[here].records
	drained := records[0].moved || records[1].moved
	for node, r := range records {
		if drained = drained && r.moved == (r.version > 0); r.version == 0 || r.moved {
			continue
		}
		act(s.moved == 1 && w.without != moveDrains, "drains the record of "+nodeName(int8(node)),
			func(_ *leaseState, db *database) {
				db.records[node] = record{until: r.until, version: r.version + 1, moved: true}
			})
	}
	act(s.left.move > 0 && s.db[here].rows != 0, "begins to move", func(n *leaseState, _ *database) {
		n.left.move, n.moved = 0, 1
		if to := &n.db[there]; to.mark == 0 {
			n.marks++
			to.mark, to.leases = n.marks, n.marks
		}
	})
	act(s.moved == 1 && records == [maxNodes]record{}, "makes a first record that was moved",
		func(_ *leaseState, db *database) { db.records[0] = record{version: 1, moved: true} })
	act(s.moved == 1 && (drained || w.without == moveDrains), "raises the new records",
		func(n *leaseState, _ *database) {
			n.moved = 2
			for node, r := range records {
				to := &n.db[there].records[node]
				if to.until < r.until && w.without != moveRaises {
					*to = record{until: r.until, version: to.version + 1}
				}
			}
		})
	act(s.moved == 2, "changes the note of the rows", func(n *leaseState, db *database) {
		n.moved, db.rows = 3, n.db[there].mark
	})
}

// patience lets time pass for those who wait for a number while nobody has one, and starts a program if none runs.
func (w *leaseWorld) patience(s leaseState) (step[leaseState], bool) {
	running, waiting := false, false
	for i := range w.programs {
		p := s.p[i]
		if p.at == idle && p.holds.until > s.now {
			return step[leaseState]{}, false
		}
		running = running || p.at != stopped
		waiting = waiting || p.at == listing && w.readable(s.db[w.programs[i].leases], p)
	}
	w.out = w.out[:0]
	switch {
	case waiting:
		w.add(s, "time", "passes", "", progress, func(n *leaseState) string { n.now++; return "" })
	case !running:
		w.does(s, 0, "is started once more", "", progress, func(p *process, _, _ *database, _ *leaseState) string {
			p.at, p.starts = opening, p.starts+1
			return ""
		})
	default:
		return step[leaseState]{}, false
	}
	return w.out[0], true
}

func (w *leaseWorld) verdict(s leaseState) string {
	going, stands, oneStore := false, false, true
	for i, program := range w.programs {
		p, store := s.p[i], s.db[program.leases]
		oneStore = oneStore && program.leases == w.programs[0].leases
		stands = stands || p.at == refused
		if p.at != idle {
			continue
		}
		going = going || p.holds.until > s.now
		for node := range w.nodes {
			if p.contested && node != p.node && w.readable(store, p) && store.records[node].until <= s.now {
				return leaving
			}
		}
	}
	if (!going || stands) && !s.harmed && oneStore {
		return waiting
	}
	return ""
}
