package routing_test

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestCrossing(t *testing.T) { run(t, crossingBehaviors()) }

// crossingBehaviors test that a statement on a shard never answers for rows of other shards in part.
func crossingBehaviors() []behavior {
	return []behavior{
		{Name: "of two references to one model, only the one of the key can be followed", Run: twoReferences},
		{Name: "a broadcast or unsharded parent does not lead to its sharded children", Run: parentsOutside},
		{Name: "a reference to another column than the key cannot be followed", Run: referenceToOther},
		{Name: "a child that shares the key of its parent is beside it", Run: sharedKey},
		{Name: "rows nested over a crossing relation are not saved", Run: nestedOverCrossing},
		{Name: "conditions of other shards are refused wherever they are values", Run: foreignConditions},
		{Name: "conditions that this shard can answer pass", Run: ownConditions},
		{Name: "scopes that each shard would answer for itself are refused", Run: scopesForEachShard},
		{Name: "scopes that leave out the key are refused where rows are put in its order", Run: scopesWithoutTheKey},
	}
}

// player sends and receives payments. A payment is keyed like its sender.
type player struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name     string             `gorm:"size:40"`
	GuildID  int64
	Sent     []payment `gorm:"foreignKey:FromID"`
	Received []payment `gorm:"foreignKey:ToID"`
	Profile  *profile  `gorm:"foreignKey:ID"`
	Guild    *guild
	Letters  []letter `gorm:"foreignKey:Sender;references:Name"`
}

type payment struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:FromID"`
	FromID snowflakeplugin.ID
	ToID   snowflakeplugin.ID
	Gold   int64
	From   *player `gorm:"foreignKey:FromID"`
	To     *player `gorm:"foreignKey:ToID"`
}

// profile has the key of its player.
type profile struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text string
}

// guild is broadcast, and tavern is not of the router.
type guild struct {
	ID      int64 `gorm:"primaryKey;autoIncrement:false"`
	Name    string
	Players []player
}

type tavern struct {
	ID     int64    `gorm:"primaryKey;autoIncrement:false"`
	Guests []player `gorm:"foreignKey:GuildID"`
	Best   *player  `gorm:"foreignKey:GuildID"`
}

// letter refers to a player by the name.
type letter struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Sender string             `gorm:"size:40"`
	Player *player            `gorm:"foreignKey:Sender;references:Name"`
}

// newWorld stores a player with a payment to every player on each shard, in guild 1.
func newWorld(t *testing.T, targets []dbtest.Target) (*sharded, []player) {
	t.Helper()
	s := pooled(t, "players", targets, nil, &player{}, &payment{}, &profile{},
		snowflakeplugin.Broadcast(&guild{}), &letter{})
	must(t, s.router.Create(t.Context(), &guild{ID: 1, Name: "g"}), "Create")
	var players []player
	for shard := range shards {
		players = append(players, player{ID: s.id(shard), Name: fmt.Sprint("p", shard), GuildID: 1})
	}
	must(t, s.router.Create(t.Context(), players), "Create")
	var payments []payment
	for _, from := range players {
		for _, to := range players {
			payments = append(payments, payment{FromID: from.ID, ToID: to.ID, Gold: 1})
		}
	}
	must(t, s.router.Create(t.Context(), payments), "Create")
	for _, p := range players {
		must(t, s.router.Create(t.Context(), &profile{ID: p.ID}), "Create")
		must(t, s.router.Create(t.Context(), []letter{{Sender: p.Name}, {Sender: p.Name}}), "Create")
	}
	return s, players
}

// crossed fails the test unless every error is an ErrCrossShard.
func crossed(t *testing.T, errs map[string]error) {
	t.Helper()
	for doing, err := range errs {
		t.Run(doing, func(t *testing.T) {
			wantErr(t, err, snowflakeplugin.ErrCrossShard, doing)
		})
	}
}

