package load_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// grpcConn is a client of gRPC that writes the frames itself: one connection with one request at a time.
// For the reasons see overJSON.
type grpcConn struct {
	net.Conn

	framer  *http2.Framer
	decoder *hpack.Decoder
	stream  uint32
	status  string // of the answer that is being read
	grpc    string
	headers [][]byte       // the header block of the first request, and that of all others
	bodies  map[int][]byte // by count
	out     []byte
}

func overGRPC(t *testing.T, address string) maker {
	t.Helper()
	return func() (call, error) {
		conn, err := dial(t, address)
		if err != nil {
			return nil, err
		}
		c := &grpcConn{Conn: conn, stream: 1, bodies: map[int][]byte{}}
		c.framer = http2.NewFramer(conn, bufio.NewReaderSize(conn, 64<<10))
		c.framer.SetReuseFrames()
		c.decoder = hpack.NewDecoder(4096, c.note)
		_, err = io.WriteString(conn, http2.ClientPreface)
		// The windows are never used up, so they need no further care.
		err = errors.Join(err,
			c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}),
			c.framer.WriteWindowUpdate(0, 1<<30))
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for range 2 { // what the second one says was said by the first one, so it is short
			block.Reset()
			for _, field := range [][2]string{
				{":method", "POST"}, {":scheme", "http"}, {":path", "/snowflake.v1.IDService/Next"}, {":authority", address},
				{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "grpc-load"},
			} {
				err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
			}
			c.headers = append(c.headers, bytes.Clone(block.Bytes()))
		}
		return c.next, err
	}
}

func (c *grpcConn) note(field hpack.HeaderField) {
	switch field.Name {
	case ":status":
		c.status = field.Value
	case "grpc-status":
		c.grpc = field.Value
	}
}

// next is the call.
func (c *grpcConn) next(ids []int64, count int) ([]int64, error) {
	if c.bodies[count] == nil {
		message := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(count))
		c.bodies[count] = append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	}
	block := c.headers[min(c.stream/2, 1)]
	c.out = frame(c.out[:0], http2.FrameHeaders, http2.FlagHeadersEndHeaders, c.stream, block)
	c.out = frame(c.out, http2.FrameData, http2.FlagDataEndStream, c.stream, c.bodies[count])
	if _, err := c.Write(c.out); err != nil {
		return ids, err
	}
	c.status, c.grpc = "", ""
	var message []byte
	for {
		read, err := c.framer.ReadFrame()
		if err != nil {
			return ids, err
		}
		ended := false
		switch f := read.(type) {
		case *http2.HeadersFrame:
			if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil || !f.HeadersEnded() {
				return ids, fmt.Errorf("the headers cannot be read: %w", err)
			}
			ended = f.StreamEnded()
		case *http2.DataFrame:
			message = append(message, f.Data()...)
			ended = f.StreamEnded()
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			err = c.framer.WritePing(true, f.Data)
		case *http2.WindowUpdateFrame:
		default:
			err = fmt.Errorf("unexpected %v", read)
		}
		if err != nil {
			return ids, err
		}
		if ended {
			break
		}
	}
	c.stream += 2
	if c.status != "200" || c.grpc != "0" {
		return ids, fmt.Errorf("status %s, status of gRPC %s", c.status, c.grpc)
	}
	return parseMessage(ids, message)
}

// frame appends a frame.
func frame(out []byte, kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
	out = append(out, 0, byte(len(payload)>>8), byte(len(payload)), byte(kind), byte(flags))
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

func parseMessage(ids []int64, message []byte) ([]int64, error) {
	if len(message) < 6 || message[0] != 0 || int(binary.BigEndian.Uint32(message[1:])) != len(message)-5 {
		return ids, fmt.Errorf("%.100q is no message", message)
	}
	field, kind, n := protowire.ConsumeTag(message[5:])
	list, m := protowire.ConsumeBytes(message[5+max(n, 0):])
	if field != 1 || kind != protowire.BytesType || m < 0 {
		return ids, fmt.Errorf("%.100q is no answer", message)
	}
	for len(list) > 0 {
		id, n := protowire.ConsumeVarint(list)
		if n < 0 {
			return ids, protowire.ParseError(n)
		}
		ids, list = append(ids, int64(id)), list[n:]
	}
	return ids, nil
}
