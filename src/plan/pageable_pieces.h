// Chooses how many pieces with a pageable end are copied: all in one staged copy, or each with a separate call. Pure,
// like plan.h.
#pragma once

#include "plan/plan.h"

namespace ferry {

struct pageable_facts {
    copy_direction direction = copy_direction::host_to_device; // or the opposite
    copy_form form = copy_form::synchronous;
    std::uint64_t count = 0, bytes = 0; // of all pieces
    std::uint64_t largest = 0;          // bytes of the largest piece
    bool is_captured = false;
    bool is_stream_idle = false; // earlier work of the program on the stream is complete
    std::uint64_t delay_ns = 0;  // recent delay of staging
    std::uint16_t threads = 0;   // of the staging engine
    copy_preferences preferences = {};
    const device_profile *profile = nullptr;
};

// The times from the call until the copies are complete. 0: unknown.
struct pageable_forecast {
    std::uint64_t staged_ns = 0, calls_ns = 0;
};
pageable_forecast predict_pageable(const pageable_facts &facts) noexcept;

// Whether to stage the pieces, provided that staging can serve.
bool are_pieces_staged(const pageable_facts &facts) noexcept;

// Rows of a box can be treated as pieces too. Returns whether they can be staged together with other pieces: a record
// for each row costs less than a separate copy would, and little memory.
constexpr bool are_rows_pieces(std::uint64_t rows) noexcept {
    constexpr std::uint64_t max_rows = 16384;
    return rows <= max_rows;
}

} // namespace ferry
