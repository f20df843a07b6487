package pgxid

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// codec is the bigint codec of a type map with plans of its own for IDs. pgx would find a way
// through Scan and Value, at one allocation to write an ID and several to read one.
type codec struct{ pgtype.Codec }

// PlanEncode returns a plan for an ID, or what the wrapped codec has for value.
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

// PlanScan returns a plan for an *ID, or what the wrapped codec has for target.
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
		_, err := id.Value() // the error that everyone else gets
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
		return id.Scan(nil) // the error that everyone else gets
	}
	if len(src) != 8 {
		return fmt.Errorf("pgxid: a bigint of %d bytes, want 8", len(src))
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

// errOtherType is out of reach as long as pgx keeps its plans by type.
func errOtherType(value any) error {
	return fmt.Errorf("pgxid: a plan for ID met a value of type %T", value)
}
