// Checks every interleaving of the two sides of a staged copy under a weak memory order, and that each defect of the
// table is found when put back. FERRY_PROTOCOL_CHUNKS=1 makes every copy one chunk longer: minutes instead of seconds.
#include <cstdlib>

#include <gtest/gtest.h>

#include "ring_model.h"

namespace ferry::protocol {
namespace {

constexpr ring_setup setups[] = {
    {"once_by_1_block_and_2_threads", true, use::once, 1, 2, 3},
    {"once_by_2_blocks_and_1_thread", true, use::once, 2, 1, 3},
    {"again_after_ticket", true, use::again_after_ticket, 1, 1, 3},
    {"again_after_stream", true, use::again_after_stream, 1, 1, 3},
    {"captured_in_turn", true, use::captured_in_turn, 1, 1, 3},
    {"captured_at_once", true, use::captured_at_once, 1, 1, 2},
    {"captured_at_once_by_2_threads", true, use::captured_at_once, 1, 2, 1},
    {"captured_once", true, use::captured_once, 1, 1, 3},
};
// Omitted under the sanitizers, which find nothing more here than in the small set-ups.
constexpr ring_setup large_setups[] = {
    {"once_by_2_blocks_and_2_threads", true, use::once, 2, 2, 2},
    {"again_after_ticket_by_2_blocks", true, use::again_after_ticket, 2, 1, 2},
    {"again_after_ticket_by_2_threads", true, use::again_after_ticket, 1, 2, 2},
    {"again_after_stream_by_2_blocks", true, use::again_after_stream, 2, 1, 2},
    {"captured_in_turn_by_2_blocks", true, use::captured_in_turn, 2, 1, 2},
    {"captured_at_once_by_2_blocks", true, use::captured_at_once, 2, 1, 1},
    {"captured_once_by_2_threads", true, use::captured_once, 1, 2, 2},
};

unsigned more_chunks() {
    const char *const wanted = std::getenv("FERRY_PROTOCOL_CHUNKS");
    return wanted && std::atoi(wanted) > 0 ? 1 : 0;
}

class ring_setups : public testing::TestWithParam<std::tuple<bool, ring_setup>> {};

TEST_P(ring_setups, no_interleaving_breaks_a_property) {
    auto [to_device, setup] = GetParam();
    setup.to_device = to_device;
    setup.chunks += more_chunks();
    const finding found = explore(ring_model(setup, ring_defect::none), 50'000'000);
    EXPECT_FALSE(found) << found.text();
    RecordProperty("states", static_cast<int>(found.states));
}

std::string name_of(const testing::TestParamInfo<std::tuple<bool, ring_setup>> &one) {
    return std::string(std::get<1>(one.param).name) + (std::get<0>(one.param) ? "_to_device" : "_to_host");
}
INSTANTIATE_TEST_SUITE_P(small, ring_setups, testing::Combine(testing::Bool(), testing::ValuesIn(setups)), name_of);
INSTANTIATE_TEST_SUITE_P(large, ring_setups, testing::Combine(testing::Bool(), testing::ValuesIn(large_setups)),
                         name_of);

// ---- Defects put back

constexpr char stale[] = "bytes are read that the thread may not see yet";
constexpr char overwritten[] = "bytes are overwritten that another thread may still read";
constexpr char exchanged[] = "a block reads the bytes of another chunk";
constexpr char missing[] = "a copy is done and bytes are missing";
constexpr char two_writers[] = "two threads store to one location in no order";
constexpr char stuck[] = "the end cannot be reached any more";

struct ring_case {
    const char *name;
    ring_defect defect;
    bool to_device;
    use how;
    unsigned chunks;
    const char *finding;
};
constexpr ring_case cases[] = {
    {"fence_of_the_device_before_seen", ring_defect::fence_of_the_device, true, use::once, 3, overwritten},
    {"fence_of_the_device_before_a_ticket", ring_defect::fence_of_the_device, true, use::again_after_ticket, 1, stale},
    {"fence_of_the_system_after_a_match_only", ring_defect::fence_after_match, true, use::once, 3, overwritten},
    {"early_read_not_acquired_by_the_system", ring_defect::early_read_not_acquired, true, use::once, 3, stale},
    {"no_fence_before_seen", ring_defect::no_fence_before_seen, false, use::once, 3, stale},
    {"seen_stored_before_the_slot_is_read", ring_defect::seen_before_copy, true, use::once, 3, overwritten},
    {"end_of_run_not_acquired", ring_defect::end_not_acquired, false, use::once, 3, stale},
    {"message_not_acquired", ring_defect::message_not_acquired, true, use::once, 3, stale},
    {"message_not_released", ring_defect::message_not_released, true, use::once, 3, stale},
    {"marks_never_flip", ring_defect::marks_never_flip, true, use::once, 3, exchanged},
    {"only_the_first_mark_checked", ring_defect::only_first_mark_checked, true, use::once, 3, stale},
    {"door_in_not_counted", ring_defect::door_in_not_counted, true, use::once, 3, stuck},
    {"door_out_not_counted", ring_defect::door_out_not_counted, true, use::again_after_stream, 3, stuck},
    {"streamed_slot_without_sfence", ring_defect::streams_not_ended, true, use::once, 3, stale},
    {"streamed_destination_without_sfence", ring_defect::streams_not_ended, false, use::again_after_ticket, 3, stale},
    {"seen_not_acquired_by_the_host", ring_defect::seen_not_acquired, false, use::once, 3, stale},
    {"slot_taken_back_before_seen", ring_defect::slot_back_before_seen, false, use::once, 3, overwritten},
    {"more_messages_than_places", ring_defect::more_messages_than_places, true, use::once, 3, stuck},
    {"end_published_before_the_last_chunk_completed", ring_defect::end_before_last_completed, false, use::once, 3,
     missing},
    {"progress_reported_before_the_last_write", ring_defect::reported_before_completed, false, use::again_after_ticket,
     3, stale},
    {"record_reused_before_its_blocks_left", ring_defect::record_reused_before_left, true, use::again_after_ticket, 3,
     two_writers},
    {"shared_record_not_locked", ring_defect::shared_record_not_locked, true, use::captured_at_once, 2, two_writers},
    {"captured_copy_announced_at_capture_only", ring_defect::announced_at_capture_only, false, use::captured_in_turn, 3,
     stuck},
    {"record_given_back_by_destroying_the_graph", ring_defect::given_back_by_destroy, true, use::captured_once, 3,
     two_writers},
};

class ring_defects : public testing::TestWithParam<ring_case> {};

TEST_P(ring_defects, is_found_when_put_back) {
    const ring_case &one = GetParam();
    const ring_setup setup = {one.name, one.to_device, one.how, 1, 1, one.chunks};
    EXPECT_FALSE(explore(ring_model(setup, ring_defect::none)));
    const finding found = explore(ring_model(setup, one.defect));
    EXPECT_EQ(found.what, one.finding) << found.text();
}

INSTANTIATE_TEST_SUITE_P(each, ring_defects, testing::ValuesIn(cases),
                         [](const auto &one) { return std::string(one.param.name); });

} // namespace
} // namespace ferry::protocol
