package main

import (
	"fmt"
	"io"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// figures are what is counted in one database.
type figures struct{ Players, Items, Gold, Amount int64 }

// report is what the example has found.
type report struct {
	numbers        [2]int64
	filled, joined time.Duration

	servers   [2]figures
	world     figures
	shared    int64 // keys that stand on both servers
	names     int64 // names that stand on both servers
	dangling  int   // foreign keys of the world that point nowhere
	read      int   // keys of the world that were taken apart
	misplaced int   // those among them that name another server than the one the row came from
}

// count counts in one attached database.
func count(db *gorm.DB, schema string) (f figures, err error) {
	err = db.Raw(fmt.Sprintf(`SELECT
		(SELECT count(*) FROM %[1]s.players) AS players,
		(SELECT count(*) FROM %[1]s.items) AS items,
		(SELECT sum(gold) FROM %[1]s.players) AS gold,
		(SELECT sum(amount) FROM %[1]s.items) AS amount`, schema)).Scan(&f).Error
	return f, err
}

// compare looks at the servers before they are joined.
func (r *report) compare(world *gorm.DB) (err error) {
	for i := range r.servers {
		if r.servers[i], err = count(world, source(i)); err != nil {
			return err
		}
	}
	err = world.Raw(`SELECT
		(SELECT count(*) FROM server1.players JOIN server2.players USING (id)) +
		(SELECT count(*) FROM server1.items JOIN server2.items USING (id))`).Scan(&r.shared).Error
	if err != nil {
		return err
	}
	return world.Raw(`SELECT count(*) FROM server1.players JOIN server2.players USING (name)`).
		Scan(&r.names).Error
}

// verify looks at the world after the join.
func (r *report) verify(world *gorm.DB, layout generator.Layout) (err error) {
	if r.world, err = count(world, "main"); err != nil {
		return err
	}
	var dangling []map[string]any
	if err := world.Raw("PRAGMA foreign_key_check").Scan(&dangling).Error; err != nil {
		return err
	}
	r.dangling = len(dangling)
	for _, table := range []string{"players", "items"} {
		from := map[int64]int64{} // the server that each key came from
		for i, number := range r.numbers {
			var ids []int64
			if err := world.Table(source(i)+"."+table).Pluck("id", &ids).Error; err != nil {
				return err
			}
			for _, id := range ids {
				from[id] = number
			}
		}
		var ids []int64
		if err := world.Table(table).Pluck("id", &ids).Error; err != nil {
			return err
		}
		for _, id := range ids {
			parts, err := layout.Decompose(id)
			if err != nil {
				return err
			}
			number := layout.UnpackNode(parts.Node)[0] // the layout has one node field, the server
			r.read++
			if origin, known := from[id]; !known || origin != number {
				r.misplaced++
			}
		}
	}
	return nil
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "Two game servers, %d goroutines each, filled side by side in %v.\n",
		writers, r.filled.Round(time.Millisecond))
	fmt.Fprintf(w, "Joined into a third file by ATTACH and INSERT ... SELECT in %v.\n\n",
		r.joined.Round(time.Millisecond))
	fmt.Fprintf(w, "%-12s %10s %10s %10s\n", "",
		fmt.Sprint("server ", r.numbers[0]), fmt.Sprint("server ", r.numbers[1]), "world")
	for _, row := range []struct {
		label string
		of    func(figures) int64
	}{
		{"players", func(f figures) int64 { return f.Players }},
		{"items", func(f figures) int64 { return f.Items }},
		{"sum of gold", func(f figures) int64 { return f.Gold }},
		{"sum of items", func(f figures) int64 { return f.Amount }},
	} {
		fmt.Fprintf(w, "%-12s %10d %10d %10d\n",
			row.label, row.of(r.servers[0]), row.of(r.servers[1]), row.of(r.world))
	}
	fmt.Fprintln(w)
	counted := min(r.servers[0].Players, r.servers[1].Players) + min(r.servers[0].Items, r.servers[1].Items)
	for _, row := range []struct {
		n    int64
		what string
	}{
		{r.shared, fmt.Sprintf("keys stand on both servers; counted from 1, %d would", counted)},
		{int64(r.misplaced), fmt.Sprintf("of %d keys name another server than the one they came from", r.read)},
		{int64(r.dangling), "foreign keys point nowhere"},
		{r.names, "players' names stand on both servers: that, no key can settle"},
	} {
		fmt.Fprintf(w, "%5d  %s\n", row.n, row.what)
	}
}