func twoReferences(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		p := players[1]
		db := s.on(&player{}, p.ID)
		var got player
		must(t, db.Preload("Sent").Take(&got, p.ID).Error, "Preload of what was sent")
		same(t, "payments sent", len(got.Sent), shards)
		same(t, "payments sent, counted", db.Model(&p).Association("Sent").Count(), shards)
		var sent []payment
		must(t, s.on(&payment{}, p.ID).Preload("From").Find(&sent).Error, "Preload of the sender")
		same(t, "senders", sent[0].From.ID, p.ID)

		other := payment{ID: s.id(1), FromID: p.ID}
		received := db.Model(&p).Association("Received")
		received.Count()
		crossed(t, map[string]error{
			"Preload":                db.Preload("Received").Take(&player{}, p.ID).Error,
			"Preload with a path":    db.Preload("Sent.To").Take(&player{}, p.ID).Error,
			"Joins":                  s.on(&payment{}, p.ID).Joins("To").Find(&[]payment{}).Error,
			"Joins with a path":      s.on(&payment{}, p.ID).Joins("From.Received").Find(&[]payment{}).Error,
			"Association Find":       db.Model(&p).Association("Received").Find(&[]payment{}),
			"Association Count":      received.Error,
			"Association Append":     db.Model(&player{ID: p.ID}).Association("Received").Append(&other),
			"Association Replace":    db.Model(&player{ID: p.ID}).Association("Received").Replace(&other),
			"Association Delete":     db.Model(&player{ID: p.ID}).Association("Received").Delete(&sent[0]),
			"Association Clear":      db.Model(&player{ID: p.ID}).Association("Received").Clear(),
			"all associations":       db.Preload(clause.Associations).Take(&player{}, p.ID).Error,
			"Delete with the select": db.Select("Received").Delete(&player{ID: p.ID}).Error,
		})
		s.hold("payments", shards*shards)
		s.hold("players", shards)
	})
}

func parentsOutside(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		for _, db := range s.dbs {
			must(t, db.AutoMigrate(&tavern{}), "AutoMigrate")
			must(t, db.Omit(clause.Associations).Create(&tavern{ID: 1}).Error, "Create")
		}
		db := s.on(&player{}, players[2].ID)
		var got player
		must(t, db.Preload("Guild").Joins("Guild").Take(&got, players[2].ID).Error, "the guild of a player")
		same(t, "the guild", got.Guild.Name, "g")
		on := db.Session(&gorm.Session{NewDB: true}) // a handle of the shard, for any model
		errs := map[string]error{
			"Preload of a broadcast parent":                 on.Preload("Players").Find(&[]guild{}).Error,
			"Association of a broadcast parent":             on.Model(&guild{ID: 1}).Association("Players").Find(&[]player{}),
			"Preload of an unsharded parent":                on.Preload("Guests").Find(&[]tavern{}).Error,
			"Joins of an unsharded parent":                  on.Joins("Best").Find(&[]tavern{}).Error,
			"Association of an unsharded parent":            on.Model(&tavern{ID: 1}).Association("Guests").Find(&[]player{}),
			"Preload without a route":                       s.dbs[0].Preload("Guests").Find(&[]tavern{}).Error,
			"Preload of a broadcast parent without a route": s.dbs[0].Preload("Players").Find(&[]guild{}).Error,
		}
		_ = s.router.Each(t.Context(), &guild{}, func(database int, tx *gorm.DB) error {
			if database == 0 {
				errs["Preload in Each"] = tx.Preload("Players").Find(&[]guild{}).Error
			}
			return nil
		})
		must(t, s.router.Transaction(t.Context(), players[2].ID, func(tx *snowflakeplugin.ShardTx) error {
			errs["Preload in a transaction"] = tx.Gorm().Preload("Players").Find(&[]guild{}).Error
			return nil
		}), "Transaction")
		crossed(t, errs)
	})
}

func referenceToOther(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		p := players[3]
		db, letters := s.on(&player{}, p.ID), s.on(&letter{}, p.ID)
		var some []letter
		must(t, letters.Find(&some).Error, "Find")
		row := letter{ID: s.id(3), Sender: "p0"}
		crossed(t, map[string]error{
			"Preload of the parent":   letters.Preload("Player").Find(&[]letter{}).Error,
			"Joins of the parent":     letters.Joins("Player").Find(&[]letter{}).Error,
			"Association to a parent": letters.Model(&row).Association("Player").Find(&player{}),
			"Preload of children":     db.Preload("Letters").Find(&[]player{}).Error,
			"Association to children": db.Model(&p).Association("Letters").Find(&[]letter{}),
		})
	})
}

func sharedKey(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		var got player
		p := players[1]
		must(t, s.on(&player{}, p.ID).Preload("Profile").Joins("Profile").Take(&got, p.ID).Error, "Preload")
		same(t, "the profile", got.Profile.ID, p.ID)
	})
}

func nestedOverCrossing(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		p, db := players[1], s.on(&player{}, players[1].ID)
		with := func() *player { return &player{ID: p.ID, Name: "x", Received: []payment{{FromID: p.ID}}} }
		fresh := func() *player { return &player{ID: s.id(1), Name: "y", Received: []payment{{FromID: p.ID}}} }
		crossed(t, map[string]error{
			"Router.Create":     s.router.Create(t.Context(), fresh()),
			"Create":            db.Create(fresh()).Error,
			"CreateInBatches":   db.CreateInBatches([]*player{fresh()}, 1).Error,
			"Save":              db.Save(with()).Error,
			"Updates":           db.Updates(with()).Error,
			"Updates of all":    db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(with()).Error,
			"with their parent": s.on(&payment{}, p.ID).Create(&payment{FromID: p.ID, To: &player{Name: "z"}}).Error,
		})
		must(t, db.Omit("Received").Save(with()).Error, "Save without them")
		must(t, db.Omit(clause.Associations).Create(fresh()).Error, "Create without them")
		must(t, db.Select("Name").Updates(with()).Error, "Updates of a column")
		must(t, s.router.Create(t.Context(), &player{ID: s.id(1), Received: []payment{}}), "Create with none")
		s.hold("payments", shards*shards)
	})
}

