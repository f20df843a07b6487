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
			return encodeBinary{}
		case pgtype.TextFormatCode:
			return encodeText{}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// PlanScan returns the plan for an *ID. For every other target it asks the wrapped codec.
func (c codec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*snowflakeplugin.ID); ok {
		switch format {
		case pgtype.BinaryFormatCode:
			return scanBinary{}
		case pgtype.TextFormatCode:
			return scanText{}
		}
	}
	return c.Codec.PlanScan(m, oid, format, target)
}

type (
	encodeBinary struct{}
	encodeText   struct{}
	scanBinary   struct{}
	scanText     struct{}
)

func (encodeBinary) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(snowflakeplugin.ID)
	if !ok {
		return nil, errOtherType(value)
	}
	if id < 0 {
		_, err := id.Value() // the same error as without this package
		return nil, err
	}
	return binary.BigEndian.AppendUint64(buf, uint64(id)), nil
}

func (encodeText) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(snowflakeplugin.ID)
	if !ok {
		return nil, errOtherType(value)
	}
	return id.AppendText(buf)
}

func (scanBinary) Scan(src []byte, target any) error {
	id, ok := target.(*snowflakeplugin.ID)
	if !ok {
		return pgtype.ErrScanTargetTypeChanged
	}
	if src == nil || id == nil {
		return id.Scan(nil) // the same error as without this package
	}
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

func (scanText) Scan(src []byte, target any) error {
	id, ok := target.(*snowflakeplugin.ID)
	if !ok {
		return pgtype.ErrScanTargetTypeChanged
	}
	if src == nil || id == nil {
		return id.Scan(nil)
	}
	return id.UnmarshalText(src)
}

// errOtherType cannot happen as long as pgx keeps one plan for each type.
func errOtherType(value any) error {
	return fmt.Errorf("pgxid: the plan for ID was given a value of type %T", value)
}
