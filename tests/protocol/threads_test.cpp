// Checks that every interleaving of the threads that serve staged copies, wait for them, free and close reaches its
// end, and that each defect of the table is found when put back.
#include <gtest/gtest.h>

#include "threads_model.h"

namespace ferry::protocol {
namespace {

using submitting = threads_setup::submitting;

enum setup_name : unsigned {
    two_copies,
    captured_and_launched,
    captured_and_never_launched,
    one_with_slow_pages,
    short_one_with_slow_pages,
    two_with_slow_pages,
    caller_helps_beside_slow_pages,
    only_worker_waits_while_memory_is_freed,
    submit_refuses,
    submit_runs_work_at_once,
    context_dies_beside_a_live_one,
    status_of_another_context,
};
constexpr threads_setup setups[] = {
    {.name = "two_copies", .residents = 2, .copies = {{.chunks = 2}, {.chunks = 1}}},
    {.name = "captured_and_launched", .residents = 2, .copies = {{.chunks = 1, .is_captured = true, .launches = 3}}},
    {.name = "captured_and_never_launched",
     .residents = 1,
     .copies = {{.chunks = 1, .is_captured = true, .launches = 0}}},
    {.name = "one_with_slow_pages",
     .residents = 2,
     .copies = {{.chunks = 3, .is_slow = true}, {.chunks = 1}},
     .spares = 1,
     .closes = false},
    {.name = "short_one_with_slow_pages",
     .residents = 2,
     .copies = {{.chunks = 1, .is_slow = true}, {.chunks = 1}},
     .spares = 1,
     .closes = false},
    {.name = "two_with_slow_pages",
     .residents = 2,
     .copies = {{.chunks = 2, .is_slow = true}, {.chunks = 1, .is_slow = true}, {.chunks = 2}},
     .spares = 2,
     .closes = false},
    {.name = "caller_helps_beside_slow_pages",
     .residents = 2,
     .copies = {{.chunks = 3, .is_slow = true}, {.chunks = 1}},
     .spares = 1,
     .program_helps = true,
     .closes = false},
    {.name = "only_worker_waits_while_memory_is_freed",
     .residents = 0,
     .copies = {{.chunks = 2}},
     .frees = true,
     .submit = submitting::only_worker_waits},
    {.name = "submit_refuses", .residents = 0, .copies = {{.chunks = 2}}, .submit = submitting::refused},
    {.name = "submit_runs_work_at_once",
     .residents = 0,
     .copies = {{.chunks = 2}, {.chunks = 1, .is_captured = true, .launches = 2}},
     .submit = submitting::runs_at_once},
    {.name = "context_dies_beside_a_live_one",
     .residents = 1,
     .copies = {{.chunks = 1, .is_captured = true}, {.chunks = 2, .context = 1}},
     .kills_context = true},
    {.name = "status_of_another_context", .residents = 1, .copies = {{.chunks = 2}}, .hears_of_death = true},
};

class threads_setups : public testing::TestWithParam<threads_setup> {};

TEST_P(threads_setups, every_interleaving_terminates) {
    const finding found = explore(threads_model(GetParam(), threads_defect::none));
    EXPECT_FALSE(found) << found.text();
    RecordProperty("states", static_cast<int>(found.states));
}

INSTANTIATE_TEST_SUITE_P(small, threads_setups, testing::ValuesIn(setups),
                         [](const auto &one) { return std::string(one.param.name); });

constexpr char stuck[] = "the end cannot be reached any more";

struct threads_case {
    const char *name;
    threads_defect defect;
    setup_name setup;
    const char *finding;
};
constexpr threads_case cases[] = {
    {"captured_copy_announced_once_and_launched_again", threads_defect::announced_at_capture, captured_and_launched,
     stuck},
    {"captured_copy_announced_and_never_launched", threads_defect::announced_at_capture, captured_and_never_launched,
     stuck},
    {"all_threads_enter_a_copy_with_slow_pages", threads_defect::any_thread_enters_any_copy, one_with_slow_pages,
     stuck},
    {"no_spare_thread_where_two_copies_have_slow_pages", threads_defect::no_spare_thread, two_with_slow_pages, stuck},
    {"waiting_caller_serves_others_first", threads_defect::helper_serves_others, caller_helps_beside_slow_pages, stuck},
    {"waiting_caller_asks_under_the_drivers_lock", threads_defect::helper_asks_under_lock,
     only_worker_waits_while_memory_is_freed, stuck},
    {"close_asks_one_context_for_ever", threads_defect::close_asks_one_context, context_dies_beside_a_live_one, stuck},
    {"death_inferred_and_the_kernel_leaves", threads_defect::death_inferred, status_of_another_context,
     "a stream reports success and bytes are missing"},
    {"death_inferred_and_the_kernel_traps", threads_defect::death_inferred_and_trapped, status_of_another_context,
     "a copy is abandoned in a context that is alive"},
    {"refusal_of_submit_ignored", threads_defect::refusal_ignored, submit_refuses, stuck},
    {"work_run_in_submit_waits_for_the_kernel", threads_defect::work_in_submit_waits, submit_runs_work_at_once, stuck},
    {"work_run_in_submit_gets_no_other_thread", threads_defect::refusal_ignored, submit_runs_work_at_once, stuck},
    {"nobody_woken_when_a_run_is_announced", threads_defect::watcher_not_woken, two_copies, stuck},
    {"wait_value_read_after_unlocking", threads_defect::wait_value_read_unlocked, two_copies, stuck},
    {"last_thread_that_looks_goes_to_sleep", threads_defect::last_looker_sleeps, two_copies, stuck},
    {"last_thread_that_looks_takes_a_chunk_and_wakes_nobody", threads_defect::last_looker_wakes_nobody,
     short_one_with_slow_pages, stuck},
};

class threads_defects : public testing::TestWithParam<threads_case> {};

TEST_P(threads_defects, is_found_when_put_back) {
    const threads_case &one = GetParam();
    const finding found = explore(threads_model(setups[one.setup], one.defect));
    EXPECT_EQ(found.what, one.finding) << found.text();
}

INSTANTIATE_TEST_SUITE_P(each, threads_defects, testing::ValuesIn(cases),
                         [](const auto &one) { return std::string(one.param.name); });

} // namespace
} // namespace ferry::protocol
