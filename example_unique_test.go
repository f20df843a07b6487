package snowflakeplugin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// Member is spread over the shards. Its row alone says which address the member has.
type Member struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:200"`
}

// Address leads from an address to the member that has it, or is about to get it. It is an ordinary table in
// one database. Its key is what makes an address unique over all shards.
type Address struct {
	Email    string `gorm:"primaryKey;size:200"`
	MemberID snowflakeplugin.ID
	Since    time.Time
}

// members are rows with a unique column that is not their key.
type members struct {
	plugin *snowflakeplugin.Plugin
	router *snowflakeplugin.Router
	db     *gorm.DB // of the addresses
	// grace is how long a registration may take. After that, its address is free for others.
	grace time.Duration
}

var errTaken = errors.New("the address is taken")

// byEmail finds the member that has an address. An entry that a crash has left leads to no member, or to one
// that has another address; both are no members.
func (m members) byEmail(ctx context.Context, email string) (Member, error) {
	var entry Address
	if err := m.db.WithContext(ctx).Take(&entry, "email = ?", email).Error; err != nil {
		return Member{}, err
	}
	db, err := m.router.DB(ctx, &Member{}, entry.MemberID)
	if err != nil {
		return Member{}, err
	}
	var found Member
	err = db.Take(&found, "members.id = ? AND members.email = ?", entry.MemberID, email).Error
	return found, err
}

// claim is the first step: it enters the address, or takes over an entry that has led to no member for longer
// than a registration takes.
func (m members) claim(ctx context.Context, email string, id snowflakeplugin.ID) error {
	db, now := m.db.WithContext(ctx), time.Now()
	refused := db.Create(&Address{Email: email, MemberID: id, Since: now}).Error
	if refused == nil {
		return nil
	}
	var entry Address
	if err := db.Take(&entry, "email = ?", email).Error; err != nil {
		return errors.Join(refused, err)
	}
	if _, err := m.byEmail(ctx, email); err == nil || !errors.Is(err, gorm.ErrRecordNotFound) {
		return errors.Join(errTaken, err)
	}
	tx := db.Model(&Address{}).
		Where("email = ? AND member_id = ? AND since < ?", email, entry.MemberID, now.Add(-m.grace)).
		Updates(Address{MemberID: id, Since: now})
	if tx.Error == nil && tx.RowsAffected == 0 {
		return errTaken // by a registration that is under way
	}
	return tx.Error
}

// confirm is the last step: it makes sure that nobody has taken the entry over in the meantime.
func (m members) confirm(ctx context.Context, email string, id snowflakeplugin.ID) error {
	tx := m.db.WithContext(ctx).Model(&Address{}).Where("email = ? AND member_id = ?", email, id).
		Update("since", time.Now())
	if tx.Error == nil && tx.RowsAffected == 0 {
		return errTaken
	}
	return tx.Error
}

// register makes a member. A crash leaves
//
//	before claim            nothing
//	between claim and store an entry without a member: nobody is found by it, and after the grace it is free
//	between store and confirm
//	                        a member that is found by its address, unless somebody took the entry over; then
//	                        a row that no entry leads to
//
// To register again after an error is right in every case, once the grace is over.
func (m members) register(ctx context.Context, email string) (Member, error) {
	id, err := m.plugin.NextID(ctx)
	if err != nil {
		return Member{}, err
	}
	member := Member{ID: id, Email: email}
	if err := m.claim(ctx, email, id); err != nil {
		return Member{}, err
	}
	if err := m.router.Create(ctx, &member); err != nil {
		return Member{}, err
	}
	if err := m.confirm(ctx, email, id); err != nil {
		return Member{}, errors.Join(err, m.remove(ctx, member))
	}
	return member, nil
}

