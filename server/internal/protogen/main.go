// Command protogen generates the Go code of the .proto files, or checks that the generated code is
// fresh:
//
//	go run ./internal/protogen          # write
//	go run ./internal/protogen -check   # compare, and fail if something differs
//
// It needs no protoc: it compiles the files with a compiler in Go, and runs the generators at the
// versions that go.mod pins, with go tool.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	sources = "proto"
	output  = "snowflakev1"
	module  = "github.com/snowflakeplugin/snowflakeplugin/server"
)

func main() {
	check := flag.Bool("check", false, "compare the generated code and write nothing")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	if _, err := os.Stat(sources); err != nil {
		return fmt.Errorf("run it in the directory of the module: %w", err)
	}
	request, err := compile(ctx)
	if err != nil {
		return err
	}
	wanted := map[string]string{}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-connect-go"} {
		if err := generate(ctx, generator, request, wanted); err != nil {
			return err
		}
	}
	if check {
		return compare(wanted)
	}
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	for name, text := range wanted {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // sources are public
			return err
		}
	}
	return nil
}

// compile reads the .proto files and returns what protoc would send to a generator.
func compile(ctx context.Context) (*pluginpb.CodeGeneratorRequest, error) {
	names, err := fs.Glob(os.DirFS(sources), "*/*/*.proto")
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{ImportPaths: []string{sources}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("module=" + module),
	}
	known := map[string]bool{}
	var add func(file *descriptorpb.FileDescriptorProto)
	add = func(file *descriptorpb.FileDescriptorProto) {
		if known[file.GetName()] {
			return
		}
		known[file.GetName()] = true
		for _, name := range file.GetDependency() {
			for _, compiled := range files {
				if imported := compiled.FindImportByPath(name); imported != nil {
					add(protoutil.ProtoFromFileDescriptor(imported))
				}
			}
		}
		request.ProtoFile = append(request.ProtoFile, file)
	}
	for _, file := range files {
		add(protoutil.ProtoFromFileDescriptor(file))
	}
	return request, nil
}

// generate runs a generator and adds the files that it makes.
func generate(
	ctx context.Context, generator string, request *pluginpb.CodeGeneratorRequest, files map[string]string,
) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", generator, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("%s: %w", generator, err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s: %s", generator, response.GetError())
	}
	for _, file := range response.File {
		files[filepath.FromSlash(file.GetName())] = file.GetContent()
	}
	return nil
}

// compare returns an error that names every file which differs.
func compare(wanted map[string]string) error {
	var faults []string
	for name, text := range wanted {
		if have, err := os.ReadFile(name); err != nil || string(have) != text {
			faults = append(faults, name+" is stale")
		}
	}
	err := filepath.WalkDir(output, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if _, known := wanted[name]; !known {
			faults = append(faults, name+" is not generated any more")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return errors.New(strings.Join(faults, "; ") + "; run \"make generate\" and commit the result")
}
