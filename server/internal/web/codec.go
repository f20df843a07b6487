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
	binary := codec{"proto", proto.MarshalOptions{}.MarshalAppend, func(text []byte, m proto.Message) error {
		if err := proto.Unmarshal(text, m); err != nil {
			return unreadable(m, err)
		}
		return known(m.ProtoReflect())
	}}
	text := codec{"json", protojson.MarshalOptions{EmitDefaultValues: true}.MarshalAppend,
		func(text []byte, m proto.Message) error {
			if len(text) == 0 {
				return errEmptyJSON
			}
			if err := protojson.Unmarshal(text, m); err != nil {
				return unreadable(m, err)
			}
			return nil
		}}
	same := text
	same.name = "json; charset=utf-8"
	return connect.WithHandlerOptions(
		connect.WithCodec(binary), connect.WithCodec(text), connect.WithCodec(same))
}

// codec is a form of messages. It implements connect.Codec.
type codec struct {
	name   string
	encode func(into []byte, m proto.Message) ([]byte, error)
	decode func(text []byte, m proto.Message) error
}

func (c codec) Name() string { return c.name }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend lets Connect use its buffers again.
func (c codec) MarshalAppend(into []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf(noMessage, message)
	}
	return c.encode(into, m)
}

func (c codec) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf(noMessage, message)
	}
	return c.decode(text, m)
}

func unreadable(m proto.Message, err error) error { return fmt.Errorf("unmarshal into %T: %w", m, err) }

const noMessage = "%T is no message of Protocol Buffers"

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
