// The parts of the case pageable that are in separate files.
#pragma once

#include <string>
#include <vector>

#include "case.h"
#include "lines.h"

namespace bench {

// The route that ferry_copy or ferry_copy_async would choose.
const char *route_of(const environment &environment, const ferry_copy_desc &copy, form form);
const char *ferry_call_of(form form);

// The same direction with pinned memory, whose copies are limited only by the link.
direction pinned_like(const workspace &workspace, const direction &direction);

// Adds rows with the time that the asynchronous call itself takes.
void add_calls(session &session, row_list &rows);

// Measures processor time, threads, and how much the copies slow down a kernel that runs at the same time.
number_table measure_costs(session &session);
std::string note_on_costs(const session &session);

} // namespace bench
