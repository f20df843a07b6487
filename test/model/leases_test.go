package model_test

const (
	maxNodes, maxTicks, maxPrograms = 2, 3, 3

	here, there = 0, 1 // two databases
)

// The clauses of leases and notes.
const (
	oneRow    = "A row keeps its key to itself."
	oneMaker  = "No two processes make one ID for the rows of a database."
	granting  = "A store that was emptied or replaced grants nothing to those who know its identity."
	noting    = "Nobody makes an ID for a database that does not note the identity of his store."
	copying   = "Nobody makes an ID for a copy that is older than his last swap."
	strangers = "A witness is the row of somebody else."
	leaves    = "Who has met two rows of somebody else takes another number, if one is free."
	numbered  = "Without faults, somebody gets a number, and nobody is refused unless an operator has to act."
)

// mechanism is what can be taken away.
type mechanism int8

const (
	nothing                  mechanism = iota
	markIsSoughtAgain                  // before a store counts as emptied
	leasesAreNoted                     // beside their table
	firstComparesMark                  // the INSERT of the first record of a number
	firstWaits                         // for a transaction that empties the leases
	listComparesMark                   // who lists the records
	noteIsCompared                     // with the identity of the store
	noteIsReadAgain                    // after it was inserted
	rowsWaitForNote                    // where nothing can be written
	copyIsSought                       // by the record of the process
	copyIsSoughtByVersion              // and not by the owner alone
	extensionComparesVersion           // and not the owner alone
	silenceIsNoGrant                   // a swap without an answer
	closeSealsFirst                    // no ID follows
	keyIsJudge                         // no row is written over another
	ownRowIsNoWitness                  // which a proxy has sent twice
	contestedLeaves                    // its number
	firstListsAgain                    // who takes a number that nobody had before
	moveDrains                         // the old leases
	moveRaises                         // the new leases
	operatorWaits                      // until all windows have ended
	mechanisms                         // how many there are, and one
)

// record is what a store has of a node. Version 0 means that there is none.
type record struct {
	owner, until, version int8
	moved                 bool // its layout says that the leases are in another store now
}

// database may have a table of leases with its mark, the notes beside it, and rows.
type database struct {
	mark     int8 // the identity that lies in the table of leases; 0 if that is not there or was emptied
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
	renaming       // inserts it
	claiming       // sees to the note of the rows
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
	unwritten       // there is none
	later           // it cannot be written, because the database is read-only
	same            // it tells the identity of this process
	another         // it tells another one, or the database is a copy: no row gets an ID
)

// swap is a change of a record that a process wants.
type swap struct {
	prev, next record
	node, from int8
	by, knows  int8 // whose it is, counted from 1, where 0 is no swap; and the identity that he knows
	extends    bool
}

// process is a program that runs, or ran.
type process struct {
	at               phase
	note             noted
	starts           int8
	knows            int8 // the identity of its store
	wants            swap
	answered, hollow bool   // the swap was; and by a store that has lost its identity
	holds, sent      record // what it has, and an extension that was not answered
	node, from       int8   // of the window that it has
	running, sought  bool   // it has had a number; it has looked whether its database is a copy
	wrote            bool   // its record, since the database was copied
	asks, met        int8   // the key for whose row it asks, and that of its last witness, counted from 1
	contested        bool
}

// faults are how often something may happen.
type faults struct {
	lost, late, twice, crash, stop, close                int8 // answers, requests, rows, processes
	empty, remove, forget, backup, restore, wild, copies int8
	move                                                 int8
}

type leaseState struct {
	now, ends                  int8 // ends is when the last window ends
	db                         [2]database
	backup                     database
	p                          [maxPrograms]process
	late                       swap // is still under way
	marks                      int8 // how many identities were made
	emptied                    int8 // the identity of a store that was emptied, until an operator has acted
	moved                      int8 // how far a move is
	left                       faults
	harmed, outside, wasCopied bool // something was done to a database; it is outside of the guarantee
	emptying                   bool // a transaction empties the leases, and what it will remove is in backup
}

// program is what a process is started with: the database where it leases, and the one whose rows it makes.
type program struct{ leases, rows int8 }

