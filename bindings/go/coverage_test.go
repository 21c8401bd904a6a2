package ferry

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	if out, err := exec.Command("go", "run", "./generate", "-check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func readSources(t *testing.T) string {
	var sources strings.Builder
	for _, pattern := range []string{"*.go", "calls.h"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(text)
			}
		}
	}
	return sources.String()
}

func readUnused(t *testing.T) map[string]bool {
	text, err := os.ReadFile("unused.txt")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if words := strings.Fields(line); words[0] != "#" {
			if len(words) < 3 {
				t.Errorf("%s has no reason", words[0])
			}
			unused[words[0]] = true
		}
	}
	return unused
}

func TestEveryFunctionIsUsedOrHasAReasonNotToBe(t *testing.T) {
	text, err := exec.Command("python3", "../../tools/describe.py", "../../include/ferry").Output()
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Functions []struct{ Name string }
		Structs   []struct {
			Name   string
			Fields []struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	unused, used := readUnused(t), map[string]bool{}
	for _, call := range regexp.MustCompile(`\b(?:C\.)?(?:go_)?(ferry_\w+)\(`).FindAllStringSubmatch(readSources(t), -1) {
		used[call[1]] = true
	}
	known := map[string]bool{}
	check := func(name string, isUsed bool) {
		known[name] = true
		if isUsed == unused[name] {
			t.Errorf("%s: used is %v, listed in unused.txt is %v", name, isUsed, unused[name])
		}
	}
	for _, function := range described.Functions {
		check(function.Name, used[function.Name])
	}
	prefixes := map[string]string{"ferry_options": "", "ferry_software_options": "software"}
	for _, one := range described.Structs {
		prefix, isOptions := prefixes[one.Name]
		if !isOptions {
			continue
		}
		for _, field := range one.Fields {
			name := prefix + strings.ToLower(strings.ReplaceAll(field.Name, "_", ""))
			_, found := reflect.TypeOf(Options{}).FieldByNameFunc(func(s string) bool { return strings.ToLower(s) == name })
			if found || unused[one.Name+"."+field.Name] {
				check(one.Name+"."+field.Name, found)
			} else if !regexp.MustCompile(`^(struct_size|reserved1?|log_user|staging_cpu_count|driver_options)$`).MatchString(field.Name) {
				t.Errorf("Options has no field for %s.%s", one.Name, field.Name)
			}
		}
	}
	for name := range unused {
		if !known[name] {
			t.Errorf("unused.txt lists %s, which does not exist", name)
		}
	}
}

func TestAnAsynchronousCopyOfAGoSliceDoesNotCompile(t *testing.T) {
	for name, message := range map[string]string{
		"copy": "GoPlace does not implement ferry.Memory", "batch": "GoPlace does not implement ferry.Memory",
		"fill": "GoPlace does not implement ferry.Memory", "pointers": "does not implement ferry.Element"} {
		out, err := exec.Command("go", "build", "-o", os.DevNull, "./testdata/refused/"+name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), message) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
