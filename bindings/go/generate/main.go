// Command generate makes constants.go, structs.go and streams.h from ferry.json: go run ./generate [-check]
// With -check it writes nothing, and fails if a file is not current. Run it in bindings/go.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"strings"
)

type constant struct {
	Name, Type, Comment string
	Value               int64
}

type field struct {
	Name, Type, Constants, Comment string
	Count, Size                    int
}

type parameter struct{ Name, Type string }

type description struct {
	Constants []struct {
		Group  string
		Values []constant
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

// The Go types of a group's signed and unsigned constants; "" for constants without a type.
var groups = map[string]struct{ signed, unsigned string }{
	"FERRY_VERSION": {}, "FERRY_DEVICE": {}, "FERRY_PRIORITY": {}, "FERRY_IPC": {signed: ""},
	"FERRY": {signed: "Status"}, "FERRY_ERROR": {signed: "Status"}, "FERRY_STATUS": {unsigned: "Traits"},
	"FERRY_SIDE": {signed: "Side"}, "FERRY_FIELD": {signed: "Field"}, "FERRY_KIND": {signed: "Kind"},
	"FERRY_COPY": {unsigned: "CopyFlags"}, "FERRY_BATCH": {unsigned: "BatchFlags"},
	"FERRY_ROUTE": {signed: "Route"}, "FERRY_OBSTACLE": {signed: "Obstacle"}, "FERRY_BLOCKS": {signed: "Blocks"},
	"FERRY_REASON": {signed: "Reason"}, "FERRY_PROFILE": {signed: "ProfileOrigin"}, "FERRY_TRACE": {signed: "TraceKind"},
	"FERRY_DRIVER": {signed: "Driver"}, "FERRY_CHECKS": {signed: "Checks"}, "FERRY_KERNELS": {signed: "Kernels"},
	"FERRY_STAGING": {signed: "Staging"}, "FERRY_NUMA": {signed: "NUMA"},
	"FERRY_SOFTWARE_LINKS": {signed: "SoftwareLinks"}, "FERRY_LOG": {signed: "LogLevel"},
	"FERRY_COPY_OVERLAP": {signed: "CopyOverlap"}, "FERRY_HANDLE": {unsigned: "HandleTypes"},
	"FERRY_STREAM": {unsigned: "StreamFlags"}, "FERRY_EVENT": {unsigned: "EventFlags"},
	"FERRY_HOST": {unsigned: "HostFlags"}, "FERRY_HOST_FROM": {signed: "HostOrigin"},
	"FERRY_REGISTER": {unsigned: "RegisterFlags"}, "FERRY_MEMORY": {signed: "MemoryKind"},
	"FERRY_FORMAT": {signed: "Format"}, "FERRY_ARRAY": {unsigned: "ArrayFlags"},
	"FERRY_LOCATION": {signed: "Location"}, "FERRY_ACCESS": {signed: "Access"}, "FERRY_PROBE": {signed: "Probe"},
	"FERRY_EXTERNAL": {signed: "ExternalType", unsigned: "ExternalFlags"}, "FERRY_SEMAPHORE": {signed: "SemaphoreType"},
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
	{name: "ferry_pool_desc", goName: "PoolDesc", passed: true},
	{name: "ferry_pool_info", goName: "PoolInfo", read: true},
	{name: "ferry_pool_attributes", goName: "PoolAttributes", read: true, passed: true},
	{name: "ferry_ipc_info", goName: "IPCInfo", read: true},
	{name: "ferry_array_desc", goName: "ArrayDesc", read: true, passed: true},
	{name: "ferry_host_options", goName: "HostOptions", passed: true},
	{name: "ferry_pinned_pool_options", goName: "PinnedPoolOptions", passed: true},
}

// What the description does not tell: the fields that are 0 or 1, and types that a comment names in other words.
var flags = regexp.MustCompile(`^(done|synchronises|kernels_loaded|program_threads|is_software|unified_addressing|` +
	`pageable_access|pageable_uses_host_page_tables|can_map_host_memory|host_register|host_register_read_only|` +
	`registered_address_is_device_address|managed_memory|concurrent_managed_access|memory_pools|integrated|` +
	`host_memory_pools|host_numa_memory_pools|ipc_events|can_access|driver_can_access|native_atomics|array_access|` +
	`is_default|is_imported|is_own|can_share|reuse_.*)$`)

var types = map[string]string{
	"ferry_ticket_info.status": "Status", "ferry_report.fallback_reason": "Status", "ferry_report.driver": "Driver",
	"ferry_report.staging": "Staging", "ferry_explanation.destination_memory": "MemoryKind",
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
	declared := map[string]bool{"": true}
	fmt.Fprintf(&out, "package ferry\n")
	for _, group := range d.Constants {
		own, ok := groups[group.Group]
		if !ok {
			fail("generate/main.go has no Go type for the constants %s_*", group.Group)
		}
		for _, name := range []string{own.signed, own.unsigned} {
			if !declared[name] {
				underlying := map[bool]string{true: "int32", false: "uint32"}[name == own.signed]
				fmt.Fprintf(&out, "\n// %s is one of the constants %s_*, or several of them for flags.\ntype %s %s\n",
					name, group.Group, name, underlying)
				declared[name] = true
			}
		}
		fmt.Fprintf(&out, "\n// %s_*\nconst (\n", group.Group)
		for _, one := range group.Values {
			goType := own.signed
			if one.Type == "uint32_t" {
				goType = own.unsigned
			}
			fmt.Fprintf(&out, "\t%s %s = %d%s\n", camel(strings.TrimPrefix(one.Name, "FERRY_")), goType, one.Value,
				comment(one.Comment))
		}
		fmt.Fprintf(&out, ")\n")
	}
	return out.String()
}

func goType(owner string, one field) string {
	group := groups[one.Constants]
	switch named := types[owner+"."+one.Name]; {
	case named != "":
		return named
	case flags.MatchString(one.Name):
		return "bool"
	case one.Type == "int32_t" && group.signed != "":
		return group.signed
	case one.Type == "uint32_t" && group.unsigned != "":
		return group.unsigned
	case one.Type == "char":
		return "string"
	case one.Type == "uint8_t":
		return fmt.Sprintf("[%d]byte", one.Count)
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
	fmt.Fprintf(&out, "package ferry\n\n// #include \"calls.h\"\nimport \"C\"\nimport \"unsafe\"\n")
	for _, wanted := range structs {
		for _, one := range d.Structs {
			if one.Name != wanted.name {
				continue
			}
			var fields, read, passed strings.Builder
			for _, f := range one.Fields {
				name, kind := camel(f.Name), goType(one.Name, f)
				if f.Name == "struct_size" || strings.HasPrefix(f.Name, "reserved") && f.Comment == "" || kind == "" {
					continue
				}
				fmt.Fprintf(&fields, "\t%s %s%s\n", name, kind, comment(f.Comment))
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
				if kind == "bool" {
					fmt.Fprintf(&passed, "\t\t%s: flag(s.%s),\n", f.Name, name)
				} else {
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
	fmt.Fprintf(&out, "#include <ferry/ferry.h>\n")
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
	text, err := os.ReadFile("../../include/ferry/ferry.json")
	if err != nil {
		fail("%v", err)
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		fail("ferry.json: %v", err)
	}
	check := len(os.Args) > 1 && os.Args[1] == "-check"
	const mark = "// Code generated from ferry.json by generate/main.go. DO NOT EDIT.\n\n"
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
