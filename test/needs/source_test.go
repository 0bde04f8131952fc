// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is the Go code of one folder, in which programs are looked for. It follows strings through variables,
// constants, fields, lists and the parameters of functions, by their names.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	asked map[string]bool // parameters whose arguments were looked up, against endless recursion
	found []start
	lost  []string // places that start a program which cannot be told from the code
}

// start is a program that a file starts.
type start struct{ program, at string }

// function is a function with its name. One without a name has that of the variable that it is assigned to, and is
// called only in the function around it.
type function struct {
	name   string
	params *ast.FieldList
	body   *ast.BlockStmt
	within ast.Node // nil if it may be called anywhere
}

// inGo returns the programs that the files start, and the places where it cannot tell which.
func inGo(paths []string) ([]start, []string, error) {
	s := &source{fset: token.NewFileSet(), asked: map[string]bool{}}
	for _, path := range paths {
		file, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		s.files = append(s.files, file)
	}
	for _, file := range s.files {
		s.calls(file)
	}
	return s.found, s.lost, nil
}

// calls looks at all calls and lists of a file.
func (s *source) calls(file *ast.File) {
	ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if at := starter(n); at >= 0 && at < len(n.Args) {
				s.command(n.Args[at:], scopes(stack))
			}
			s.listed(n.Args, scopes(stack))
			s.appended(n, scopes(stack))
		case *ast.CompositeLit:
			s.listed(n.Elts, scopes(stack))
		}
		return true
	})
}

// starter returns which argument of a call is the program that it starts or looks for, or -1.
func starter(call *ast.CallExpr) int {
	switch name(call.Fun) {
	case "exec.Command", "exec.LookPath":
		return 0
	case "exec.CommandContext", "needs.Program", "needs.Optional":
		return 1
	}
	return -1
}

// name is that of a function that is called: f, or x.f.
func name(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
		return "." + fun.Sel.Name
	}
	return ""
}

// last is the name of a function that is called, without what is before its dot.
func last(fun ast.Expr) string {
	n := name(fun)
	return n[strings.LastIndex(n, ".")+1:]
}

// scopes are the functions around a node, the innermost first.
func scopes(stack []ast.Node) []function {
	var around []function
	for i := len(stack) - 1; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.FuncDecl:
			around = append(around, function{n.Name.Name, n.Type.Params, n.Body, nil})
		case *ast.FuncLit:
			f := function{"", n.Type.Params, n.Body, stack[min(1, i)]} // stack[0] is the file
			if a, ok := stack[max(i-1, 0)].(*ast.AssignStmt); ok {
				for k, rhs := range a.Rhs {
					if id, ok := a.Lhs[min(k, len(a.Lhs)-1)].(*ast.Ident); ok && rhs == ast.Expr(n) {
						f.name = id.Name
					}
				}
			}
			around = append(around, f)
		}
	}
	return around
}

// add notes the programs of a command.
func (s *source) add(at ast.Node, words []string, shell bool) {
	for _, p := range programsOf(words, shell) {
		s.found = append(s.found, start{p, s.position(at)})
	}
}

