package pgxid

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// codec wraps the bigint codec of a type map and adds plans for IDs. Without these plans pgx would
// use Scan and Value, which cost one allocation to write an ID and several to read one.
type codec struct{ pgtype.Codec }

// PlanEncode returns the plan for an ID. For every other value it asks the wrapped codec.
func (c codec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(snowflakeplugin.ID); ok {
		switch format {
		case pgtype.BinaryFormatCode:
			return encodePlan(encodeBinary)
		case pgtype.TextFormatCode:
			return encodePlan(snowflakeplugin.ID.AppendText)
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// PlanScan returns the plan for an *ID. For every other target it asks the wrapped codec.
func (c codec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*snowflakeplugin.ID); ok {
		switch format {
		case pgtype.BinaryFormatCode:
			return scanPlan(scanBinary)
		case pgtype.TextFormatCode:
			return scanPlan((*snowflakeplugin.ID).UnmarshalText)
		}
	}
	return c.Codec.PlanScan(m, oid, format, target)
}

// encodePlan is the plan for an ID. Another type cannot come as long as pgx keeps one plan for each type.
type encodePlan func(id snowflakeplugin.ID, buf []byte) ([]byte, error)

// Encode implements pgtype.EncodePlan.
func (p encodePlan) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(snowflakeplugin.ID)
	if !ok {
		return nil, fmt.Errorf("pgxid: the plan for ID was given a value of type %T", value)
	}
	return p(id, buf)
}

func encodeBinary(id snowflakeplugin.ID, buf []byte) ([]byte, error) {
	if id < 0 {
		_, err := id.Value() // the same error as without this package
		return nil, err
	}
	return binary.BigEndian.AppendUint64(buf, uint64(id)), nil
}

// scanPlan is the plan for an *ID and for a value that is not NULL.
type scanPlan func(id *snowflakeplugin.ID, src []byte) error

// Scan implements pgtype.ScanPlan.
func (p scanPlan) Scan(src []byte, target any) error {
	id, ok := target.(*snowflakeplugin.ID)
	switch {
	case !ok:
		return pgtype.ErrScanTargetTypeChanged
	case src == nil || id == nil:
		return id.Scan(nil) // the same error as without this package
	}
	return p(id, src)
}

func scanBinary(id *snowflakeplugin.ID, src []byte) error {
	if len(src) != 8 {
		return fmt.Errorf("pgxid: the bigint has %d bytes, want 8", len(src))
	}
	n := binary.BigEndian.Uint64(src)
	if n > math.MaxInt64 {
		return id.Scan(int64(n))
	}
	*id = snowflakeplugin.ID(n)
	return nil
}
