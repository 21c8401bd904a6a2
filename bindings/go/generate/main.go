// Command generate makes constants.go, structs.go and streams.h from the C headers: go run ./generate [-check]
// With -check it writes nothing, and fails if a file is not current. Run it in bindings/go. It needs Python, which reads
// the header.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"strings"
)

type constant struct {
	Name, Type, Comment string
	Value               int64
}

type field struct {
	Name, Type, Is, Constants, Comment string
	Count                              any // a number, or the name of the field that has it
}

type parameter struct{ Name, Type string }

type description struct {
	Constants []struct {
		Group, Type, Kind string
		Values            []constant
	}
	Structs []struct {
		Name, Comment string
		Fields        []field
	}
	Functions []struct {
		Name, Returns string
		Parameters    []parameter
	}
}

// The Go types of groups whose prefix says too little, or too much. Numbers that stand alone have no type.
var names = map[string]string{
	"FERRY_ERROR": "Status", "FERRY_STATUS": "Traits", "FERRY_PROFILE": "ProfileOrigin", "FERRY_TRACE": "TraceKind",
	"FERRY_LOG": "LogLevel", "FERRY_HANDLE": "HandleTypes", "FERRY_HOST_FROM": "HostOrigin",
	"FERRY_MEMORY": "MemoryKind", "FERRY_EXTERNAL": "ExternalType", "FERRY_SEMAPHORE": "SemaphoreType",
	"FERRY_IPC": "IPCKind", "FERRY_EXTERNAL_DEDICATED": "ExternalFlags", "FERRY_STREAM": "StreamFlags",
}

// typeOf returns the Go type of a group of constants.
func typeOf(group, kind string) string {
	switch name, ok := names[group]; {
	case kind == "number" || group == "":
		return ""
	case ok:
		return name
	case kind == "flags":
		return camel(strings.TrimPrefix(group, "FERRY_")) + "Flags"
	default:
		return camel(strings.TrimPrefix(group, "FERRY_"))
	}
}

// The structs that have a Go type, and whether the package reads them from C or passes them to C.
var structs = []struct {
	name, goName string
	read, passed bool
	format       string // the function that writes a line about the struct
}{
	{name: "ferry_report", goName: "Report", read: true},
	{name: "ferry_device_info", goName: "DeviceInfo", read: true},
	{name: "ferry_explanation", goName: "Explanation", read: true, format: "ferry_explanation_format"},
	{name: "ferry_batch_share", goName: "BatchShare", read: true},
	{name: "ferry_batch_explanation", goName: "BatchExplanation", read: true,
		format: "ferry_batch_explanation_format"},
	{name: "ferry_ticket_info", goName: "TicketInfo", read: true},
	{name: "ferry_address_info", goName: "AddressInfo", read: true},
	{name: "ferry_deferred_info", goName: "DeferredInfo", read: true},
	{name: "ferry_pool_stats", goName: "PoolStats", read: true},
	{name: "ferry_peer_info", goName: "PeerInfo", read: true},
	{name: "ferry_staging_info", goName: "StagingInfo", read: true},
	{name: "ferry_usage", goName: "Usage", read: true},
	{name: "ferry_pool_desc", goName: "PoolDesc", passed: true},
	{name: "ferry_pool_info", goName: "PoolInfo", read: true},
	{name: "ferry_pool_attributes", goName: "PoolAttributes", read: true, passed: true},
	{name: "ferry_ipc_info", goName: "IPCInfo", read: true},
	{name: "ferry_array_desc", goName: "ArrayDesc", read: true, passed: true},
	{name: "ferry_host_options", goName: "HostOptions", passed: true},
	{name: "ferry_pinned_pool_options", goName: "PinnedPoolOptions", passed: true},
	{name: "ferry_file_options", goName: "FileOptions", passed: true},
	{name: "ferry_file_info", goName: "FileInfo", read: true},
}