// leaseWorld is the world of the leases and the notes.
type leaseWorld struct {
	programs                   []program
	nodes, ticks, span, starts int8
	faults                     faults
	readOnly                   bool // the databases of the rows cannot be written to at first
	inUse                      bool // the first program has made its notes
	bare                       bool // the programs lease without the plugin, and nobody notes the rows
	without                    mechanism

	s   leaseState // whose steps are being listed
	v   view
	out []step[leaseState]
}

func (w *leaseWorld) start() leaseState {
	s := leaseState{left: w.faults}
	for _, p := range w.programs {
		s.db[p.rows].readOnly = w.readOnly
	}
	if w.inUse {
		leases := &s.db[w.programs[0].leases]
		s.marks, leases.mark, leases.leases = 1, 1, 1
		s.db[w.programs[0].rows].rows = 1
	}
	return s
}

// steps lists what can happen next, in the order of the life of a process.
func (w *leaseWorld) steps(s leaseState) []step[leaseState] {
	w.s, w.out = s, w.out[:0]
	for i, program := range w.programs {
		p, store, rows := s.p[i], s.db[program.leases], s.db[program.rows]
		w.open(i, p)
		if p.at == claiming || p.running {
			w.claim(i, p, rows)
		}
		w.take(i, p, store)
		if p.at == idle {
			w.keep(i, p, store)
		}
		w.write(i, p, rows)
	}
	w.operate()
	w.move()
	if s.late.by > 0 && !s.emptying {
		w.add("the network", "delivers the late request of", name(int(s.late.by-1)), chance, func(v *view) {
			w.apply(v, s.late)
			v.s.late = swap{}
		})
	}
	if s.now+w.span < w.ticks {
		w.add("time", "passes", "", chance, func(v *view) { v.s.now++ })
	}
	return w.out
}

// view is the state after a step, while it is being made: as the process sees it that takes the step, if one
// does.
type view struct {
	s *leaseState
	*process
	store, rows *database
	breaks      string
}

func (w *leaseWorld) add(who, does, about string, k kind, do func(*view)) {
	w.out = append(w.out, step[leaseState]{w.s, who, does, about, k, ""})
	made := &w.out[len(w.out)-1]
	w.v = view{s: &made.next}
	do(&w.v)
	made.breaks = w.v.breaks
}

// does adds a step of a process.
func (w *leaseWorld) does(i int, does, about string, k kind, do func(*view)) {
	w.add(name(i), does, about, k, func(v *view) {
		v.process, v.store, v.rows = &v.s.p[i], &v.s.db[w.programs[i].leases], &v.s.db[w.programs[i].rows]
		do(v)
	})
}

func name(i int) string { return [...]string{"P1", "P2", "P3"}[i] }

func nodeName(node int8) string { return [...]string{"node 0", "node 1"}[node] }

func keyName(key int8) string {
	return [...]string{
		"node 0, tick 0", "node 0, tick 1", "node 0, tick 2",
		"node 1, tick 0", "node 1, tick 1", "node 1, tick 2",
	}[key]
}

// maker is the owner of the records of a process, and the maker of its rows.
func maker(i int, p *process) int8 { return int8(i) + 1 + maxPrograms*(p.starts-1) }

// open starts a process, which finds or makes the table of leases, its mark, and the note of its identity.
func (w *leaseWorld) open(i int, p process) {
	switch p.at {
	case stopped, refused:
		if k := chance; p.starts < w.starts {
			if p.starts == 0 {
				k = progress
			}
			w.does(i, "starts", "", k, func(v *view) {
				*v.process = process{at: opening, starts: p.starts + 1}
			})
		}
	case opening:
		w.does(i, "looks for the mark", "", progress, func(v *view) {
			switch v.knows, v.at = v.store.mark, naming; {
			case v.knows == 0:
				v.at = making
			case w.without == leasesAreNoted:
				w.named(v)
			}
		})
	case making:
		w.does(i, "finds none, and reads the note of the leases", "", progress, func(v *view) {
			v.knows, v.at = v.store.leases, marking
		})
	case marking:
		// If the note tells that there was a mark, only a table with records gets it back.
		w.does(i, "inserts the mark, if there may be one", "", progress, func(v *view) {
			isThere := v.store.mark != 0 && (w.without != markIsSoughtAgain || p.knows == 0)
			switch v.at = opening; {
			case !isThere && p.knows == 0:
				v.s.marks++
				v.store.mark = v.s.marks
			case !isThere && v.store.records == [maxNodes]record{}:
				v.at = refused
			case !isThere:
				v.store.mark = p.knows
			}
		})
	case naming:
		w.does(i, "compares the note of the leases", "", progress, func(v *view) {
			switch v.store.leases {
			case 0:
				v.at = renaming
			case p.knows:
				w.named(v)
			default:
				v.at = refused
			}
		})
	case renaming:
		w.does(i, "notes the leases, unless they are noted", "", progress, func(v *view) {
			if v.at = naming; v.store.leases == 0 {
				v.store.leases = p.knows
			}
		})
	}
}

