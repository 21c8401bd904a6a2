// ferry-run: runs a program with libferry-run.so between the program and the CUDA driver.
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <ferry/ferry.h>

#include "../output.h"
#include "driver/cuda_api.h"
#include "variables.h"

namespace {

namespace variables = ferry_run::variables;

constexpr int oldest_driver = 12000;

struct options {
    bool only_reports = false, leaves_async = false, takes_all = false, counts_only = false, is_quiet = false;
    std::string report, trace, pinned = "shared";
    std::vector<std::string> program;
};

void say(const std::string &text) { std::cerr << "ferry-run: " << text << '\n'; }

// Searches like the shell and execvp.
std::optional<std::string> find_program(const std::string &name) {
    const auto is_program = [](const std::string &path) {
        struct stat found = {};
        return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(path.c_str(), X_OK) == 0;
    };
    if (name.find('/') != std::string::npos) return is_program(name) ? std::optional(name) : std::nullopt;
    const char *const path = std::getenv("PATH");
    std::string folders = path ? path : "/bin:/usr/bin";
    for (std::size_t begin = 0; begin <= folders.size();) {
        const std::size_t end = std::min(folders.find(':', begin), folders.size());
        const std::string folder = end == begin ? "." : folders.substr(begin, end - begin);
        if (is_program(folder + "/" + name)) return folder + "/" + name;
        begin = end + 1;
    }
    return std::nullopt;
}

// Returns the reason why the system would not load a library into the program. Scripts are loaded by their interpreter.
std::optional<std::string> why_not(const std::string &path) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) return "it cannot be read";
    const bool changes_user = found.st_mode & S_ISUID && found.st_uid != geteuid();
    const bool changes_group = found.st_mode & S_ISGID && found.st_gid != getegid();
    if (changes_user || changes_group) return "it runs as another user or group (setuid)";
    if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
        return "it has capabilities of its own (setcap)";
    std::ifstream file(path, std::ios::binary);
    ElfW(Ehdr) header = {};
    if (!file.read(reinterpret_cast<char *>(&header), sizeof header) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return std::nullopt;
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is a 32-bit program";
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        ElfW(Phdr) segment = {};
        file.seekg(static_cast<std::streamoff>(header.e_phoff + i * header.e_phentsize));
        if (!file.read(reinterpret_cast<char *>(&segment), sizeof segment)) return std::nullopt;
        if (segment.p_type == PT_INTERP) return std::nullopt;
    }
    return "it is linked statically and loads no libraries";
}

// Returns the reason why ferry cannot use this machine's driver.
std::optional<std::string> why_no_driver() {
    void *const library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!library) return "this machine has no NVIDIA driver (libcuda.so.1)";
    int version = 0;
    using get_version_function = CUresult (*)(int *);
    const auto get_version = reinterpret_cast<get_version_function>(dlsym(library, "cuDriverGetVersion"));
    if (!get_version || get_version(&version) != CUDA_SUCCESS) return "the NVIDIA driver does not answer";
    if (version >= oldest_driver) return std::nullopt;
    return "the NVIDIA driver is for CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + ", and ferry needs 12.0 or newer";
}

// In the same folder as this program in a build, and where `meson install` puts it otherwise.
std::optional<std::string> find_library() {
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return std::nullopt;
    self[length] = '\0';
    const std::string folder = std::string(self).substr(0, std::string(self).rfind('/'));
    for (const std::string &path :
         {folder + "/libferry-run.so", folder + "/" FERRY_RUN_LIBRARY_FOLDER "/libferry-run.so"})
        if (char whole[PATH_MAX]; realpath(path.c_str(), whole)) return whole;
    return std::nullopt;
}

void set(const char *variable, const std::string &value) { setenv(variable, value.c_str(), 1); }

// Appends the library: a library that the program itself preloads is first, and its look-ups find ferry's functions
// after its own.
void preload(const std::string &library) {
    const char *const given = std::getenv("LD_PRELOAD");
    set("LD_PRELOAD", given && *given ? std::string(given) + ":" + library : library);
}

