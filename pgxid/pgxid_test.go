package pgxid_test

import (
	"bytes"
	"database/sql"
	"errors"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/pgxid"
)

const unknownOID = 0 // pgx passes this in the modes that do not ask the server

func registered() *pgtype.Map {
	m := pgtype.NewMap()
	pgxid.Register(m)
	return m
}

func TestRegisteredIDsAreWrittenLikeInt64(t *testing.T) {
	m, plain := registered(), pgtype.NewMap()
	one, large := snowflakeplugin.ID(1), snowflakeplugin.ID(math.MaxInt64)
	oneInt, largeInt := int64(1), int64(math.MaxInt64)
	for name, c := range map[string]struct {
		oid       uint32
		value, as any
	}{
		"zero":        {pgtype.Int8OID, snowflakeplugin.ID(0), int64(0)},
		"large":       {pgtype.Int8OID, large, largeInt},
		"pointer":     {pgtype.Int8OID, &large, &largeInt},
		"nil pointer": {pgtype.Int8OID, (*snowflakeplugin.ID)(nil), nil},
		"sql.Null": {pgtype.Int8OID, sql.Null[snowflakeplugin.ID]{V: large, Valid: true},
			largeInt},
		"sql.Null of NULL": {pgtype.Int8OID, sql.Null[snowflakeplugin.ID]{}, nil},
		"into numeric":     {pgtype.NumericOID, large, largeInt},
		"into int4":        {pgtype.Int4OID, one, oneInt},
		"slice":            {pgtype.Int8ArrayOID, []snowflakeplugin.ID{one, large}, []int64{1, largeInt}},
		"empty slice":      {pgtype.Int8ArrayOID, []snowflakeplugin.ID{}, []int64{}},
		"nil slice":        {pgtype.Int8ArrayOID, []snowflakeplugin.ID(nil), nil},
		"slice of pointers": {pgtype.Int8ArrayOID, []*snowflakeplugin.ID{&one, nil, &large},
			[]*int64{&oneInt, nil, &largeInt}},
		"slice of sql.Null": {pgtype.Int8ArrayOID,
			[]sql.Null[snowflakeplugin.ID]{{V: one, Valid: true}, {}}, []*int64{&oneInt, nil}},
		"Array": {pgtype.Int8ArrayOID, pgtype.Array[snowflakeplugin.ID]{
			Elements: []snowflakeplugin.ID{one},
			Dims:     []pgtype.ArrayDimension{{Length: 1, LowerBound: 1}}, Valid: true},
			[]int64{1}},
		"FlatArray": {pgtype.Int8ArrayOID, pgtype.FlatArray[snowflakeplugin.ID]{large},
			[]int64{largeInt}},
	} {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			got, err := m.Encode(c.oid, format, c.value, []byte{})
			want, wantErr := plain.Encode(c.oid, format, c.as, []byte{})
			if err != nil || wantErr != nil || !bytes.Equal(got, want) ||
				(got == nil) != (want == nil) {
				t.Errorf("%s, format %d: encoded as %q, %v; an int64 is %q, %v",
					name, format, got, err, want, wantErr)
			}
		}
		got, err := m.Encode(unknownOID, pgtype.TextFormatCode, c.value, []byte{})
		want, wantErr := plain.Encode(c.oid, pgtype.TextFormatCode, c.as, []byte{})
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, of unknown type: encoded as %q, %v; an int64 is %q, %v", name, got, err, want, wantErr)
		}
	}
}

func TestRegisteredIDsAreReadBack(t *testing.T) {
	m := registered()
	for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
		for _, want := range []snowflakeplugin.ID{0, 1, math.MaxInt64} {
			src, err := m.Encode(pgtype.Int8OID, format, want, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, pointer := snowflakeplugin.ID(42), new(snowflakeplugin.ID)
			if err := m.Scan(pgtype.Int8OID, format, src, &got); err != nil || got != want {
				t.Errorf("format %d: %d came back as %d, %v", format, want, got, err)
			}
			err = m.Scan(pgtype.Int8OID, format, src, &pointer)
			if err != nil || pointer == nil || *pointer != want {
				t.Errorf("format %d: %d came back as a pointer %v, %v", format, want, pointer, err)
			}
			// Values of other types are read as before.
			var plain int64
			var loose any
			if err := m.Scan(pgtype.Int8OID, format, src, &plain); err != nil || plain != int64(want) {
				t.Errorf("format %d: an int64 was read as %d, %v", format, plain, err)
			}
			if err := m.Scan(pgtype.Int8OID, format, src, &loose); err != nil || loose != any(plain) {
				t.Errorf("format %d: an any was read as %v, %v", format, loose, err)
			}
		}
	}
}

