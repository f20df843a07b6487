package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxTimeout limits how long a request may wait for replicas.
const MaxTimeout = 10 * time.Second

// A Strictness is what the option WithStrict asks for.
type Strictness struct {
	Replicas int           // all that the master has
	Timeout  time.Duration // for their confirmation
}

// Validate returns an error for a strictness that no server can have.
func (s Strictness) Validate() error {
	if s.Replicas < 0 {
		return fmt.Errorf("WithStrict: %d replicas; 0 is the least", s.Replicas)
	}
	if s.Timeout < time.Millisecond || s.Timeout > MaxTimeout {
		return fmt.Errorf("WithStrict: a timeout of %v is not from 1ms to %v", s.Timeout, MaxTimeout)
	}
	return nil
}

// Confirmed returns an error unless enough servers have confirmed. The answer is that of WAIT, a number of
// replicas, or that of WAITAOF: the disk of the master, and those of its replicas.
func (s Strictness) Confirmed(answer any) error {
	var confirmed int64
	switch value := answer.(type) {
	case int64:
		confirmed = value
	case []any:
		if len(value) != 2 || value[0] != int64(1) {
			return fmt.Errorf("the master did not confirm within %v that the write is on its disk", s.Timeout)
		}
		confirmed, _ = value[1].(int64)
	}
	if confirmed < int64(s.Replicas) {
		return fmt.Errorf("%d of %d replicas confirmed the write within %v, and a failover to another would "+
			"lose it: look why they lag, or are not there", confirmed, s.Replicas, s.Timeout)
	}
	return nil
}

// Settings are what a server says about itself: the answers to CONFIG GET *append*, CONFIG GET
// maxmemory-policy and INFO replication.
type Settings struct {
	Appending   map[string]string
	Memory      map[string]string
	Replication string
}

// Forgetful names the settings that let a server forget what it has acknowledged.
func (s Settings) Forgetful() (faults []error) {
	for _, setting := range []struct{ name, want string }{
		{"appendonly", "yes"}, {"appendfsync", "always"}, {"no-appendfsync-on-rewrite", "no"},
	} {
		if is := s.Appending[setting.name]; is != setting.want {
			faults = append(faults, fmt.Errorf("%s is %q, and has to be %q", setting.name, is, setting.want))
		}
	}
	if is := s.Memory["maxmemory-policy"]; is != "noeviction" && !strings.HasPrefix(is, "volatile-") {
		faults = append(faults, fmt.Errorf("maxmemory-policy is %q, which lets the server drop keys; "+
			"it has to be \"noeviction\"", is))
	}
	return faults
}

// Judge returns an error that names everything which lets the server forget, although that many replicas
// confirm.
func (s Settings) Judge(replicas int) error {
	faults := s.Forgetful()
	role, connected := "", ""
	for line := range strings.SplitSeq(s.Replication, "\r\n") {
		if value, found := strings.CutPrefix(line, "role:"); found {
			role = value
		}
		if value, found := strings.CutPrefix(line, "connected_slaves:"); found {
			connected = value
		}
	}
	if role != "master" {
		faults = append(faults, fmt.Errorf("the server is a %q, and has to be the master", role))
	} else if n, err := strconv.Atoi(connected); err != nil || n > replicas {
		faults = append(faults, fmt.Errorf("%q replicas are connected, and only %d have to confirm; a failover "+
			"to another would lose what it did not: name all of them in WithStrict", connected, replicas))
	}
	if len(faults) > 0 {
		return fmt.Errorf("the server may forget what it acknowledges, which WithStrict rules out: %w; change "+
			"that on every server and in its configuration file", errors.Join(faults...))
	}
	return nil
}

// Denied tells whether a server refuses to say how it is set: the user lacks the right, or the service has
// no such command.
func Denied(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "noperm") || strings.Contains(text, "unknown command")
}

// Readable says what to do about a server that does not say how it is set.
func Readable(err error) error {
	if err != nil && Denied(err) {
		return fmt.Errorf("the option WithStrict has to see how the server is set: %w; let this user run "+
			"CONFIG GET, INFO, WAIT, WAITAOF and COMMAND INFO, or leave WithStrict out if somebody else "+
			"answers for that", err)
	}
	return err
}