func foreignConditions(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		mine, other := players[1].ID, players[2].ID
		db, payments := s.on(&player{}, mine), s.on(&payment{}, mine)
		type values = map[string]any
		both := []snowflakeplugin.ID{mine, other}
		key := clause.Column{Name: "id"}
		crossed(t, map[string]error{
			"a map":                 db.Where(values{"id": other}).Find(&[]player{}).Error,
			"a map of a small type": db.Where(values{"id": int16(other % 4096)}).Find(&[]player{}).Error,
			"a map of several":      db.Where(values{"id": both}).Find(&[]player{}).Error,
			"a map with the table":  db.Where(values{"players.id": other}).Find(&[]player{}).Error,
			"a struct":              db.Where(&player{ID: other}).Find(&[]player{}).Error,
			"a struct that is read": db.First(&player{ID: other}).Error,
			"Eq":                    db.Where(clause.Eq{Column: "id", Value: other}).Find(&[]player{}).Error,
			"Eq with a slice":       db.Where(clause.Eq{Column: "id", Value: both}).Find(&[]player{}).Error,
			"IN":                    db.Where(clause.IN{Column: key, Values: []any{mine, other}}).Find(&[]player{}).Error,
			"Or":                    db.Where(values{"id": mine}).Or(values{"id": other}).Find(&[]player{}).Error,
			"clause.Or":             db.Where(clause.Or(clause.Eq{Column: key, Value: mine}, clause.Eq{Column: key, Value: other})).Find(&[]player{}).Error,
			"clause.And":            db.Where(clause.And(clause.Eq{Column: key, Value: other})).Find(&[]player{}).Error,
			"a pointer to Eq":       db.Where(&clause.Eq{Column: "id", Value: other}).Find(&[]player{}).Error,
			"a pointer to IN":       db.Where(&clause.IN{Column: key, Values: []any{mine, other}}).Find(&[]player{}).Error,
			"Where in Where":        db.Clauses(clause.Where{Exprs: []clause.Expression{clause.Where{Exprs: []clause.Expression{clause.Eq{Column: key, Value: other}}}}}).Find(&[]player{}).Error,
			"IN of several columns": db.Where(clause.IN{Column: []clause.Column{{Name: "name"}, key},
				Values: []any{[]any{"x", mine}, []any{"y", other}}}).Find(&[]player{}).Error,
			"a group":                   db.Where(s.dbs[0].Where(values{"name": "x"}).Or(values{"id": other})).Find(&[]player{}).Error,
			"inline of First":           db.First(&player{}, other).Error,
			"inline of Find":            db.Find(&[]player{}, both).Error,
			"inline of Delete":          db.Delete(&player{}, other).Error,
			"a row of Delete":           db.Delete(&player{ID: other}).Error,
			"rows of Delete":            db.Delete(&[]player{{ID: mine}, {ID: other}}).Error,
			"the model of Update":       db.Model(&player{ID: other}).Update("name", "x").Error,
			"Update":                    db.Where(values{"id": other}).Update("name", "x").Error,
			"Count":                     db.Where(values{"id": other}).Count(new(int64)).Error,
			"Pluck":                     db.Where(values{"id": other}).Pluck("name", &[]string{}).Error,
			"Rows":                      rowsOf(db.Where(values{"id": other})),
			"FirstOrInit":               db.Where(values{"id": other}).FirstOrInit(&player{}).Error,
			"FirstOrCreate":             db.Where(player{ID: other}).FirstOrCreate(&player{}).Error,
			"a like-column in a map":    payments.Where(values{"from_id": other}).Find(&[]payment{}).Error,
			"a like-column in a struct": payments.Where(payment{FromID: other}).Find(&[]payment{}).Error,
			"like-columns with IN":      payments.Where(clause.IN{Column: "from_id", Values: []any{mine, other}}).Delete(&payment{}).Error,
			"like-columns with Or":      payments.Where(values{"gold": 5}).Or(payment{FromID: other}).Find(&[]payment{}).Error,
			"a scope":                   db.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where(values{"id": other}) }).Find(&[]player{}).Error,
			// A text is not read, but these few are nothing but a column and a value.
			"the text id = ?":                db.Where("id = ?", other).Find(&[]player{}).Error,
			"the text Id = ?":                db.Where("Id = ?", other).Find(&[]player{}).Error,
			"the text id IN ?":               db.Where("id IN ?", both).Find(&[]player{}).Error,
			"the text id in (?)":             db.Where("id in (?)", both).Find(&[]player{}).Error,
			"the text id=? inline of Delete": db.Delete(&player{}, "id=?", other).Error,
			"the text from_id = ?":           payments.Where("from_id = ?", other).Find(&[]payment{}).Error,
		})
		s.hold("players", shards)
		s.hold("payments", shards*shards)
	})
}