var initialisms = map[string]string{"sm": "SM", "sms": "SMs", "ns": "NS", "pci": "PCI", "uuid": "UUID", "luid": "LUID",
	"numa": "NUMA", "ipc": "IPC", "cuda": "CUDA", "cpus": "CPUs", "fd": "FD", "kmt": "KMT", "os": "OS"}

// camel turns row_pitch and ROW_PITCH into RowPitch.
func camel(name string) string {
	result := ""
	for _, word := range strings.Split(strings.ToLower(name), "_") {
		if upper, ok := initialisms[word]; ok {
			result += upper
		} else {
			result += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return result
}

func comment(text string) string {
	if text == "" {
		return ""
	}
	return " // " + strings.ReplaceAll(text, "\n", " ")
}

func constants(d *description) string {
	var out strings.Builder
	fmt.Fprintf(&out, "package ferry\n")
	for _, group := range d.Constants {
		goType, all := typeOf(group.Group, group.Kind), group.Group+"_*"
		if group.Values[0].Name == group.Group { // a constant that is a group of its own
			all = group.Group
		}
		if goType != "" {
			meaning := "is one of the constants"
			if all == group.Group {
				meaning = "is 0 or"
			} else if group.Kind == "flags" {
				meaning = "is any combination of the constants"
			}
			fmt.Fprintf(&out, "\n// %s %s %s.\ntype %s %s\n", goType, meaning, all, goType,
				strings.TrimSuffix(group.Type, "_t"))
		}
		fmt.Fprintf(&out, "\n// %s\nconst (\n", all)
		for _, one := range group.Values {
			fmt.Fprintf(&out, "\t%s %s = %d%s\n", camel(strings.TrimPrefix(one.Name, "FERRY_")), goType, one.Value,
				comment(one.Comment))
		}
		fmt.Fprintf(&out, ")\n")
	}
	return out.String()
}

// goType returns the type of a field. kinds has the kind of each group.
func goType(one field, kinds map[string]string) string {
	switch named := typeOf(one.Constants, kinds[one.Constants]); {
	case one.Is == "flag":
		return "bool"
	case one.Is == "bits":
		return "uint32"
	case named != "":
		return named
	case one.Is == "text":
		return "string"
	case one.Type == "uint8_t":
		return fmt.Sprintf("[%v]byte", one.Count)
	case one.Type == "int32_t":
		return "int"
	case one.Type == "uint32_t" || one.Type == "uint64_t":
		return strings.TrimSuffix(one.Type, "_t")
	case one.Type == "ferry_batch_share":
		return "BatchShare"
	}
	return "" // a pointer: left to the package, or left out
}

func goStructs(d *description) string {
	var out strings.Builder
	kinds := map[string]string{}
	for _, group := range d.Constants {
		kinds[group.Group] = group.Kind
	}
	fmt.Fprintf(&out, "package ferry\n\n// #include \"calls.h\"\nimport \"C\"\nimport \"unsafe\"\n")
	for _, wanted := range structs {
		for _, one := range d.Structs {
			if one.Name != wanted.name {
				continue
			}
			var fields, read, passed strings.Builder
			for _, f := range one.Fields {
				name, kind := camel(f.Name), goType(f, kinds)
				if f.Name == "struct_size" || f.Is == "reserved" || kind == "" {
					continue
				}
				fmt.Fprintf(&fields, "\t%s %s%s\n", name, kind, comment(strings.TrimPrefix(f.Comment, "1: ")))
				from := "c." + f.Name
				switch {
				case kind == "bool":
					from += " != 0"
				case kind == "string":
					from = "C.GoString(&" + from + "[0])"
				case f.Type == "uint8_t":
					from = fmt.Sprintf("*(*%s)(unsafe.Pointer(&%s))", kind, from)
				case kind == "BatchShare":
					from = "newBatchShare(&" + from + ")"
				default:
					from = kind + "(" + from + ")"
				}
				fmt.Fprintf(&read, "\t\t%s: %s,\n", name, from)
				switch kind {
				case "bool":
					fmt.Fprintf(&passed, "\t\t%s: flag(s.%s),\n", f.Name, name)
				case "int":
					fmt.Fprintf(&passed, "\t\t%s: number(s.%s),\n", f.Name, name)
				default:
					fmt.Fprintf(&passed, "\t\t%s: C.%s(s.%s),\n", f.Name, f.Type, name)
				}
			}
			if wanted.format != "" {
				fmt.Fprintf(&fields, "\tline string\n")
				fmt.Fprintf(&read, "\t\tline: text(func(buffer *C.char, size C.uint64_t) C.uint64_t {\n"+
					"\t\t\treturn C.%s(c, buffer, size)\n\t\t}),\n", wanted.format)
				fmt.Fprintf(&out, "\n// String returns one line, as %s writes it.\nfunc (s %s) String() string { return s.line }\n",
					wanted.format, wanted.goName)
			}
			fmt.Fprintf(&out, "\n// %s is %s. %s\ntype %s struct {\n%s}\n", wanted.goName, one.Name,
				strings.ReplaceAll(one.Comment, "\n", "\n// "), wanted.goName, fields.String())
			if wanted.read {
				fmt.Fprintf(&out, "\nfunc new%s(c *C.%s) %s {\n\treturn %s{\n%s\t}\n}\n", wanted.goName, one.Name,
					wanted.goName, wanted.goName, read.String())
			}
			if wanted.passed {
				fmt.Fprintf(&out, "\nfunc (s %s) c() C.%s {\n\treturn C.%s{\n\t\tstruct_size: C.sizeof_%s,\n%s\t}\n}\n",
					wanted.goName, one.Name, one.Name, one.Name, passed.String())
			}
		}
	}
	return out.String()
}

// streams makes the functions that take a stream take a number: the default streams are 1 and 2, which Go's garbage
// collector does not accept in a pointer.
func streams(d *description) string {
	var out strings.Builder
	fmt.Fprintf(&out, "#include <ferry/ferry_all.h>\n")
	for _, function := range d.Functions {
		var declared, passed []string
		hasStream := false
		for _, one := range function.Parameters {
			if one.Type == "struct CUstream_st *" {
				hasStream = true
				declared = append(declared, "uintptr_t "+one.Name)
				passed = append(passed, "(struct CUstream_st *)"+one.Name)
				continue
			}
			if strings.Contains(one.Type, "(*)") {
				declared = append(declared, strings.Replace(one.Type, "(*)", "(*"+one.Name+")", 1))
			} else {
				declared = append(declared, one.Type+" "+one.Name)
			}
			passed = append(passed, one.Name)
		}
		if hasStream {
			fmt.Fprintf(&out, "\nstatic inline %s go_%s(%s) {\n    return %s(%s);\n}\n", function.Returns,
				function.Name, strings.Join(declared, ", "), function.Name, strings.Join(passed, ", "))
		}
	}
	return strings.ReplaceAll(out.String(), "* ", "*")
}

func fail(text string, values ...any) {
	fmt.Fprintf(os.Stderr, text+"\n", values...)
	os.Exit(1)
}

func main() {
	text, err := exec.Command("python3", "../../tools/describe.py", "../../include/ferry").Output()
	if err != nil {
		fail("tools/describe.py: %v", err)
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		fail("the description of the headers: %v", err)
	}
	check := len(os.Args) > 1 && os.Args[1] == "-check"
	const mark = "// Code generated from the C headers by generate/main.go. DO NOT EDIT.\n\n"
	for name, content := range map[string]string{
		"constants.go": constants(&d), "structs.go": goStructs(&d), "streams.h": streams(&d)} {
		made := []byte(mark + content)
		if strings.HasSuffix(name, ".go") {
			if made, err = format.Source(made); err != nil {
				fail("%s: %v", name, err)
			}
		}
		if !check {
			err = os.WriteFile(name, made, 0o644)
		} else if present, _ := os.ReadFile(name); !bytes.Equal(present, made) {
			err = fmt.Errorf("%s is not current: run go generate in bindings/go", name)
		}
		if err != nil {
			fail("%v", err)
		}
	}
}