// named goes on when the identity of the leases is noted.
func (w *leaseWorld) named(v *view) {
	if v.at = claiming; w.bare {
		v.at, v.note, v.sought = listing, same, true
	}
}

// claim notes where the IDs of the rows come from, and compares it. In a database that is read-only this is
// left to the first row. At last it looks whether the database is a copy.
func (w *leaseWorld) claim(i int, p process, rows database) {
	settle := func(v *view, note noted) {
		if v.note = note; v.running {
			return
		}
		switch note {
		case another:
			v.at = refused
		case same, later:
			v.at = listing
		}
	}
	switch {
	case p.note == unread, p.note == later && !rows.readOnly:
		w.does(i, "compares the note of the rows", "", progress, func(v *view) {
			switch {
			case v.rows.rows == 0:
				settle(v, unwritten)
			case v.rows.rows == p.knows || w.without == noteIsCompared:
				settle(v, same)
			default:
				settle(v, another)
			}
		})
	case p.note == unwritten:
		w.does(i, "notes the rows, unless they are noted", "", progress, func(v *view) {
			switch {
			case v.rows.readOnly:
				settle(v, later)
				return
			case v.rows.rows == 0:
				v.rows.rows = p.knows
			}
			if settle(v, unread); w.without == noteIsReadAgain {
				settle(v, same)
			}
		})
	case p.note == same && !p.sought && p.holds.version > 0:
		w.does(i, "looks whether the database is a copy", "", progress, func(v *view) {
			own, theirs := v.store.records[v.node], v.rows.records[v.node]
			switch v.sought = true; {
			case v.store == v.rows || v.rows.leases != v.knows:
			case w.without != copyIsSought && (own.owner != theirs.owner ||
				own.version > theirs.version && w.without != copyIsSoughtByVersion):
				v.note = another
			case v.s.wasCopied && v.wrote:
				v.breaks = copying
			}
		})
	}
}

// readable tells whether a process can list the records of its store.
func (w *leaseWorld) readable(store *database, p *process) bool {
	moved := store.records[0].moved || store.records[1].moved
	return !moved && (store.mark == p.knows || w.without == listComparesMark)
}

// take takes a number: it lists the records, swaps a free one, and lists them again if nobody had the number
// before, or if the swap was not answered.
func (w *leaseWorld) take(i int, p process, store database) {
	readable, about := w.readable(&store, &p), nodeName(p.wants.node)
	switch {
	case p.at == listing && !readable && !p.running:
		w.does(i, "finds another store, or one that was moved", "", progress, func(v *view) { v.at = refused })
	case p.at == listing && readable:
		free := false
		for node, prev := range store.records[:w.nodes] {
			if prev.until > w.s.now || p.holds.version > 0 && int8(node) == p.node {
				continue
			}
			free = true
			w.does(i, "lists the records, and wants", nodeName(int8(node)), progress, func(v *view) {
				next := record{owner: maker(i, &p), until: v.s.now + w.span, version: prev.version + 1}
				v.want(swap{prev, next, int8(node), max(prev.until, v.s.now), int8(i + 1), p.knows, false})
			})
		}
		if !free && p.holds.version > 0 {
			w.does(i, "finds no other number, and keeps its own", "", progress, func(v *view) {
				v.at, v.contested = idle, false
			})
		}
	case p.at == swapping && w.s.emptying && (p.wants.prev.version != 0 || w.without != firstWaits):
		// The statement waits for a transaction that empties the leases.
	case p.at == swapping:
		unanswered := func(v *view) {
			if v.at = looking; p.wants.extends {
				v.sent = p.wants.next
			}
		}
		w.does(i, "swaps the record of", about, progress, func(v *view) {
			switch v.answered = w.apply(v, p.wants); {
			case v.answered && (p.wants.extends || p.wants.prev.version > 0 || w.without == firstListsAgain):
				v.hold(p.wants.next)
			case !v.answered && !p.wants.extends:
				v.at = listing
			default:
				v.at = looking
			}
		})
		if w.s.left.lost > 0 {
			w.does(i, "swaps, and the answer is lost, the record of", about, chance, func(v *view) {
				v.s.left.lost--
				w.apply(v, p.wants)
				unanswered(v)
			})
		}
		if w.s.left.late > 0 {
			w.does(i, "gives up a swap that will be late, of", about, chance, func(v *view) {
				v.s.left.late--
				v.s.late = p.wants
				unanswered(v)
			})
		}
	case p.at == looking && (readable || !p.wants.extends):
		w.does(i, "lists the records again", "", progress, func(v *view) { w.look(v, readable) })
	}
}