func (s *source) position(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// command notes the programs of exec.Command(args...).
func (s *source) command(args []ast.Expr, around []function) {
	if !s.run(args, around) {
		s.lost = append(s.lost, s.position(args[0]))
	}
}

// run notes the programs of a command, and reports whether it can tell them.
func (s *source) run(args []ast.Expr, around []function) bool {
	if len(args) == 0 {
		return false
	}
	programs, words := s.texts(args[0], around), s.words(args[1:], around)
	for _, p := range programs {
		s.add(args[0], append([]string{p}, words...), false)
	}
	return len(programs) > 0
}

// listed notes the programs behind a "--", and those of a script behind "sh", "-c", in a list of arguments.
func (s *source) listed(args []ast.Expr, around []function) {
	for i, arg := range args {
		switch literal(arg) {
		case "--":
			s.run(args[i+1:], around)
		case "env", "nohup", "setpriv", "unshare": // they start another
			s.add(arg, s.words(args[i:], around), false)
		case "sh", "bash":
			if i+2 < len(args) && literal(args[i+1]) == "-c" {
				for _, script := range s.texts(args[i+2], around) {
					s.add(arg, []string{"sh", "-c", script}, false)
				}
			}
		}
	}
}

// appended notes the programs that are appended to a list which ends with "--".
func (s *source) appended(call *ast.CallExpr, around []function) {
	if name(call.Fun) != "append" || len(call.Args) < 2 || len(around) == 0 || !s.ends(call.Args[0], around) {
		return
	}
	if call.Ellipsis.IsValid() {
		for _, p := range s.firsts(call.Args[1], around) {
			s.add(call, []string{p}, false)
		}
		return
	}
	s.run(call.Args[1:], around)
}

// ends reports whether a list may end with "--".
func (s *source) ends(list ast.Expr, around []function) bool {
	switch list := list.(type) {
	case *ast.CompositeLit:
		return len(list.Elts) > 0 && literal(list.Elts[len(list.Elts)-1]) == "--"
	case *ast.CallExpr:
		return name(list.Fun) == "append" && literal(list.Args[len(list.Args)-1]) == "--"
	case *ast.Ident:
		found := false
		// Only what the innermost functions assign to the variable counts.
		for _, f := range around {
			ast.Inspect(f.body, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok {
					for i, l := range a.Lhs {
						id, ok := l.(*ast.Ident)
						found = found || ok && id.Name == list.Name && i < len(a.Rhs) && s.endsHere(a.Rhs[i])
					}
				}
				return true
			})
		}
		return found
	}
	return false
}

// endsHere is ends for a list that is no variable.
func (s *source) endsHere(list ast.Expr) bool {
	_, variable := list.(*ast.Ident)
	return !variable && s.ends(list, nil)
}

// words are the arguments of a command, as far as they are known.
func (s *source) words(args []ast.Expr, around []function) []string {
	var words []string
	for i, arg := range args {
		word := computed
		switch {
		case literal(arg) != "":
			word = literal(arg)
		case i > 0 && literal(args[i-1]) == "-c":
			word = strings.Join(s.texts(arg, around), "\n")
		}
		words = append(words, word)
	}
	return words
}

// literal is the value of a string in the code, or empty.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// verb is a verb of fmt.
var verb = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)

// texts returns the values that an expression may have: what the program computes is a zero byte in them.
func (s *source) texts(e ast.Expr, around []function) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return []string{literal(e)}
	case *ast.ParenExpr:
		return s.texts(e.X, around)
	case *ast.BinaryExpr:
		var all []string
		for _, x := range s.or(e.X, around) {
			for _, y := range s.or(e.Y, around) {
				all = append(all, x+y)
			}
		}
		return all
	case *ast.CallExpr:
		return s.called(e, around)
	case *ast.IndexExpr:
		if zero, ok := e.Index.(*ast.BasicLit); ok && zero.Value == "0" {
			return s.firsts(e.X, around)
		}
		return []string{computed}
	case *ast.SelectorExpr:
		return s.fields(e.Sel.Name, func(e ast.Expr, around []function) []string { return s.texts(e, around) })
	case *ast.Ident:
		return s.variable(e, around, false)
	}
	return nil
}

// or is texts, or a computed text.
func (s *source) or(e ast.Expr, around []function) []string {
	if all := s.texts(e, around); len(all) > 0 {
		return all
	}
	return []string{computed}
}

// called returns the values of a call. One of another package makes a path, or looks for a program and is found itself.
func (s *source) called(call *ast.CallExpr, around []function) []string {
	switch name(call.Fun) {
	case "fmt.Sprintf":
		var all []string
		for _, format := range s.or(call.Args[0], around) {
			all = append(all, verb.ReplaceAllString(format, computed))
		}
		return all
	case "strings.Replace", "strings.ReplaceAll":
		var all []string
		for _, text := range s.or(call.Args[0], around) {
			all = append(all, strings.ReplaceAll(text, literal(call.Args[1]), literal(call.Args[2])))
		}
		return all
	}
	return s.returned(call, s.texts)
}

