// Writes kubernetes-1.35.schema: the shape of the built-in kinds this server offers, taken from the Go types of
// the Kubernetes API modules. Run from this directory, in any module that requires k8s.io/api,
// k8s.io/apimachinery and k8s.io/apiextensions-apiserver (testbed/kubernetes-1.35 does):
//
//	go run generate.go -modules "$(go list -m -f '{{.Path}}={{.Dir}}' all)" > kubernetes-1.35.schema
//
// Only field names, types, protobuf numbers and merge rules are taken; no text.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// pkg is one parsed Go package: its type declarations and, per file, what each import name stands for.
type pkg struct {
	short   string // "batch.v1"
	types   map[string]ast.Expr
	atomic  map[string]bool // structs that are owned as a whole
	imports map[string]string
}

var (
	modules = map[string]string{}
	parsed  = map[string]*pkg{}
	done    = map[string]bool{}
	output  = map[string][]string{}
	atomic  = map[string]bool{}
)

var roots = map[string][]string{
	"k8s.io/api/core/v1":          {"Namespace", "Node", "Pod", "ConfigMap", "Secret", "ServiceAccount", "Event", "Binding"},
	"k8s.io/api/batch/v1":         {"Job", "CronJob"},
	"k8s.io/api/events/v1":        {"Event"},
	"k8s.io/api/coordination/v1":  {"Lease"},
	"k8s.io/api/rbac/v1":          {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
	"k8s.io/api/authorization/v1": {"SelfSubjectAccessReview"},
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": {"CustomResourceDefinition"},
	"k8s.io/apimachinery/pkg/apis/meta/v1":                     {"DeleteOptions"},
}

// What is written as a scalar although Go knows it as a struct with its own JSON form.
var scalars = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                           "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                            "raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                            "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                          "intstr",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                             "raw",
	"k8s.io/apimachinery/pkg/types.UID":                                        "string",
	"k8s.io/apimachinery/pkg/types.NodeName":                                   "string",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps": "raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":            "raw",
}

func load(path string) *pkg {
	if p := parsed[path]; p != nil {
		return p
	}
	dir := ""
	for module, at := range modules {
		if path == module || strings.HasPrefix(path, module+"/") {
			dir = filepath.Join(at, strings.TrimPrefix(path, module))
		}
	}
	parts := strings.Split(path, "/")
	p := &pkg{short: strings.Join(parts[len(parts)-2:], "."), types: map[string]ast.Expr{}, atomic: map[string]bool{}, imports: map[string]string{}}
	parsed[path] = p
	files, err := parser.ParseDir(token.NewFileSet(), dir, func(f os.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		for _, f := range file.Files {
			for _, i := range f.Imports {
				to, _ := strconv.Unquote(i.Path.Value)
				name := filepath.Base(to)
				if i.Name != nil {
					name = i.Name.Name
				}
				p.imports[name] = to
			}
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					for _, s := range g.Specs {
						t := s.(*ast.TypeSpec)
						p.types[t.Name.Name] = t.Type
						if g.Doc != nil && strings.Contains(docText(g.Doc), "+structType=atomic") {
							p.atomic[t.Name.Name] = true
						}
					}
				}
			}
		}
	}
	return p
}

// spell writes a Go type in our notation and queues the structs it names.
func spell(path string, e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return "*" + spell(path, t.X)
	case *ast.ArrayType:
		if id, ok := t.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return "bytes"
		}
		return "[]" + spell(path, t.Elt)
	case *ast.MapType:
		return "map:" + spell(path, t.Value)
	case *ast.SelectorExpr:
		return named(load(path).imports[t.X.(*ast.Ident).Name], t.Sel.Name)
	case *ast.Ident:
		switch t.Name {
		case "string", "bool", "int32", "int64", "float64":
			return t.Name
		case "int":
			return "int64"
		}
		return named(path, t.Name)
	}
	panic(fmt.Sprintf("%s: %T", path, e))
}

func named(path, name string) string {
	if s, ok := scalars[path+"."+name]; ok {
		return s
	}
	p := load(path)
	def, ok := p.types[name]
	if !ok {
		panic("no type " + path + "." + name)
	}
	if _, ok := def.(*ast.StructType); !ok {
		return spell(path, def)
	}
	full := p.short + "." + name
	if p.atomic[name] {
		atomic[full] = true
	}
	if !done[full] {
		done[full] = true
		output[full] = fields(path, def.(*ast.StructType))
	}
	return full
}

// docText is the comment with its directives, which Text() leaves out.
func docText(group *ast.CommentGroup) string {
	text := ""
	for _, c := range group.List {
		text += c.Text + "\n"
	}
	return text
}

func fields(path string, s *ast.StructType) []string {
	var lines []string
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		raw, _ := strconv.Unquote(f.Tag.Value)
		tag := reflect.StructTag(raw)
		json := strings.Split(tag.Get("json"), ",")
		if json[0] == "" && len(json) > 1 && json[1] == "inline" {
			inline := spell(path, f.Type)
			if inline != "meta.v1.TypeMeta" {
				lines = append(lines, output[inline]...)
			}
			continue
		}
		if json[0] == "-" {
			continue
		}
		number := "-"
		if pb := strings.Split(tag.Get("protobuf"), ","); len(pb) > 1 {
			number = pb[1]
		}
		words := []string{json[0], spell(path, f.Type), number}
		if strings.Contains(tag.Get("json"), "omitzero") {
			words = append(words, "omitzero")
		}
		if !strings.Contains(tag.Get("json"), "omit") {
			words = append(words, "keep")
		}
		comment := ""
		if f.Doc != nil {
			for _, c := range f.Doc.List {
				comment += strings.TrimSpace(strings.TrimPrefix(c.Text, "//")) + "\n"
			}
		}
		optional := false
		var keys []string
		for _, line := range strings.Split(comment, "\n") {
			switch {
			case line == "+optional":
				optional = true
			case strings.HasPrefix(line, "+listType="), strings.HasPrefix(line, "+mapType="), strings.HasPrefix(line, "+structType="):
				if kind := line[strings.Index(line, "=")+1:]; kind != "granular" {
					words = append(words, "list="+kind)
				}
			case strings.HasPrefix(line, "+listMapKey="):
				keys = append(keys, strings.TrimPrefix(line, "+listMapKey="))
			}
		}
		if len(keys) > 0 {
			words = append(words, "keys="+strings.Join(keys, ","))
		}
		if strategy := tag.Get("patchStrategy"); strategy != "" {
			words = append(words, "patch="+strategy)
		}
		if key := tag.Get("patchMergeKey"); key != "" {
			words = append(words, "merge="+key)
		}
		if !optional && !strings.Contains(tag.Get("json"), "omit") {
			words = append(words, "required")
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func main() {
	list := flag.String("modules", "", "lines of path=directory")
	flag.Parse()
	for _, line := range strings.Fields(*list) {
		if at := strings.SplitN(line, "=", 2); len(at) == 2 {
			modules[at[0]] = at[1]
		}
	}
	var paths []string
	for path := range roots {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		for _, name := range roots[path] {
			named(path, name)
		}
	}
	var names []string
	for name := range output {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if name == "meta.v1.TypeMeta" {
			continue
		}
		if atomic[name] {
			fmt.Println("type", name, "atomic")
		} else {
			fmt.Println("type", name)
		}
		for _, line := range output[name] {
			fmt.Println(" ", line)
		}
	}
}