func TestRegisteredIDsRefuseWhatTheTypeRefuses(t *testing.T) {
	m := registered()
	var none *snowflakeplugin.ID
	for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
		got := snowflakeplugin.ID(42)
		negative, err := m.Encode(pgtype.Int8OID, format, int64(-1), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, src := range map[string][]byte{"-1": negative, "NULL": nil} {
			err := m.Scan(pgtype.Int8OID, format, src, &got)
			if !errors.Is(err, snowflakeplugin.ErrInvalidID) || got != 42 {
				t.Errorf("format %d: %s came back as %d, %v", format, name, got, err)
			}
		}
		for _, src := range [][]byte{{}, {0, 0, 0, 1}, []byte("123456x"), make([]byte, 9)} {
			err := m.Scan(pgtype.Int8OID, format, src, &got)
			if err == nil || got != 42 {
				t.Errorf("format %d: %q came back as %d, %v", format, src, got, err)
			}
		}
		if err := m.Scan(pgtype.Int8OID, format, negative, none); err == nil {
			t.Errorf("format %d: scanning into a nil *ID returned no error", format)
		}
		_, err = m.Encode(pgtype.Int8OID, format, snowflakeplugin.ID(-1), nil)
		if !errors.Is(err, snowflakeplugin.ErrInvalidID) {
			t.Errorf("format %d: writing -1 returned %v, want ErrInvalidID", format, err)
		}
	}
	plan := m.PlanScan(pgtype.Int8OID, pgtype.BinaryFormatCode, new(snowflakeplugin.ID))
	err := plan.Scan(make([]byte, 8), new(int64))
	if !errors.Is(err, pgtype.ErrScanTargetTypeChanged) {
		t.Errorf("the plan for IDs was given an *int64 and returned %v", err)
	}
}

func TestRegisteringTwiceChangesNothing(t *testing.T) {
	m := registered()
	scalar, _ := m.TypeForOID(pgtype.Int8OID)
	array, _ := m.TypeForOID(pgtype.Int8ArrayOID)
	pgxid.Register(m)
	if again, _ := m.TypeForOID(pgtype.Int8OID); again != scalar {
		t.Error("the bigint type was wrapped again")
	}
	if again, _ := m.TypeForOID(pgtype.Int8ArrayOID); again != array {
		t.Error("the array type was created again")
	}
}

// spelled writes every int64 as a word. It stands for a codec of the caller.
type spelled struct{ pgtype.Int8Codec }

func (spelled) PlanEncode(*pgtype.Map, uint32, int16, any) pgtype.EncodePlan { return spell{} }

type spell struct{}

func (spell) Encode(_ any, buf []byte) ([]byte, error) { return append(buf, "many"...), nil }

func TestRegisterKeepsTheCodecsOfTheCaller(t *testing.T) {
	m := pgtype.NewMap()
	m.RegisterType(&pgtype.Type{Name: "int8", OID: pgtype.Int8OID, Codec: spelled{}})
	array := &pgtype.Type{Name: "_int8", OID: pgtype.Int8ArrayOID, Codec: pgtype.TextCodec{}}
	m.RegisterType(array)
	pgxid.Register(m)
	got, err := m.Encode(pgtype.Int8OID, pgtype.TextFormatCode, int64(7), nil)
	if err != nil || string(got) != "many" {
		t.Errorf("an int64 became %q, %v", got, err)
	}
	got, err = m.Encode(pgtype.Int8OID, pgtype.TextFormatCode, snowflakeplugin.ID(7), nil)
	if err != nil || string(got) != "7" {
		t.Errorf("an ID became %q, %v", got, err)
	}
	if kept, _ := m.TypeForOID(pgtype.Int8ArrayOID); kept != array {
		t.Error("the array codec was replaced")
	}
}

func TestRegisterLeavesOtherMapsAlone(t *testing.T) {
	_ = registered()
	scalar, _ := pgtype.NewMap().TypeForOID(pgtype.Int8OID)
	if _, ok := scalar.Codec.(pgtype.Int8Codec); !ok {
		t.Errorf("the codec of a fresh map is a %T", scalar.Codec)
	}
}

func TestRegisteredIDsAllocateNothing(t *testing.T) {
	m := registered()
	var (
		value  any = snowflakeplugin.ID(math.MaxInt64)
		target any = new(snowflakeplugin.ID)
		buf        = make([]byte, 0, 32)
	)
	for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
		src, err := m.Encode(pgtype.Int8OID, format, value, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			_, err = m.Encode(pgtype.Int8OID, format, value, buf)
		}); err != nil || n != 0 {
			t.Errorf("format %d: %v allocations to write an ID, %v", format, n, err)
		}
		plan := m.PlanScan(pgtype.Int8OID, format, target) // pgx plans once for a result
		if n := testing.AllocsPerRun(100, func() { err = plan.Scan(src, target) }); err != nil ||
			n != 0 {
			t.Errorf("format %d: %v allocations to read an ID, %v", format, n, err)
		}
	}
}
