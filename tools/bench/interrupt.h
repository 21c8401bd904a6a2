// Ctrl-C (SIGINT) ends a run between two rows, so the rows that were measured are kept.
#pragma once

namespace bench {

// Thrown between two rows after the first SIGINT. It is no std::exception, so no case handles it as an error.
struct interrupted {};

// From now on, the first SIGINT sets a flag and prints a line. The second SIGINT ends the process immediately.
void catch_interrupts();
bool is_interrupted();
// Throws `interrupted` if SIGINT has arrived.
void stop_if_interrupted();

} // namespace bench
