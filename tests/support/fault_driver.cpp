#include "support/fault_driver.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ferry::test {

namespace {

struct entry_state {
    void *real = nullptr;
    std::atomic<int> calls = 0;
    std::atomic<int> calls_until_fault = 0; // 0: none
    bool sticky = false;
    bool hidden = false;
    CUresult result = CUDA_SUCCESS;
};

entry_state entries[driver_symbol_count];
resolver inner_entry_points;

bool is_faulty(entry_state &entry) {
    ++entry.calls;
    int left = entry.calls_until_fault.load();
    if (left == 0) return false;
    if (left > 1) {
        --entry.calls_until_fault;
        return false;
    }
    if (!entry.sticky) entry.calls_until_fault = 0;
    return true;
}

// One function per row, with the row's own type.
template <int row, class Function> struct thunk;
template <int row, class... Arguments> struct thunk<row, CUresult(CUDAAPI *)(Arguments...)> {
    static CUresult CUDAAPI call(Arguments... arguments) {
        entry_state &entry = entries[row];
        if (is_faulty(entry)) return entry.result;
        return reinterpret_cast<CUresult(CUDAAPI *)(Arguments...)>(entry.real)(arguments...);
    }
};

struct row_number {
    enum {
#define FERRY_DRIVER_SYMBOL(need, name, version) row_of_##name##_##version,
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
    };
};

void *const thunks[] = {
#define FERRY_DRIVER_SYMBOL(need, name, version)                                                                       \
    reinterpret_cast<void *>(&thunk<row_number::row_of_##name##_##version, PFN_##name##_v##version>::call),
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// An entry point has a row for each signature that ferry calls.
template <class Action> void for_each_row(const char *name, Action action) {
    bool is_known = false;
    for (int row = 0; row < driver_symbol_count; ++row)
        if (std::strcmp(driver_symbols[row].name, name) == 0) {
            is_known = true;
            action(entries[row], driver_symbols[row].version);
        }
    if (is_known) return;
    std::fprintf(stderr, "no driver entry point %s in driver/symbols.inc\n", name);
    std::abort();
}

void *get_wrapped(void *, const char *name, int version) {
    for (int row = 0; row < driver_symbol_count; ++row) {
        if (std::strcmp(driver_symbols[row].name, name) != 0 || driver_symbols[row].version != version) continue;
        return entries[row].hidden || !entries[row].real ? nullptr : thunks[row];
    }
    return inner_entry_points.get_proc(inner_entry_points.user, name, version);
}

} // namespace

fault_driver::fault_driver(resolver inner) {
    inner_entry_points = inner;
    heal();
    reset_counts();
    for (int row = 0; row < driver_symbol_count; ++row)
        entries[row].real = inner.get_proc(inner.user, driver_symbols[row].name, driver_symbols[row].version);
}

fault_driver::~fault_driver() { heal(); }

ferry_options fault_driver::options() const {
    ferry_options options = {};
    options.struct_size = sizeof options;
    options.driver = FERRY_DRIVER_CUDA;
    options.get_proc = get_wrapped;
    return options;
}

void fault_driver::fail(const char *entry, CUresult result, int nth, bool sticky) {
    for_each_row(entry, [&](entry_state &state, int) {
        state.result = result;
        state.sticky = sticky;
        state.calls_until_fault = nth;
    });
}

void fault_driver::hide(const char *entry, int from_version) {
    for_each_row(entry, [&](entry_state &state, int version) { state.hidden = version >= from_version; });
}

void fault_driver::heal() {
    for (entry_state &entry : entries) {
        entry.calls_until_fault = 0;
        entry.hidden = false;
    }
}

int fault_driver::calls(const char *entry) const {
    int sum = 0;
    for_each_row(entry, [&](const entry_state &state, int) { sum += state.calls; });
    return sum;
}

int fault_driver::calls_beginning(const char *prefix) const {
    int sum = 0;
    for (int row = 0; row < driver_symbol_count; ++row)
        if (std::strncmp(driver_symbols[row].name, prefix, std::strlen(prefix)) == 0) sum += entries[row].calls;
    return sum;
}

void fault_driver::reset_counts() {
    for (entry_state &entry : entries)
        entry.calls = 0;
}

} // namespace ferry::test