// firsts returns the values of the first element of a list, or of the elements if they are lists.
func (s *source) firsts(e ast.Expr, around []function) []string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		if len(e.Elts) == 0 {
			return nil
		}
		return s.texts(e.Elts[0], around)
	case *ast.SliceExpr:
		return s.firsts(e.X, around)
	case *ast.SelectorExpr:
		if name(e) == "os.Args" {
			return []string{computed}
		}
		return s.fields(e.Sel.Name, s.firsts)
	case *ast.Ident:
		return s.variable(e, around, true)
	case *ast.CallExpr:
		switch name(e.Fun) {
		case "append":
			all := s.firsts(e.Args[0], around)
			if len(all) > 0 || len(e.Args) == 1 {
				return all
			}
			if e.Ellipsis.IsValid() {
				return s.firsts(e.Args[1], around)
			}
			return s.texts(e.Args[1], around)
		case "slices.Concat", "slices.Insert", "slices.Clone":
			return s.firsts(e.Args[0], around)
		case "strings.Fields":
			var all []string
			for _, text := range s.texts(e.Args[0], around) {
				all = append(all, strings.Fields(text + " ")[0])
			}
			return all
		}
		return s.returned(e, s.firsts)
	}
	return nil
}

// returned returns the values of what a function of these files returns.
func (s *source) returned(call *ast.CallExpr, value func(ast.Expr, []function) []string) []string {
	all := []string{computed}
	for _, f := range s.functions() {
		what := "result of " + f.name
		if f.name != last(call.Fun) || s.again(what) {
			continue
		}
		ast.Inspect(f.body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
				all = append(all, value(r.Results[0], []function{f})...)
			}
			return true
		})
		delete(s.asked, what)
	}
	return all
}

// functions are the named functions of the files.
func (s *source) functions() []function {
	var all []function
	for _, file := range s.files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				all = append(all, function{f.Name.Name, f.Type.Params, f.Body, nil})
			}
		}
	}
	return all
}

// again reports whether something is being looked up for the second time.
func (s *source) again(what string) bool {
	seen := s.asked[what]
	s.asked[what] = true
	return seen
}

// variable returns the values of a variable, a constant or a parameter, or of its first element.
func (s *source) variable(id *ast.Ident, around []function, first bool) []string {
	value := s.texts
	if first {
		value = s.firsts
	}
	for i, f := range around {
		if all, isParam := s.parameter(f, id.Name, first); isParam {
			return all
		}
		if all := assigned(f.body, id, func(e ast.Expr) []string { return value(e, around[i:]) },
			func(e ast.Expr) []ast.Expr { return s.elements(e, around[i:]) }); len(all) > 0 {
			return all
		}
	}
	// A variable of the package may be set in any function.
	var all []string
	for _, file := range s.files {
		for _, d := range file.Decls {
			if _, function := d.(*ast.FuncDecl); !function || s.isOfPackage(id.Name) {
				all = append(all, assigned(d, id, func(e ast.Expr) []string { return value(e, nil) },
					func(e ast.Expr) []ast.Expr { return s.elements(e, nil) })...)
			}
		}
	}
	return all
}

// isOfPackage reports whether a variable is one of the package.
func (s *source) isOfPackage(id string) bool {
	for _, file := range s.files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok &&
					slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name == id }) {
					return true
				}
			}
		}
	}
	return false
}