// move gives a member another address. A crash leaves
//
//	between claim and the update   an entry that leads to a member with another address: it is as good as none
//	between the update and the end the old entry, which is now of that kind
func (m members) move(ctx context.Context, member *Member, email string) error {
	if err := m.claim(ctx, email, member.ID); err != nil {
		return err
	}
	db, err := m.router.DB(ctx, &Member{}, member.ID)
	if err != nil {
		return err
	}
	tx := db.Where("id = ? AND email = ?", member.ID, member.Email).Update("email", email)
	if tx.Error != nil || tx.RowsAffected == 0 {
		return errors.Join(tx.Error, gorm.ErrRecordNotFound)
	}
	if err := m.confirm(ctx, email, member.ID); err != nil {
		return errors.Join(err, db.Where("id = ?", member.ID).Update("email", member.Email).Error)
	}
	old := member.Email
	member.Email = email
	return m.release(ctx, old, member.ID)
}

// remove deletes a member: the row first, because an entry without a row does no harm. A crash in between
// leaves such an entry.
func (m members) remove(ctx context.Context, member Member) error {
	db, err := m.router.DB(ctx, &Member{}, member.ID)
	if err != nil {
		return err
	}
	if err := db.Delete(&Member{}, member.ID).Error; err != nil {
		return err
	}
	return m.release(ctx, member.Email, member.ID)
}

// release deletes an entry, unless it leads to another member by now.
func (m members) release(ctx context.Context, email string, id snowflakeplugin.ID) error {
	return m.db.WithContext(ctx).Where("email = ? AND member_id = ?", email, id).Delete(&Address{}).Error
}

// An address is unique over all shards, and leads to the shard of its member. Each step is one statement on
// one table, and what a crash leaves between two of them is harmless: the row of the member is the truth, and
// an entry counts only if it leads to a row that has its address.
func ExampleRouter_uniqueColumn() {
	ctx, db := context.Background(), exampleDB()
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	exampleCheck(db.Use(plugin))
	defer func() { exampleCheck(plugin.Close(ctx)) }()
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &Member{})
	exampleCheck(err)
	exampleCheck(router.AutoMigrate(ctx))
	exampleCheck(db.AutoMigrate(&Address{}))
	m := members{plugin: plugin, router: router, db: db, grace: time.Minute}

	ann, err := m.register(ctx, "ann@example.com")
	exampleCheck(err)
	found, err := m.byEmail(ctx, "ann@example.com")
	fmt.Println("found:", found == ann, err)
	_, err = m.register(ctx, "ann@example.com")
	fmt.Println("twice:", errors.Is(err, errTaken))

	// A process crashes after the first step of a registration.
	lost, err := plugin.NextID(ctx)
	exampleCheck(err)
	exampleCheck(m.claim(ctx, "bob@example.com", lost))
	_, err = m.byEmail(ctx, "bob@example.com")
	fmt.Println("half a registration:", err)
	_, err = m.register(ctx, "bob@example.com")
	fmt.Println("at once:", err)
	m.grace = 0 // The time is over.
	bob, err := m.register(ctx, "bob@example.com")
	fmt.Println("later:", err)

	// The first process was only slow. It makes its row now, and finds that the address is gone.
	slow := Member{ID: lost, Email: "bob@example.com"}
	exampleCheck(router.Create(ctx, &slow))
	err = m.confirm(ctx, slow.Email, slow.ID)
	fmt.Println("too slow:", err)
	exampleCheck(m.remove(ctx, slow))
	found, err = m.byEmail(ctx, "bob@example.com")
	fmt.Println("found:", found == bob, err)

	exampleCheck(m.move(ctx, &ann, "ann@example.org"))
	_, err = m.byEmail(ctx, "ann@example.com")
	fmt.Println("the old address:", err)
	found, err = m.byEmail(ctx, "ann@example.org")
	fmt.Println("the new one:", found == ann, err)
	exampleCheck(m.remove(ctx, ann))
	n, err := router.Count(ctx, &Member{})
	fmt.Println("members left:", n, err)
	// Output:
	// found: true <nil>
	// twice: true
	// half a registration: record not found
	// at once: the address is taken
	// later: <nil>
	// too slow: the address is taken
	// found: true <nil>
	// the old address: record not found
	// the new one: true <nil>
	// members left: 1 <nil>
}