void pass_options(const options &given) {
    const auto set_if = [](const char *variable, bool is_set) {
        is_set ? set(variable, "1") : static_cast<void>(unsetenv(variable));
    };
    set(variables::mode, given.only_reports ? "report" : "serve");
    set_if(variables::async, given.leaves_async);
    set_if(variables::all, given.takes_all);
    set_if(variables::no_times, given.counts_only);
    set_if(variables::quiet, given.is_quiet);
    set(variables::pinned, given.pinned);
    set(variables::process, std::to_string(getpid()));
    // The program may change its working folder.
    const auto set_file = [](const char *variable, const std::string &name) {
        char folder[PATH_MAX];
        unsetenv(variable);
        if (name.empty()) return;
        const bool is_relative = name.front() != '/' && getcwd(folder, sizeof folder);
        set(variable, is_relative ? std::string(folder) + "/" + name : name);
    };
    set_file(variables::report, given.report);
    set_file(variables::trace, given.trace);
}

int run(const options &given) {
    const std::string &name = given.program.front();
    const std::optional<std::string> path = find_program(name);
    if (!path) {
        say("no such program: " + name);
        return 127;
    }
    const std::optional<std::string> library = find_library();
    std::optional<std::string> obstacle = why_not(*path);
    if (!obstacle) obstacle = why_no_driver();
    // The loader splits LD_PRELOAD at spaces and colons, and replaces $LIB, $ORIGIN and $PLATFORM.
    if (library && library->find_first_of(" :$") != std::string::npos)
        obstacle = "LD_PRELOAD cannot name a path with a space, a colon or a dollar sign: " + *library;
    if (!obstacle && !library) obstacle = "libferry-run.so is not installed beside ferry-run";
    if (obstacle) {
        say(name + " runs without ferry: " + *obstacle);
    } else {
        preload(*library);
        pass_options(given);
    }
    std::vector<char *> arguments;
    for (const std::string &one : given.program)
        arguments.push_back(const_cast<char *>(one.c_str()));
    arguments.push_back(nullptr);
    execv(path->c_str(), arguments.data());
    // The shell runs a script whose first line names no interpreter.
    if (errno == ENOEXEC) execvp(name.c_str(), arguments.data());
    say("cannot run " + name + ": " + std::strerror(errno));
    return 126;
}

} // namespace

int main(int argument_count, char **arguments) {
    options given;
    CLI::App app("Runs a program so that ferry makes its CUDA copies, and prints a summary at exit.\n"
                 "Example: ferry-run -- python3 serve.py",
                 "ferry-run");
    app.get_formatter()->column_width(28);
    app.set_version_flag("--version", FERRY_RUN_VERSION);
    app.add_flag("--report-only", given.only_reports, "Do not change calls; report what ferry would have done");
    app.add_option("--report", given.report, "Write a report as JSON; child processes write FILE.<process>")
        ->option_text("FILE");
    app.add_option("--trace", given.trace, "Write each call with its times, for Perfetto (ui.perfetto.dev)")
        ->option_text("FILE");
    app.add_flag("--quiet", given.is_quiet, "No summary on standard error");
    app.add_flag("--counts-only", given.counts_only, "Do not time calls; saves 0.1 us for each call");
    app.add_flag("--async", given.leaves_async,
                 "Asynchronous copies to pageable memory need not be complete on return");
    app.add_option(
           "--pinned", given.pinned,
           "Pinned memory: shared with forked children, the default;\nprivate, which is faster; or by the driver")
        ->option_text("WAY")
        ->check(CLI::IsMember({"shared", "private", "driver"}));
    app.add_flag("--all", given.takes_all, "Make every copy with ferry, even if ferry is not faster (for tests)");
    app.add_option("program", given.program, "The program and its arguments")->required()->option_text("PROGRAM ...");
    app.footer("With FERRY_RUN=off in its environment, a child process runs without ferry.");
    app.positionals_at_end();
    try {
        app.parse(argument_count, arguments);
    } catch (const CLI::ParseError &error) { // also thrown for --help and --version
        return ferry_tools::exit_code("ferry-run", app.exit(error));
    }
    return run(given);
}
