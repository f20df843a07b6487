package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// scripts are clients in other languages. They use nothing but what comes with their interpreters.
//
//go:embed client.py client.mjs page.html
var scripts embed.FS

// foreign is a client that is another program. It asks for three IDs.
type foreign struct {
	name string
	ask  func(context.Context, *replica) ([]string, error)
}

func foreignClients() []foreign {
	return []foreign{
		{"curl", func(ctx context.Context, r *replica) ([]string, error) {
			text, err := output(ctx, "", "curl", "--silent", "--fail", "--header", "Content-Type: application/json",
				"--data", `{"count": 3}`, "http://"+r.http+"/snowflake.v1.IDService/Next")
			if err != nil {
				return nil, err
			}
			var answer struct {
				IDs []string `json:"ids"`
			}
			err = json.Unmarshal([]byte(text), &answer)
			return answer.IDs, err
		}},
		{"redis-cli", func(ctx context.Context, r *replica) ([]string, error) {
			_, port, _ := strings.Cut(r.resp, ":")
			text, err := output(ctx, "", "redis-cli", "-p", port, "SNOWFLAKE.NEXT", "3")
			return strings.Fields(text), err
		}},
		{"Python", func(ctx context.Context, r *replica) ([]string, error) {
			return script(ctx, "client.py", "python3", "-", r.http)
		}},
		{"Node", func(ctx context.Context, r *replica) ([]string, error) {
			return script(ctx, "client.mjs", "node", "--input-type=module", "-", r.http)
		}},
	}
}

// script runs a program that reads the script from its standard input.
func script(ctx context.Context, file, program string, args ...string) ([]string, error) {
	text, err := scripts.ReadFile(file)
	if err != nil {
		return nil, err
	}
	answer, err := output(ctx, string(text), program, args...)
	return strings.Fields(answer), err
}

func output(ctx context.Context, input, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin = strings.NewReader(input)
	text, err := command.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		err = fmt.Errorf("%w: %s", err, ended.Stderr)
	}
	return string(text), err
}

// get returns the body of a page that answers with status 200.
func get(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}