func (v *view) want(wants swap) {
	v.at, v.wants, v.answered, v.hollow = swapping, wants, false, false
}

// apply is what a store does with a swap: it compares and changes a record with one statement.
func (w *leaseWorld) apply(v *view, m swap) bool {
	db, p := &v.s.db[w.programs[m.by-1].leases], &v.s.p[m.by-1]
	stored := &db.records[m.node]
	switch {
	case m.prev.version == 0:
		if stored.version != 0 || db.mark != m.knows && w.without != firstComparesMark {
			return false
		}
	case stored.owner != m.prev.owner || stored.version == 0:
		return false
	case stored.version != m.prev.version && (!m.extends || w.without != extensionComparesVersion):
		return false
	}
	*stored = m.next
	if p.hollow = db.mark != m.knows || v.s.emptied == m.knows; m.node == p.wants.node {
		p.wrote = v.s.wasCopied
	}
	v.s.ends = max(v.s.ends, m.next.until)
	return true
}

// look finds out what a process has after a swap. A number that nobody had before is given back if the store
// has lost its identity meanwhile, or was moved.
func (w *leaseWorld) look(v *view, readable bool) {
	stored := &v.store.records[v.wants.node]
	switch {
	case w.without == silenceIsNoGrant:
		v.hold(v.wants.next)
	case v.wants.extends && (*stored == v.holds || *stored == v.sent):
		v.hold(*stored)
	case v.wants.extends:
		v.holds, v.sent, v.at = record{}, record{}, listing // it has lost its number
	case readable && (v.answered || *stored == v.wants.next):
		v.hold(v.wants.next)
	default:
		if *stored == v.wants.next {
			*stored = record{until: v.wants.from, version: stored.version + 1}
		}
		if v.at = listing; !readable && !v.running {
			v.at = refused
		}
	}
}

// hold makes the record that was wanted, as it is stored, that of the process.
func (v *view) hold(stored record) {
	if !v.wants.extends {
		v.contested = v.contested && v.node == v.wants.node
		v.node, v.from = v.wants.node, v.wants.from
	}
	v.at, v.holds, v.sent, v.running = idle, stored, record{}, true
	if v.hollow {
		v.breaks = granting
	}
}

// keep extends the window of a process, and leaves a number that is contested.
func (w *leaseWorld) keep(i int, p process, store database) {
	if p.contested && w.without != contestedLeaves && w.readable(&store, &p) {
		w.does(i, "leaves a number that is contested", "", progress, func(v *view) { v.at = listing })
	}
	if w.s.left.close > 0 {
		w.does(i, "closes, and gives back", nodeName(p.node), chance, func(v *view) { w.close(v, maker(i, &p)) })
	}
	until, k := w.s.now+w.span, chance
	if p.holds.until <= w.s.now {
		k = progress
	}
	if until > p.holds.until {
		w.does(i, "wants to extend its window of", nodeName(p.node), k, func(v *view) {
			next := record{owner: p.holds.owner, until: until, version: p.holds.version + 1}
			v.want(swap{p.holds, next, p.node, p.from, int8(i + 1), p.knows, true})
		})
	}
}

// close gives a number back, up to the last tick that was used. No ID follows.
func (w *leaseWorld) close(v *view, me int8) {
	until := v.from
	for tick, row := range v.rows.keys[v.node] {
		if row == me {
			until = max(until, int8(tick)+1)
		}
	}
	v.s.left.close--
	next := record{until: until, version: v.holds.version + 1}
	w.apply(v, swap{v.holds, next, v.node, v.from, v.wants.by, v.knows, false})
	if w.without != closeSealsFirst {
		*v.process = process{starts: v.starts}
	}
}

