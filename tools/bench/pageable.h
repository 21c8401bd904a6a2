// The parts of the case pageable, each in a file of its own.
#pragma once

#include <string>
#include <vector>

#include "case.h"
#include "lines.h"

namespace bench {

// Where ferry_copy or ferry_copy_async would send it.
const char *route_of(const environment &environment, const ferry_copy_desc &copy, form form);
const char *ferry_call_of(form form);

// The same direction with pinned memory, which only the link limits.
direction pinned_like(const workspace &workspace, const direction &direction);

// Rows: how long the asynchronous call itself takes.
void add_calls(session &session, std::vector<row> &rows);

// Processor time, threads, and what a kernel that computes beside the copies loses.
number_table measure_costs(session &session);
std::string note_on_costs(const session &session);

} // namespace bench