// assigned returns the values that a node gives a variable.
func assigned(in ast.Node, id *ast.Ident, value func(ast.Expr) []string, elements func(ast.Expr) []ast.Expr) []string {
	var all []string
	set := func(lhs, rhs []ast.Expr) {
		for i, l := range lhs {
			if x, ok := l.(*ast.Ident); ok && x.Name == id.Name && len(rhs) > 0 && (i < len(rhs) || i == 0) {
				all = append(all, value(rhs[i])...)
			}
		}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			set(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			for i, x := range n.Names {
				if x.Name == id.Name && i < len(n.Values) {
					all = append(all, value(n.Values[i])...)
				}
			}
		case *ast.RangeStmt:
			if id.Pos() < n.Pos() || id.Pos() > n.End() { // another variable of the same name
				break
			}
			for _, e := range elements(n.X) {
				key, val := ast.Expr(nil), e
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					key, val = kv.Key, kv.Value
				}
				if x, ok := n.Key.(*ast.Ident); ok && x.Name == id.Name && key != nil {
					all = append(all, value(key)...)
				}
				if x, ok := n.Value.(*ast.Ident); ok && x.Name == id.Name {
					all = append(all, value(val)...)
				}
			}
		}
		return true
	})
	return all
}

// elements returns what is in a list, or what the calls of a function give to a parameter that takes any number.
func (s *source) elements(e ast.Expr, around []function) []ast.Expr {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return e.Elts
	case *ast.Ident:
		for _, f := range around {
			at := 0
			for _, field := range f.params.List {
				for _, n := range field.Names {
					if _, variadic := field.Type.(*ast.Ellipsis); variadic && n.Name == e.Name {
						var all []ast.Expr
						s.callsOf(f, at, func(args []ast.Expr, _ bool, _ []function) { all = append(all, args...) })
						return all
					}
					at++
				}
			}
		}
	}
	return nil
}

// callsOf hands over the arguments of all calls of a function, from a number on, and whether the last is a list that
// is spread.
func (s *source) callsOf(f function, at int, visit func(args []ast.Expr, spread bool, around []function)) {
	for _, file := range s.files {
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && last(call.Fun) == f.name && at < len(call.Args) &&
				(f.within == nil || slices.Contains(stack, f.within)) {
				visit(call.Args[at:], call.Ellipsis.IsValid(), scopes(stack))
			}
			return true
		})
	}
}

// parameter returns the values that the calls of a function give to a parameter. It reports whether there is such a
// one.
func (s *source) parameter(f function, id string, first bool) ([]string, bool) {
	at := 0
	for _, field := range f.params.List {
		for _, n := range field.Names {
			if n.Name == id {
				_, variadic := field.Type.(*ast.Ellipsis)
				return s.arguments(f, at, variadic, first), true
			}
			at++
		}
	}
	return nil, false
}

// arguments returns the values of an argument of all calls of a function.
func (s *source) arguments(f function, at int, variadic, first bool) []string {
	what := fmt.Sprintf("argument %d of %s", at, f.name)
	if f.name == "" || s.again(what) {
		return []string{computed}
	}
	defer delete(s.asked, what)
	var all []string
	s.callsOf(f, at, func(args []ast.Expr, spread bool, around []function) {
		if first && (!variadic || spread) {
			all = append(all, s.firsts(args[0], around)...)
		} else {
			all = append(all, s.texts(args[0], around)...)
		}
	})
	return all
}

// fields returns the values that the files give to the fields of a name.
func (s *source) fields(field string, value func(ast.Expr, []function) []string) []string {
	if s.again("field " + field) {
		return []string{computed}
	}
	defer delete(s.asked, "field "+field)
	var all []string
	for _, file := range s.files {
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if x, ok := n.Key.(*ast.Ident); ok && x.Name == field {
					all = append(all, value(n.Value, scopes(stack))...)
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if x, ok := l.(*ast.SelectorExpr); ok && x.Sel.Name == field && i < len(n.Rhs) {
						all = append(all, value(n.Rhs[i], scopes(stack))...)
					}
				}
			}
			return true
		})
	}
	return slices.Compact(all)
}