func rowsOf(db *gorm.DB) (err error) {
	rows, err := db.Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close(), rows.Err()) }()
	return nil
}

func ownConditions(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		mine, other := players[1].ID, players[2].ID
		db, payments := s.on(&player{}, mine), s.on(&payment{}, mine)
		type values = map[string]any
		for doing, c := range map[string]struct {
			tx   *gorm.DB
			want int64
		}{
			"a map":                  {db.Where(values{"id": mine}), 1},
			"not the other":          {db.Not(values{"id": other}), 1},
			"not this one":           {db.Not(values{"id": []snowflakeplugin.ID{mine, other}}), 0},
			"a subquery":             {db.Where("id IN (?)", payments.Select("from_id")), 1},
			"a range":                {db.Where("id > ?", 0), 1},
			"another reference":      {payments.Where(payment{ToID: other}), 1},
			"a text with more in it": {db.Where("id = ? AND 1 = 1", other), 0},
			"no value":               {payments.Where(values{"from_id": nil}), 0},
			"an empty list":          {db.Where(values{"id": []snowflakeplugin.ID{}}), 0},
		} {
			var n int64
			must(t, c.tx.Count(&n).Error, doing)
			same(t, doing, n, c.want)
		}
	})
}

func scopesForEachShard(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s, players := newWorld(t, targets)
		for name, scope := range map[string]func(*gorm.DB) *gorm.DB{
			"Group":    func(db *gorm.DB) *gorm.DB { return db.Group("gold") },
			"Having":   func(db *gorm.DB) *gorm.DB { return db.Group("gold").Having("count(*) > 1") },
			"Distinct": func(db *gorm.DB) *gorm.DB { return db.Distinct("gold") },
			"Limit":    func(db *gorm.DB) *gorm.DB { return db.Limit(1) },
			"Offset":   func(db *gorm.DB) *gorm.DB { return db.Limit(10).Offset(1) },
			"Order":    func(db *gorm.DB) *gorm.DB { return db.Order("gold") },
			"Table":    func(db *gorm.DB) *gorm.DB { return db.Table("payments_00") },
			"From": func(db *gorm.DB) *gorm.DB {
				return db.Clauses(clause.From{Tables: []clause.Table{{Name: "payments_00"}}})
			},
			"Raw": func(db *gorm.DB) *gorm.DB { return db.Raw("SELECT 5 AS n, 5 AS id") },
		} {
			r := s.router.Scopes(scope)
			var sum int64
			_, count := r.Count(t.Context(), &payment{})
			_, least := r.Aggregate(t.Context(), &payment{}, "min", "Gold", &sum)
			for doing, err := range map[string]error{
				"Count": count, "Min": least,
				"Sum":    sumOver(t.Context(), r, &payment{}, "Gold", &sum),
				"Latest": r.Latest(t.Context(), &[]payment{}, 5),
				"Find":   r.Find(t.Context(), &[]payment{}, []snowflakeplugin.ID{players[0].ID}),
			} {
				wantErr(t, err, gorm.ErrInvalidValue, doing+" with "+name)
				says(t, err, "Scopes with", name, "Router.Each")
			}
		}
	})
}

// Rows without their keys cannot be put in the order of these. A database that sorts by the key may refuse the
// statement before.
func scopesWithoutTheKey(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newShardedOf(t, targets, nil, len(targets), tradeModels...)
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
		made := s.filled(3)
		for name, scope := range map[string]func(*gorm.DB) *gorm.DB{
			"Select": func(db *gorm.DB) *gorm.DB { return db.Select("code") },
			"Omit":   func(db *gorm.DB) *gorm.DB { return db.Omit("id") },
		} {
			r, rows := s.router.Scopes(scope), []trade{}
			for doing, err := range map[string]error{
				"Latest": r.Latest(t.Context(), &rows, 5), "Find": r.Find(t.Context(), &rows, idsOf(made)),
			} {
				wantErr(t, err, gorm.ErrInvalidValue, doing+" with "+name)
				says(t, err, "Select or Omit", "key ID of trade")
			}
			same(t, "rows with "+name, len(rows), 0)
		}
	})
}
