package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Fields are the columns beside the key. GORM takes embedded fields only of an exported type.
type Fields struct {
	CreatedAt time.Time
	Customer  int64
	Total     int64
	Note      string
}

// fieldsOf are those of the i-th row of a batch. The rows differ, and a row has about 100 bytes.
func fieldsOf(now time.Time, i int) Fields {
	nanos := now.UnixNano() + int64(i)
	return Fields{
		CreatedAt: now.Add(time.Duration(i) * time.Microsecond), Customer: nanos % 100_000, Total: nanos % 997,
		Note: fmt.Sprintf("a note of the order with the number %20d", nanos),
	}
}

// The rows of GORM have the columns of [table.create].
type (
	counted struct {
		ID int64 `gorm:"primaryKey;autoIncrement"`
		Fields
	}
	numbered struct {
		ID int64 `gorm:"primaryKey;autoIncrement:false"`
		Fields
	}
	textual struct {
		ID string `gorm:"primaryKey"`
		Fields
	}
	binary struct {
		ID []byte `gorm:"primaryKey"`
		Fields
	}
)

// growByGORM inserts rows in batches by GORM, and returns how many a second.
func (c *contender) growByGORM(ctx context.Context, batches int) (float64, error) {
	began := time.Now()
	for range batches {
		keys, err := c.next(ctx, c.effort.batch)
		if err != nil {
			return 0, err
		}
		made, err := c.rows(keys)
		if err != nil {
			return 0, err
		}
		if err := c.db.WithContext(ctx).Table(c.name).Create(made).Error; err != nil {
			return 0, err
		}
		c.stored += c.effort.batch
	}
	return rate(batches*c.effort.batch, began), nil
}

// rows are those of a batch, in a slice that GORM takes.
func (t table) rows(keys []any) (any, error) {
	if t.column == auto {
		return slice(keys, func(_ any, f Fields) counted { return counted{Fields: f} }), nil
	}
	switch keys[0].(type) {
	case int64:
		return slice(keys, func(key any, f Fields) numbered { id, _ := key.(int64); return numbered{id, f} }), nil
	case string:
		return slice(keys, func(key any, f Fields) textual { id, _ := key.(string); return textual{id, f} }), nil
	case []byte:
		return slice(keys, func(key any, f Fields) binary { id, _ := key.([]byte); return binary{id, f} }), nil
	case uuid.UUID:
		if t.dialect == "postgres" { // the driver takes the text of a UUID
			return slice(keys, func(key any, f Fields) textual { return textual{fmt.Sprint(key), f} }), nil
		}
		return slice(keys, func(key any, f Fields) binary {
			id, _ := key.(uuid.UUID)
			return binary{id[:], f}
		}), nil
	}
	return nil, fmt.Errorf("no model has a key like %T", keys[0])
}

func slice[R any](keys []any, row func(key any, f Fields) R) []R {
	rows := make([]R, len(keys))
	now := time.Now().UTC()
	for i, key := range keys {
		rows[i] = row(key, fieldsOf(now, i))
	}
	return rows
}
