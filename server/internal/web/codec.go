package web

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	errEmptyJSON    = errors.New("zero-length payload is not a valid JSON object")
	errUnknownField = errors.New("the message has a field that this service does not know")
)

// codecs are those of Connect, but strict: a field that a message does not have is an error. It is a mistake
// in typing, or meant for another version of the service, and both would get something else than they asked
// for. Messages in JSON have all their fields, also those that are zero.
func codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(binaryCodec{}), connect.WithCodec(jsonCodec{"json"}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
	)
}

type binaryCodec struct{}

func (binaryCodec) Name() string   { return "proto" }
func (binaryCodec) IsBinary() bool { return true }

func (c binaryCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (binaryCodec) MarshalAppend(into []byte, message any) ([]byte, error) {
	m, err := protoOf(message)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(into, m)
}

func (binaryCodec) MarshalStable(message any) ([]byte, error) {
	m, err := protoOf(message)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func (binaryCodec) Unmarshal(text []byte, message any) error {
	m, err := protoOf(message)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(text, m); err != nil {
		return fmt.Errorf("unmarshal into %T: %w", message, err)
	}
	return known(m.ProtoReflect())
}

// known returns an error if a message, or one inside of it, has fields that its type does not have.
func known(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return errUnknownField
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			err = known(value.Message())
		}
		return err == nil
	})
	return err
}

type jsonCodec struct{ name string }

func (c jsonCodec) Name() string { return c.name }
func (jsonCodec) IsBinary() bool { return false }

func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (jsonCodec) MarshalAppend(into []byte, message any) ([]byte, error) {
	m, err := protoOf(message)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend(into, m)
}

func (c jsonCodec) MarshalStable(message any) ([]byte, error) { return c.Marshal(message) }

func (jsonCodec) Unmarshal(text []byte, message any) error {
	m, err := protoOf(message)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return errEmptyJSON
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		return fmt.Errorf("unmarshal into %T: %w", message, err)
	}
	return nil
}

func protoOf(message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message of Protocol Buffers", message)
	}
	return m, nil
}