// write inserts rows, and asks for the row that has refused a key.
func (w *leaseWorld) write(i int, p process, rows database) {
	me := maker(i, &p)
	if p.asks > 0 {
		w.does(i, "asks for the row of", keyName(p.asks-1), progress, func(v *view) { w.ask(v, me) })
		return
	}
	ready := p.note == same && p.sought || p.note == later && w.without == rowsWaitForNote
	if !ready || p.holds.version == 0 {
		return
	}
	for tick := p.from; tick < min(p.holds.until, w.ticks); tick++ {
		if rows.keys[p.node][tick] == me && w.s.left.twice == 0 {
			continue
		}
		w.does(i, "inserts a row of", keyName(p.node*maxTicks+tick), chance, func(v *view) {
			row := &v.rows.keys[p.node][tick]
			switch {
			case v.rows.rows != p.knows && !w.bare && !v.s.outside && v.s.moved != moveIsDone:
				v.breaks = noting
			case *row == 0:
				*row = me
			case *row == me: // a proxy sends it twice
				v.s.left.twice--
				v.asks = p.node*maxTicks + tick + 1
			case !v.s.outside:
				v.breaks = oneMaker
			case w.without == keyIsJudge:
				v.breaks = oneRow
			default:
				v.asks = p.node*maxTicks + tick + 1
			}
		})
	}
}

// ask reads the row that has refused a key. If it is that of somebody else, it is a witness.
func (w *leaseWorld) ask(v *view, me int8) {
	key := v.asks
	node, tick := (key-1)/maxTicks, (key-1)%maxTicks
	v.asks = 0
	switch row := v.rows.keys[node][tick]; {
	case row == 0, row == me && w.without != ownRowIsNoWitness:
	case row == me:
		v.breaks = strangers
	default:
		v.contested = v.contested || v.met != 0 && v.met != key && (v.met-1)/maxTicks == node && node == v.node
		v.met = key
	}
}

// operate is what happens to processes and databases. What the documents ask for is done when all programs
// are stopped and their windows have ended.
func (w *leaseWorld) operate() {
	left, db, allStopped := w.s.left, w.s.db[here], true
	for i := range w.programs {
		if w.s.p[i].at != stopped {
			allStopped = false
			if left.crash > 0 {
				w.does(i, "dies", "", chance, func(v *view) {
					v.s.left.crash--
					*v.process = process{starts: v.starts}
				})
			}
		}
	}
	if left.stop > 0 && !allStopped {
		w.add("the operator", "stops all programs", "", chance, func(v *view) {
			v.s.left.stop--
			for i := range v.s.p {
				v.s.p[i] = process{starts: v.s.p[i].starts}
			}
		})
	}
	quiet := allStopped && (w.s.ends <= w.s.now || w.without == operatorWaits)
	saved := w.faults.backup > 0 && left.backup == 0
	w.act(left.empty > 0 && db.mark != 0, "begins to empty the leases", func(s *leaseState, db *database) {
		s.left.empty--
		s.emptying, s.backup = true, *db
	})
	if w.s.emptying {
		w.add("the operator", "has emptied the leases", "", progress, func(v *view) {
			db := &v.s.db[here]
			for node, r := range v.s.backup.records {
				if r.version > 0 {
					db.records[node] = record{}
				}
			}
			v.s.emptied, v.s.emptying, v.s.backup, db.mark = db.mark, false, database{}, 0
		})
	}
	w.act(quiet && w.s.emptied != 0 && db.mark == 0, "inserts the mark, as the error says",
		func(s *leaseState, db *database) { db.mark, s.emptied = s.emptied, 0 })
	w.act(quiet && left.remove > 0, "removes leases and notes", func(s *leaseState, db *database) {
		s.left.remove--
		s.emptied, *db = 0, database{keys: db.keys}
	})
	w.act(left.forget > 0 && db.mark != 0, "removes leases and notes under running programs",
		func(s *leaseState, db *database) {
			s.left.forget--
			s.emptied, s.outside, *db = db.mark, true, database{keys: db.keys}
		})
	w.act(left.forget > 0, "removes the notes under running programs", func(s *leaseState, db *database) {
		s.left.forget--
		s.outside, db.leases, db.rows = true, 0, 0
	})
	w.act(left.backup > 0, "makes a backup", func(s *leaseState, db *database) {
		s.left.backup--
		s.backup = *db
	})
	w.act(quiet && saved && left.restore > 0, "restores the backup", func(s *leaseState, db *database) {
		s.left.restore--
		*db = s.backup
	})
	w.act(saved && left.wild > 0, "restores the backup under running programs",
		func(s *leaseState, db *database) {
			s.left.wild--
			s.outside, s.emptied, *db = true, 0, s.backup
		})
	w.act(left.copies > 0, "copies the database over the other one", func(s *leaseState, db *database) {
		s.left.copies--
		s.outside, s.wasCopied, s.db[there] = true, true, *db
		for i := range s.p {
			s.p[i].wrote = false
		}
	})
	for i := range w.s.db {
		if w.s.db[i].readOnly {
			w.add("the operator", "makes a database writable", "", progress, func(v *view) {
				v.s.db[i].readOnly = false
			})
		}
	}
}

