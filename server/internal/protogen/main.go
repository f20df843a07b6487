// Command protogen generates the Go code of the .proto files into a directory, in place of what was there:
//
//	go run ./internal/protogen .
//
// It needs no protoc: it compiles the files with a compiler in Go, and runs the generators at the
// versions that go.mod pins, with go tool.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

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
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "protogen: name the directory")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	if _, err := os.Stat(sources); err != nil {
		return fmt.Errorf("run it in the directory of the module: %w", err)
	}
	request, err := compile(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-connect-go"} {
		if err := generate(ctx, generator, request, files); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, output)); err != nil {
		return err
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
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
