#include "report_page.h"

#include <filesystem>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <process.h>

#include "system/windows_api.h"
#else
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "environment.h"

namespace bench {

namespace {

// ferry-report is in the same folder as this program, both in a build and after `meson install`.
std::filesystem::path own_path() {
#if defined(_WIN32)
    std::wstring path(32768, L'\0');
    path.resize(GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
    return path;
#else
    return std::filesystem::read_symlink("/proc/self/exe");
#endif
}

// Returns the exit status of a program in PATH, or -1 if it cannot be started.
int run_program(std::vector<std::string> arguments) {
    std::vector<char *> pointers;
#if defined(_WIN32)
    const std::string program = arguments.front();
    for (std::string &argument : arguments) {
        argument = '"' + argument + '"'; // the started program splits its command line at spaces
        pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    return static_cast<int>(_spawnvp(_P_WAIT, program.c_str(), pointers.data()));
#else
    for (std::string &argument : arguments)
        pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t process;
    // Spawned, because a process that has loaded the driver must not be forked.
    if (posix_spawnp(&process, pointers.front(), nullptr, nullptr, pointers.data(), environ)) return -1;
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
#endif
}

} // namespace

void write_report_page(const std::string &results_path, const std::string &page_path) {
    const std::string program = (own_path().parent_path() / "ferry-report").string();
    const int status = run_program({"python3", program, results_path, page_path});
    if (status == 0) return;
    const std::string kept =
        "The results are in " + results_path + "; later: python3 " + program + ' ' + results_path + ' ' + page_path;
    if (status < 0 || status == 127) // the status by which a shell reports a missing program
        fail(
            "No page was written, because there is no python3. It needs Python 3.9 or newer with the package plotly. " +
            kept);
    fail(kept); // ferry-report has printed the reason
}

} // namespace bench