// act adds an act of the operator on the first database.
func (w *leaseWorld) act(may bool, does string, do func(*leaseState, *database)) {
	if may {
		w.add("the operator", does, "", chance, func(v *view) {
			v.s.harmed = true
			do(v.s, &v.s.db[here])
		})
	}
}

const moveBegins, moveHasRaised, moveIsDone = 1, 2, 3

// move moves the rows of the first database to the leases of the second one.
func (w *leaseWorld) move() {
	records := w.s.db[here].records
	w.act(w.s.left.move > 0 && w.s.db[here].rows != 0, "begins to move", func(s *leaseState, _ *database) {
		s.left.move, s.moved = 0, moveBegins
		if to := &s.db[there]; to.mark == 0 {
			s.marks++
			to.mark, to.leases = s.marks, s.marks
		}
	})
	begun := w.s.moved == moveBegins
	w.act(begun && records == [maxNodes]record{}, "makes a first record that was moved",
		func(_ *leaseState, db *database) { db.records[0] = record{version: 1, moved: true} })
	drained := records != [maxNodes]record{}
	for node, r := range records {
		if r.version > 0 && !r.moved {
			drained = false
			w.act(begun, "drains the record of "+nodeName(int8(node)), func(_ *leaseState, db *database) {
				db.records[node] = record{until: r.until, version: r.version + 1, moved: true}
			})
		}
	}
	drained = drained || w.without == moveDrains
	w.act(begun && drained, "raises the new records", func(s *leaseState, _ *database) {
		s.moved = moveHasRaised
		for node, r := range records {
			if to := &s.db[there].records[node]; to.until < r.until && w.without != moveRaises {
				*to = record{until: r.until, version: to.version + 1}
			}
		}
	})
	w.act(w.s.moved == moveHasRaised, "changes the note of the rows", func(s *leaseState, db *database) {
		s.moved, db.rows = moveIsDone, s.db[there].mark
	})
}

// patience lets time pass for those who wait while nobody has a number, and starts a program if none runs.
func (w *leaseWorld) patience(s leaseState) (step[leaseState], bool) {
	w.s, w.out = s, w.out[:0]
	running, waiting, going := false, false, false
	for i, program := range w.programs {
		p, store := s.p[i], s.db[program.leases]
		going = going || p.at == idle && p.holds.until > s.now
		running = running || p.at != stopped
		waiting = waiting || p.at == listing && w.readable(&store, &p)
	}
	switch {
	case going || running && !waiting:
		return step[leaseState]{}, false
	case running:
		w.add("time", "passes", "", progress, func(v *view) { v.s.now++ })
	default:
		w.does(0, "starts once more", "", progress, func(v *view) {
			*v.process = process{at: opening, starts: v.starts + 1}
		})
	}
	return w.out[0], true
}

func (w *leaseWorld) verdict(s leaseState) string {
	going, excused := false, s.harmed
	for i, program := range w.programs {
		p, store := s.p[i], s.db[program.leases]
		going = going || p.at == idle && p.holds.until > s.now
		excused = excused || program.leases != w.programs[0].leases
		for node, r := range store.records[:w.nodes] {
			if p.at == idle && p.contested && int8(node) != p.node && r.until <= s.now && w.readable(&store, &p) {
				return leaves
			}
		}
	}
	for _, p := range s.p {
		if !excused && (!going || p.at == refused) {
			return numbered
		}
	}
	return ""
}
