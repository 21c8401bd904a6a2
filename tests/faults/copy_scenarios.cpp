// Scenarios for everything that moves bytes: each route and each form of call.
#include <functional>

#include "faults/trial.h"
#include "ferry/ferry_file.h"
#include "submit/instance.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/program_threads.h"
#include "support/raw_objects.h"
#include "support/temporary_file.h"

namespace ferry::test {
namespace {

struct copy_form {
    const char *name;
    bool is_asynchronous;
};
constexpr copy_form both_forms[] = {{"synchronous", false}, {"asynchronous", true}};

// Copies, waits and compares.
void copy_and_compare(trial &t, test_place &source, const box &from, test_place &destination, const box &to,
                      std::uint64_t width, std::uint64_t height, std::uint64_t depth, const how &options,
                      bool is_asynchronous, statement stated = statement::any) {
    const ferry_copy_desc copy =
        describe_copy(source.describe(stated, from), destination.describe(stated, to), width, height, depth);
    const bool succeeded = is_asynchronous ? CALL(t, ferry_copy_async, t.ferry, &copy, options, t.stream, nullptr)
                                           : CALL(t, ferry_copy, t.ferry, &copy, options);
    t.expect_copy(succeeded, source, from, destination, to, width, height, depth);
    if (is_asynchronous)
        t.wait_and_compare(t.stream);
    else
        t.compare();
}

void copies_by_the_driver(trial &t) {
    t.open();
    constexpr grid shape = {.width = 96, .height = 12, .depth = 3, .row_pitch = 128, .slice_height = 14, .lead = 5};
    test_place pinned(place_kind::pinned, shape), pageable(place_kind::pageable, shape),
        managed(place_kind::managed, shape), device(place_kind::device, shape), other(place_kind::device, shape),
        array(place_kind::array_3d, {.width = 96, .height = 12, .depth = 3, .element_size = 4});
    test_place *const places[] = {&pinned, &pageable, &managed, &device, &other, &array};
    std::uint64_t seed = 1;
    for (test_place *place : places)
        place->fill(seed++);
    const struct {
        test_place &from, &to;
    } pairs[] = {{pinned, device}, {device, pageable}, {pageable, other}, {other, managed}, {managed, device},
                 {device, other},  {other, pinned},    {pageable, array}, {array, pinned}};
    for (const copy_form &form : both_forms)
        for (const auto &[from, to] : pairs)
            copy_and_compare(t, from, {4, 1, 0}, to, {8, 2, 1}, 64, 9, 2, by_driver, form.is_asynchronous);
}

void lines_and_bytes(trial &t) {
    t.open();
    constexpr grid shape = {.width = 70'000, .lead = 3};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape), pool(place_kind::pool, shape);
    pinned.fill(1), device.fill(2), pool.fill(3);
    const bool by_bytes = CALL(t, ferry_copy_bytes, t.ferry, device.address(), pinned.address(), 60'000, nullptr);
    t.expect_copy(by_bytes, pinned, {}, device, {}, 60'000);
    t.compare();
    const bool asynchronous = CALL(t, ferry_copy_bytes_async, t.ferry, pool.address() + 7, device.address() + 3, 50'000,
                                   nullptr, t.stream, nullptr);
    t.expect_copy(asynchronous, device, {3}, pool, {7}, 50'000);
    const bool back =
        CALL(t, ferry_copy_bytes_async, t.ferry, pinned.address(), pool.address(), 70'000, nullptr, t.stream, nullptr);
    t.expect_copy(back, pool, {}, pinned, {}, 70'000);
    t.wait_and_compare(t.stream);
    copy_and_compare(t, pinned, {}, device, {}, 70'000, 1, 1, {}, true, statement::stated);
    copy_and_compare(t, device, {}, pool, {}, 70'000, 1, 1, urgent, true, statement::stated);
}

void without_a_current_context(trial &t) {
    t.open();
    constexpr grid shape = {.width = 64, .height = 40, .row_pitch = 80};
    test_place pageable(place_kind::pageable, shape), device(place_kind::device, shape),
        other(place_kind::device, shape);
    pageable.fill(1), device.fill(2), other.fill(3);
    t.make_current(nullptr);
    for (const copy_form &form : both_forms)
        for (const how &options : {by_driver, by_kernel, by_staging}) {
            const bool is_staged = options == by_staging;
            const ferry_copy_desc copy =
                describe_copy(is_staged ? pageable.describe(statement::any) : other.describe(statement::stated),
                              device.describe(statement::stated), 60, 40);
            const bool succeeded = form.is_asynchronous
                                       ? CALL(t, ferry_copy_async, t.ferry, &copy, options, t.stream, nullptr)
                                       : CALL(t, ferry_copy, t.ferry, &copy, options);
            t.expect_copy(succeeded, is_staged ? pageable : other, {}, device, {}, 60, 40);
            t.make_current(t.primary);
            t.wait_and_compare(t.stream);
            t.make_current(nullptr);
        }
    t.close();
    t.make_current(t.primary);
}

void rows_by_kernels(trial &t) {
    t.open();
    constexpr grid shape = {.width = 120, .height = 60, .depth = 3, .row_pitch = 131, .slice_height = 61, .lead = 1};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape), other(place_kind::device, shape);
    pinned.fill(1), device.fill(2), other.fill(3);
    for (const copy_form &form : both_forms)
        for (const how &options : {by_kernel, urgent}) {
            copy_and_compare(t, pinned, {3}, device, {1, 2}, 100, 50, 2, options, form.is_asynchronous);
            copy_and_compare(t, device, {3}, other, {0, 2, 1}, 100, 50, 2, options, form.is_asynchronous);
            copy_and_compare(t, other, {3}, pinned, {7}, 100, 50, 2, options, form.is_asynchronous);
        }
}

// ---- Staged

// Makes small copies use several chunks and launches. Must be called before the first copy.
void cut_small(trial &t, bool refuses_work = false) {
    staged_options options;
    options.slot_size = 16384;
    options.slots = 8;
    options.first_slots = 2;
    options.max_launch = 64 << 10;
    options.threads = 2;
    // A thread of the engine does the work, and a host function announces each run.
    if (refuses_work) options.submit = [](void *, void (*)(void *), void *) { return std::int32_t{0}; };
    t.ferry->staging.set_up(options);
}

constexpr grid staged_line = {.width = 200'000, .lead = 3};

void staged(trial &t, bool is_asynchronous, const how &options = by_staging) {
    constexpr grid rows = {.width = 1000, .height = 90, .depth = 2, .row_pitch = 1111, .lead = 1};
    test_place host(place_kind::pageable, staged_line), device(place_kind::device, staged_line),
        host_rows(place_kind::pageable, rows), device_rows(place_kind::device, rows);
    host.fill(1), device.fill(2), host_rows.fill(3), device_rows.fill(4);
    copy_and_compare(t, host, {1}, device, {5}, 190'000, 1, 1, options, is_asynchronous);
    copy_and_compare(t, device, {7}, host, {}, 190'000, 1, 1, options, is_asynchronous);
    copy_and_compare(t, host_rows, {3}, device_rows, {1, 2}, 900, 88, 2, options, is_asynchronous);
    copy_and_compare(t, device_rows, {3}, host_rows, {1, 2}, 900, 88, 2, options, is_asynchronous);
}
void staged_synchronously(trial &t) {
    t.open();
    cut_small(t);
    staged(t, false);
}
void staged_asynchronously(trial &t) {
    t.open();
    cut_small(t);
    staged(t, true);
}
void staged_by_host_functions(trial &t) {
    t.open();
    cut_small(t, true);
    staged(t, true);
}
void staged_without_kernels(trial &t) {
    t.open();
    cut_small(t);
    staged(t, true, by_staging | no_kernels);
    staged(t, false, by_staging | no_kernels);
}
void staged_as_the_plan_says(trial &t) {
    t.open();
    constexpr grid shape = {.width = 1'500'000};
    test_place host(place_kind::pageable, shape), device(place_kind::device, shape);
    host.fill(1), device.fill(2);
    copy_and_compare(t, host, {}, device, {}, shape.width, 1, 1, {}, true);
    copy_and_compare(t, device, {}, host, {1}, shape.width - 1, 1, 1, {}, true);
    copy_and_compare(t, host, {}, device, {}, 3000, 1, 1, {},
                     true); // a small copy, which the driver may read within the call
    copy_and_compare(t, host, {}, device, {}, shape.width, 1, 1, {}, false);
}

// Enqueues several copies on two streams, then waits for all.
void staged_many(trial &t) {
    t.open();
    cut_small(t);
    CUstream second = nullptr;
    EXPECT_OK(raw().cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    test_place host(place_kind::pageable, staged_line), back(place_kind::pageable, staged_line),
        device(place_kind::device, staged_line), other(place_kind::device, staged_line),
        of_second(place_kind::pageable, staged_line), unchanged(place_kind::device, staged_line);
    host.fill(1), back.fill(2), device.fill(3), other.fill(4), of_second.fill(5), unchanged.fill(6);
    const auto enqueue = [&](test_place &from, test_place &to, CUstream on) {
        const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 150'000);
        const how options = is_array(from.kind()) || from.kind() == to.kind() ? how() : by_staging;
        t.expect_copy(CALL(t, ferry_copy_async, t.ferry, &copy, options, on, nullptr), from, {}, to, {}, 150'000);
    };
    enqueue(host, device, t.stream);
    enqueue(unchanged, of_second, second);
    enqueue(device, other, t.stream);
    enqueue(other, back, t.stream);
    enqueue(of_second, unchanged, second);
    if (const CUresult result = raw().cuStreamSynchronize(second)) t.note_dead("waiting for a stream", result);
    t.wait_and_compare(t.stream);
    EXPECT_OK(raw().cuStreamDestroy(second));
}

// Waits for the work of a ticket, which has written `to`, and releases the ticket.
void finish(trial &t, ferry_ticket *ticket, test_place &to, std::uint64_t tag = 0) {
    if (!ticket) return;
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    if (CALL(t, ferry_ticket_get_info, ticket, &info) && info.tag != tag)
        t.add(finding::bad_output, "a ticket has another tag");
    if (CALL(t, ferry_ticket_wait, ticket, FERRY_NO_TIMEOUT) &&
        (to.kind() == place_kind::pageable || to.kind() == place_kind::pinned) && to.read() != to.picture())
        t.add(finding::wrong_bytes, "a ticket was done before its bytes had arrived");
    info = {};
    info.struct_size = sizeof info;
    if (CALL(t, ferry_ticket_get_info, ticket, &info) && info.done && info.status == 0 &&
        info.bytes_done != info.bytes_total)
        t.add(finding::bad_output, "a ticket is done at %llu of %llu bytes",
              static_cast<unsigned long long>(info.bytes_done), static_cast<unsigned long long>(info.bytes_total));
    RELEASE(t, ferry_ticket_release, ticket);
}

void tickets(trial &t) {
    t.open();
    cut_small(t);
    test_place host(place_kind::pageable, staged_line), device(place_kind::device, staged_line),
        other(place_kind::device, staged_line);
    host.fill(1), device.fill(2), other.fill(3);
    const auto ticket_for = [&](test_place &from, test_place &to, const how &options) {
        ferry_ticket *ticket = nullptr;
        const ferry_copy_desc copy = describe_copy(from.describe(statement::any), to.describe(statement::any), 180'000);
        t.expect_copy(MAKE(t, ticket, ferry_copy_async, t.ferry, &copy, options, t.stream, &ticket), from, {}, to, {},
                      180'000);
        return ticket;
    };
    for (const how &options : {by_staging, by_driver}) {
        ferry_ticket *const up = ticket_for(host, device, options);
        finish(t, up, device);
        t.wait_and_compare(t.stream);
        ferry_ticket *const down = ticket_for(device, host, options);
        finish(t, down, host);
        t.wait_and_compare(t.stream);
        ferry_ticket *const early = ticket_for(host, other, options); // released while the copy is in flight
        if (early) RELEASE(t, ferry_ticket_release, early);
        t.wait_and_compare(t.stream);
    }
    ferry_ticket *of_stream = nullptr;
    MAKE(t, of_stream, ferry_ticket_create, t.ferry, t.stream, &of_stream);
    if (of_stream) {
        CALL(t, ferry_ticket_wait_async, of_stream, t.stream);
        constexpr std::int64_t ten_seconds = 10'000'000'000;
        CALL(t, ferry_ticket_wait, of_stream, ten_seconds);
        std::uint64_t index = 0;
        CALL(t, ferry_ticket_wait_any, &of_stream, 1, ten_seconds, &index);
    }
    finish(t, of_stream, device);
    std::atomic<bool> called = false;
    if (CALL(
            t, ferry_stream_notify, t.ferry, t.stream,
            [](void *user, std::int32_t) { *static_cast<std::atomic<bool> *>(user) = true; }, &called)) {
        t.wait_and_compare(t.stream);
        if (!called && !t.is_dead()) t.add(finding::bad_output, "a notification was not called");
    }
    finish(t, ticket_for(device, other, by_kernel), other);
    t.wait_and_compare(t.stream);
}

// The file has the bytes of `model`.
void files(trial &t) {
    t.open();
    cut_small(t);
    test_place model(place_kind::pageable, staged_line), device(place_kind::device, staged_line);
    model.fill(1), device.fill(2);
    const temporary_file contents(model.picture()), copied(bytes(1));
    ferry_file *source = nullptr, *destination = nullptr;
    ferry_file_options writes = {};
    writes.struct_size = sizeof writes;
    writes.flags = FERRY_FILE_WRITE;
    const std::string from = contents.path(), to = copied.path();
    MAKE(t, source, ferry_file_open, t.ferry, from.c_str(), nullptr, &source);
    MAKE(t, destination, ferry_file_open, t.ferry, to.c_str(), &writes, &destination);
    if (source && destination) {
        ferry_place in_source, in_destination;
        const std::uint64_t lead = staged_line.lead;
        ferry_place_file(&in_source, source, lead);
        ferry_place_file(&in_destination, destination, 0);
        const ferry_place memory = device.describe(statement::stated);
        const ferry_copy_desc read = describe_copy(in_source, memory, 180'000),
                              write = describe_copy(memory, in_destination, 180'000);
        t.expect_copy(CALL(t, ferry_copy, t.ferry, &read, nullptr), model, {}, device, {}, 180'000);
        t.wait_and_compare(t.stream);
        ferry_ticket *ticket = nullptr;
        t.expect_copy(MAKE(t, ticket, ferry_copy_async, t.ferry, &read, nullptr, t.stream, &ticket), model, {}, device,
                      {}, 180'000);
        finish(t, ticket, device);
        t.wait_and_compare(t.stream);
        const std::uint64_t end = memory.address + 190'000;
        const ferry_piece pieces[] = {
            {memory.address, lead, 1000}, {memory.address + 5000, lead + 5000, 100'000}, {end, 0, 0}};
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces, std::size(pieces));
        list.source_file = source;
        const bool have_pieces = CALL(t, ferry_copy_pieces, t.ferry, &list, nullptr);
        t.expect_copy(have_pieces, model, {}, device, {}, 1000);
        t.expect_copy(have_pieces, model, {5000}, device, {5000}, 100'000);
        t.wait_and_compare(t.stream);
        if (CALL(t, ferry_copy, t.ferry, &write, nullptr)) {
            const bytes written = copied.read();
            if (written.size() != 180'000 ||
                !std::equal(written.begin(), written.end(), device.picture().begin() + lead))
                t.add(finding::wrong_bytes, "a copy into a file was reported before its bytes were there");
        }
    }
    if (source) ferry_file_close(source);
    if (destination) ferry_file_close(destination);
}

void staged_by_a_pool(trial &t, bool (*is_full)(int nth)) {
    program_threads system;
    system.is_full = is_full;
    ferry_options options = t.options();
    options.submit = program_threads::submit;
    options.submit_user = &system;
    options.staging_threads = 2;
    options.staging_bytes = 128 << 10;
    t.open(options);
    test_place host(place_kind::pageable, staged_line), device(place_kind::device, staged_line);
    host.fill(1), device.fill(2);
    for (const copy_form &form : both_forms) {
        copy_and_compare(t, host, {1}, device, {5}, 190'000, 1, 1, by_staging, form.is_asynchronous);
        copy_and_compare(t, device, {7}, host, {}, 190'000, 1, 1, by_staging, form.is_asynchronous);
    }
    t.close(); // closes before the threads of `system` end
}
void staged_by_threads_of_the_program(trial &t) { staged_by_a_pool(t, nullptr); }
void staged_by_a_pool_that_runs_work_itself(trial &t) { staged_by_a_pool(t, program_threads::always); }

// Enqueues copies on a blocked stream, makes other calls fail, then unblocks the stream.
void other_calls_beside_staged_copies(trial &t) {
    t.open();
    cut_small(t);
    // Unless staging is prepared, a copy may wait for the blocked stream.
    if (!CALL(t, ferry_staging_prepare, t.ferry, 0)) return;
    CUstream_st *second = nullptr;
    CUevent_st *event = nullptr;
    MAKE(t, second, ferry_stream_create, t.ferry, 0, FERRY_STREAM_NON_BLOCKING, 0, &second);
    MAKE(t, event, ferry_event_create, t.ferry, 0, FERRY_EVENT_DISABLE_TIMING, &event);
    test_place host(place_kind::pageable, staged_line), back(place_kind::pageable, staged_line),
        device(place_kind::device, staged_line), other(place_kind::device, staged_line),
        small(place_kind::device, {.width = 256, .height = 20}),
        pinned(place_kind::pinned, {.width = 256, .height = 20});
    host.fill(1), back.fill(2), device.fill(3), other.fill(4), small.fill(5), pinned.fill(6);
    {
        gate held(t.stream);
        const ferry_copy_desc up =
            describe_copy(host.describe(statement::any), device.describe(statement::any), 200'000);
        const ferry_copy_desc down =
            describe_copy(other.describe(statement::any), back.describe(statement::any), 200'000);
        ferry_ticket *ticket = nullptr;
        t.expect_copy(CALL(t, ferry_copy_async, t.ferry, &up, by_staging, t.stream, nullptr), host, {}, device, {},
                      200'000);
        t.expect_copy(MAKE(t, ticket, ferry_copy_async, t.ferry, &down, by_staging, t.stream, &ticket), other, {}, back,
                      {}, 200'000);
        std::int32_t done = 0;
        if (second) {
            if (event) {
                CALL(t, ferry_event_record, t.ferry, event, second);
                CALL(t, ferry_stream_wait_event, t.ferry, second, event);
                CALL(t, ferry_event_query, t.ferry, event, &done);
                CALL(t, ferry_event_synchronize, t.ferry, event);
            }
            CALL(t, ferry_stream_query, t.ferry, second, &done);
            CALL(t, ferry_stream_synchronize, t.ferry, second);
            for (const how &options : {by_driver, by_kernel}) {
                ferry_copy_desc copy =
                    describe_copy(pinned.describe(statement::any), small.describe(statement::any), 200, 20);
                copy.source.row_pitch = copy.destination.row_pitch = 256;
                t.expect_copy(CALL(t, ferry_copy_async, t.ferry, &copy, options, second, nullptr), pinned, {}, small,
                              {}, 200, 20);
            }
            const ferry_place place = small.describe(statement::any);
            ferry_fill_desc fill;
            const std::uint8_t pattern = 7;
            ferry_fill_desc_init(&fill, &place, 10, 1, 1, &pattern, 1);
            t.expect_pattern(CALL(t, ferry_fill_async, t.ferry, &fill, nullptr, second, nullptr), small, {}, 10, 1, 1,
                             &pattern, 1);
            std::uint64_t address = 0;
            if (MAKE(t, address, ferry_device_alloc_async, t.ferry, 0, 4096, second, &address))
                RELEASE(t, ferry_device_free_async, t.ferry, address, second);
            if (const CUresult result = raw().cuStreamSynchronize(second)) t.note_dead("waiting for a stream", result);
        }
        CALL(t, ferry_stream_query, t.ferry, t.stream, &done);
        if (ticket) {
            ferry_ticket_info info = {};
            info.struct_size = sizeof info;
            CALL(t, ferry_ticket_get_info, ticket, &info);
            RELEASE(t, ferry_ticket_release, ticket);
        }
        held.let_go();
        t.wait_and_compare(t.stream);
    }
    if (event) RELEASE(t, ferry_event_destroy, t.ferry, event);
    if (second) RELEASE(t, ferry_stream_destroy, t.ferry, second);
}

void staging_prepared_and_trimmed(trial &t) {
    t.open();
    ferry_staging_info info = {};
    info.struct_size = sizeof info;
    test_place host(place_kind::pageable, staged_line), device(place_kind::device, staged_line);
    host.fill(1), device.fill(2);
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < std::min(device_count(), 2); ++i)
            CALL(t, ferry_staging_prepare, t.ferry, i);
        copy_and_compare(t, host, {}, device, {}, 200'000, 1, 1, by_staging, true);
        CALL(t, ferry_staging_get_info, t.ferry, &info);
        CALL(t, ferry_staging_trim, t.ferry);
    }
    copy_and_compare(t, device, {}, host, {}, 200'000, 1, 1, by_staging, true);
}

// ---- Parts

// Pageable memory whose middle is registered in pieces. Copies and fills cross the borders.
void parts(trial &t) {
    ferry_options options = t.options();
    options.register_chunk = 16384;
    t.open(options);
    cut_small(t);
    constexpr std::uint64_t size = 160'000, page = 4096;
    test_place host(place_kind::pageable, {.width = size + page}), device(place_kind::device, {.width = size});
    host.fill(1), device.fill(2);
    const std::uint64_t begin = (host.address() + page - 1) / page * page - host.address();
    void *const registered = reinterpret_cast<void *>(host.address() + begin + 8 * page);
    const bool is_registered = CALL(t, ferry_host_register, t.ferry, registered, 12 * page, 0);
    const struct {
        std::uint64_t from, width;
    } ranges[] = {{begin, 140'000}, {begin + 9 * page, 60'000}, {begin + 8 * page + 100, 11 * page}};
    for (const auto &[from, width] : ranges)
        for (const copy_form &form : both_forms)
            for (const how &options : {how(), by_driver}) {
                copy_and_compare(t, host, {from}, device, {10}, width, 1, 1, options, form.is_asynchronous);
                copy_and_compare(t, device, {20}, host, {from}, width, 1, 1, options, form.is_asynchronous);
            }
    if (!is_registered) return;
    ferry_place place = host.describe(statement::any, {});
    place.address += begin + 8 * page;
    const std::uint32_t pattern = 0x01020304;
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, 12 * page, 1, 1, &pattern, sizeof pattern);
    t.expect_pattern(CALL(t, ferry_fill, t.ferry, &fill, nullptr), host, {begin + 8 * page}, 12 * page, 1, 1, &pattern,
                     sizeof pattern);
    t.compare();
    t.expect_pattern(CALL(t, ferry_fill_async, t.ferry, &fill, nullptr, t.stream, nullptr), host, {begin + 8 * page},
                     12 * page, 1, 1, &pattern, sizeof pattern);
    t.wait_and_compare(t.stream);
    RELEASE(t, ferry_host_unregister, t.ferry, registered);
}

// ---- Batches

void batches(trial &t) {
    t.open();
    cut_small(t);
    constexpr grid shape = {.width = 256, .height = 300};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape), other(place_kind::device, shape),
        pageable(place_kind::pageable, shape), array(place_kind::array_2d, {.width = 256, .height = 300});
    pinned.fill(1), device.fill(2), other.fill(3), pageable.fill(4), array.fill(5);
    // Boxes for a kernel, contiguous copies, pageable memory and an array.
    std::vector<ferry_copy_desc> copies;
    struct planned {
        test_place *from, *to;
        box at, onto;
        std::uint64_t width, height;
    };
    std::vector<planned> plan;
    for (std::uint64_t i = 0; i < 60; ++i) // more boxes than fit in the parameters of a launch
        plan.push_back({&pinned, &device, {8, 4 * i}, {16, 4 * i}, 40, 4});
    for (std::uint64_t i = 0; i < 8; ++i)
        plan.push_back({&device, &other, {0, 240 + i}, {0, 2 * i}, 256, 1});
    plan.push_back({&pageable, &device, {0, 250}, {0, 250}, 256, 20});
    plan.push_back({&array, &other, {0, 0}, {0, 100}, 256, 50});
    for (const planned &one : plan)
        copies.push_back(describe_copy(one.from->describe(statement::any, one.at),
                                       one.to->describe(statement::any, one.onto), one.width, one.height));
    const auto expect = [&](bool succeeded) {
        for (const planned &one : plan)
            t.expect_copy(succeeded, *one.from, one.at, *one.to, one.onto, one.width, one.height);
    };
    expect(CALL(t, ferry_copy_batch, t.ferry, copies.data(), copies.size(), nullptr));
    t.wait_and_compare(t.stream);
    expect(CALL(t, ferry_copy_batch_async, t.ferry, copies.data(), copies.size(), check_overlap, t.stream, nullptr));
    t.wait_and_compare(t.stream);
    for (const how &options : {by_driver, no_kernels}) {
        expect(CALL(t, ferry_copy_batch_async, t.ferry, copies.data(), copies.size(), options, t.stream, nullptr));
        t.wait_and_compare(t.stream);
    }
}

struct pieces {
    std::vector<std::uint64_t> destinations, sources, sizes;
    void add(test_place &from, std::uint64_t at, test_place &to, std::uint64_t onto, std::uint64_t size) {
        sources.push_back(from.address() + at);
        destinations.push_back(to.address() + onto);
        sizes.push_back(size);
    }
    laid_out_pieces in(const piece_layout &layout) const { return {layout, destinations, sources, sizes}; }
};

// Copies synchronously, then twice on the stream, each time from another layout. The argument of `expect` is whether a
// call succeeded.
void copy_three_times(trial &t, const pieces &all, const std::function<void(bool)> &expect) {
    expect(CALL(t, ferry_copy_pieces, t.ferry, all.in(three_arrays), nullptr));
    t.wait_and_compare(t.stream);
    for (const piece_layout &layout : {array_of_pieces, own_structs}) {
        expect(CALL(t, ferry_copy_pieces_async, t.ferry, all.in(layout), nullptr, t.stream, nullptr));
        t.wait_and_compare(t.stream);
    }
}

void pieces_with(trial &t, const how &instance_options) {
    ferry_options options = t.options();
    options.copy_options = instance_options;
    t.open(options);
    cut_small(t);
    constexpr grid shape = {.width = 100'000};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape),
        pageable(place_kind::pageable, shape), other(place_kind::device, shape);
    pinned.fill(1), device.fill(2), pageable.fill(3), other.fill(4);
    constexpr std::uint64_t small = 250, large = 3; // more pieces than fit in the parameters of a launch
    pieces all;
    for (std::uint64_t i = 0; i < small; ++i)
        all.add(pinned, 300 * i, device, 301 * i, 200);
    for (std::uint64_t i = 0; i < large; ++i)
        all.add(pageable, 20'000 * i, other, 20'011 * i, 9000);
    const auto expect = [&](bool succeeded) {
        for (std::uint64_t i = 0; i < small; ++i)
            t.expect_copy(succeeded, pinned, {300 * i}, device, {301 * i}, 200);
        for (std::uint64_t i = 0; i < large; ++i)
            t.expect_copy(succeeded, pageable, {20'000 * i}, other, {20'011 * i}, 9000);
    };
    copy_three_times(t, all, expect);
}
// Pieces of pageable memory, all in one staged copy per direction.
void pieces_staged(trial &t) {
    ferry_options options = t.options();
    options.copy_options = by_staging;
    t.open(options);
    cut_small(t);
    constexpr grid shape = {.width = 200'000};
    test_place up(place_kind::pageable, shape), device(place_kind::device, shape), down(place_kind::pageable, shape),
        other(place_kind::device, shape);
    up.fill(1), device.fill(2), down.fill(3), other.fill(4);
    constexpr std::uint64_t count = 150;
    pieces all;
    for (std::uint64_t i = 0; i < count; ++i) {
        all.add(up, 1300 * i, device, 1301 * i, 1200);
        all.add(other, 1300 * i, down, 1302 * i, 900);
    }
    const auto expect = [&](bool succeeded) {
        for (std::uint64_t i = 0; i < count; ++i) {
            t.expect_copy(succeeded, up, {1300 * i}, device, {1301 * i}, 1200);
            t.expect_copy(succeeded, other, {1300 * i}, down, {1302 * i}, 900);
        }
    };
    copy_three_times(t, all, expect);
}

// Sources that are read before the call returns: small and large, after other work and on an idle stream.
void sources_read_early(trial &t) {
    t.open();
    cut_small(t);
    test_place small(place_kind::pageable, {.width = 5000}), large(place_kind::pageable, staged_line),
        device(place_kind::device, staged_line), other(place_kind::device, {.width = 5000});
    small.fill(1), large.fill(2), device.fill(3), other.fill(4);
    for (int i = 0; i < 2; ++i) {
        copy_and_compare(t, small, {}, other, {}, 5000, 1, 1, read_in_the_call, true);
        const ferry_copy_desc both[] = {
            describe_copy(large.describe(statement::any), device.describe(statement::any), 150'000),
            describe_copy(small.describe(statement::any), other.describe(statement::any), 4000)};
        t.expect_copy(CALL(t, ferry_copy_async, t.ferry, &both[0], read_in_the_call, t.stream, nullptr), large, {},
                      device, {}, 150'000);
        t.expect_copy(CALL(t, ferry_copy_async, t.ferry, &both[1], read_in_the_call, t.stream, nullptr), small, {},
                      other, {}, 4000);
        t.wait_and_compare(t.stream);
    }
}

// Destinations that are complete when the call returns, in single copies and in batches.
void destinations_written(trial &t) {
    t.open();
    cut_small(t);
    test_place small(place_kind::pageable, {.width = 5000}), large(place_kind::pageable, staged_line),
        device(place_kind::device, staged_line);
    small.fill(1), large.fill(2), device.fill(3);
    std::uint64_t seed = 3;
    for (const how &options :
         {written_in_the_call, written_in_the_call | by_driver, written_in_the_call | no_kernels}) {
        const ferry_copy_desc both[] = {
            describe_copy(device.describe(statement::any), large.describe(statement::any), 150'000),
            describe_copy(device.describe(statement::any, {3}), small.describe(statement::any), 4000)};
        const auto expect = [&](bool succeeded) {
            t.expect_copy(succeeded, device, {}, large, {}, 150'000);
            t.expect_copy(succeeded, device, {3}, small, {}, 4000);
            t.compare(); // without waiting
        };
        const bool one = CALL(t, ferry_copy_async, t.ferry, &both[0], options, t.stream, nullptr);
        const bool other = CALL(t, ferry_copy_async, t.ferry, &both[1], options, t.stream, nullptr);
        expect(one && other);
        device.fill(++seed);
        expect(CALL(t, ferry_copy_batch_async, t.ferry, both, 2, options, t.stream, nullptr));
        t.wait_and_compare(t.stream);
    }
}

// `count` blocks of the source, at indices below 100 in host memory.
ferry_nest gathered(const test_place &from, const test_place &to, const std::uint32_t *ids, std::uint64_t count,
                    std::uint64_t size) {
    ferry_nest nest = {};
    nest.source.place = from.describe(statement::stated);
    nest.destination.place = to.describe(statement::stated);
    for (ferry_nest_end *const end : {&nest.source, &nest.destination}) {
        end->place.row_pitch = end->place.slice_height = 0;
        end->axes[0].count = count;
        end->axes[0].stride = static_cast<std::int64_t>(size);
    }
    nest.source.axes[0].indices = reinterpret_cast<std::uintptr_t>(ids);
    nest.source.axes[0].index_type = FERRY_INDEX_U32;
    nest.source.axes[0].index_limit = 100;
    nest.width = size;
    nest.axes = 1;
    return nest;
}

// Blocks in the order of a list in host memory: by a kernel, and as boxes.
void blocks_by_indices(trial &t, const how &instance_options) {
    ferry_options options = t.options();
    options.copy_options = instance_options;
    t.open(options);
    constexpr grid shape = {.width = 100'000};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape);
    pinned.fill(1), device.fill(2);
    constexpr std::uint64_t count = 40, size = 1000;
    std::uint32_t ids[count];
    for (std::uint32_t i = 0; i < count; ++i)
        ids[i] = i * 37 % 90;
    const ferry_nest nest = gathered(pinned, device, ids, count, size);
    const auto expect = [&](bool succeeded) {
        for (std::uint64_t i = 0; i < count; ++i)
            t.expect_copy(succeeded, pinned, {ids[i] * size}, device, {i * size}, size);
    };
    expect(CALL(t, ferry_copy_nests, t.ferry, &nest, 1, nullptr));
    t.wait_and_compare(t.stream);
    expect(CALL(t, ferry_copy_nests_async, t.ferry, &nest, 1, nullptr, t.stream, nullptr));
    t.wait_and_compare(t.stream);
}
// Prepared: a kernel reads the indices from a table, and boxes are a batch.
void prepared_nests(trial &t) {
    t.open();
    cut_small(t);
    constexpr std::uint64_t count = 40, size = 1000;
    constexpr grid shape = {.width = 100'000};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape),
        pageable(place_kind::pageable, shape), other(place_kind::device, shape);
    pinned.fill(1), device.fill(2), pageable.fill(3), other.fill(4);
    std::uint32_t ids[count];
    for (std::uint32_t i = 0; i < count; ++i)
        ids[i] = i * 37 % 90;
    const ferry_nest nests[] = {gathered(pinned, device, ids, count, size),
                                gathered(pageable, other, ids, count, size)};
    ferry_prepared *prepared = nullptr;
    if (!MAKE(t, prepared, ferry_prepared_create_nests, t.ferry, nests, 2, nullptr, t.stream, &prepared)) return;
    for (int launch = 0; launch < 2; ++launch) {
        const bool succeeded = CALL(t, ferry_prepared_launch, prepared, nullptr, t.stream, nullptr);
        for (std::uint64_t i = 0; i < count; ++i) {
            t.expect_copy(succeeded, pinned, {ids[i] * size}, device, {i * size}, size);
            t.expect_copy(succeeded, pageable, {ids[i] * size}, other, {i * size}, size);
        }
        t.wait_and_compare(t.stream);
    }
    RELEASE(t, ferry_prepared_destroy_deferred, prepared, t.stream);
    t.wait_and_compare(t.stream);
    RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
}

// So many small boxes with a pageable end pass through a buffer.
void nests_through_a_buffer(trial &t) {
    t.open();
    cut_small(t);
    constexpr std::uint64_t rows = 300, columns = 200, size = 2;
    constexpr grid shape = {.width = rows * columns * size};
    test_place pageable(place_kind::pageable, shape), device(place_kind::device, shape);
    pageable.fill(1), device.fill(2);
    const auto transpose = [&](test_place &from, test_place &to) {
        ferry_nest nest = {};
        nest.source.place = from.describe(statement::any);
        nest.destination.place = to.describe(statement::any);
        nest.source.axes[0].count = nest.destination.axes[0].count = columns;
        nest.source.axes[1].count = nest.destination.axes[1].count = rows;
        nest.source.axes[0].stride = nest.destination.axes[1].stride = size;
        nest.source.axes[1].stride = columns * size;
        nest.destination.axes[0].stride = rows * size;
        nest.source.place.row_pitch = nest.source.place.slice_height = 0;
        nest.destination.place.row_pitch = nest.destination.place.slice_height = 0;
        nest.width = size;
        nest.axes = 2;
        const bool succeeded = CALL(t, ferry_copy_nests_async, t.ferry, &nest, 1, nullptr, t.stream, nullptr);
        for (std::uint64_t y = 0; y < rows; ++y)
            for (std::uint64_t x = 0; x < columns; ++x)
                t.expect_copy(succeeded, from, {(y * columns + x) * size}, to, {(x * rows + y) * size}, size);
        t.wait_and_compare(t.stream);
    };
    transpose(pageable, device);
    transpose(device, pageable);
}

// So large an array without a surface is staged through a buffer.
void arrays_through_a_buffer(trial &t) {
    t.open();
    ferry_array_desc desc = {.struct_size = sizeof desc,
                             .format = FERRY_FORMAT_UINT32,
                             .channels = 1,
                             .flags = 0,
                             .width = 1024,
                             .height = 512,
                             .depth = 0};
    constexpr std::uint64_t row_bytes = 4096, rows = 512;
    constexpr grid shape = {.width = row_bytes, .height = rows};
    test_place host(place_kind::pageable, shape), back(place_kind::pageable, shape);
    host.fill(1), back.fill(2);
    CUarray_st *array = nullptr;
    MAKE(t, array, ferry_array_create, t.ferry, 0, &desc, &array);
    if (!array) return;
    ferry_place in_array;
    ferry_place_array(&in_array, 0, array);
    const ferry_copy_desc up = describe_copy(host.describe(statement::any), in_array, row_bytes, rows),
                          down = describe_copy(in_array, back.describe(statement::any), row_bytes, rows);
    for (const copy_form &form : both_forms) {
        const auto copy = [&](const ferry_copy_desc &desc) {
            return form.is_asynchronous ? CALL(t, ferry_copy_async, t.ferry, &desc, by_staging, t.stream, nullptr)
                                        : CALL(t, ferry_copy, t.ferry, &desc, by_staging);
        };
        bool succeeded = copy(up);
        succeeded &= copy(down);
        t.expect_copy(succeeded, host, {}, back, {}, row_bytes, rows);
        t.wait_and_compare(t.stream);
    }
    RELEASE(t, ferry_array_destroy, t.ferry, array);
}

void nests_by_kernels(trial &t) { blocks_by_indices(t, {}); }
void nests_by_the_driver(trial &t) { blocks_by_indices(t, no_kernels); }

void pieces_by_kernels(trial &t) { pieces_with(t, {}); }
void pieces_by_the_driver(trial &t) { pieces_with(t, no_kernels); }

// Copies within one memory: to bytes of their own, and onto their source, which must be refused without an effect.
void copies_within_one_memory(trial &t) {
    t.open();
    cut_small(t);
    constexpr grid shape = {.width = 96, .height = 40, .row_pitch = 128, .lead = 5};
    test_place pinned(place_kind::pinned, shape), managed(place_kind::managed, shape),
        device(place_kind::device, shape), array(place_kind::array_2d, {.width = 96, .height = 40});
    std::uint64_t seed = 1;
    for (test_place *const place : {&pinned, &managed, &device, &array}) {
        place->fill(seed++);
        for (const copy_form &form : both_forms)
            for (const how &options : {how(), by_driver, written_in_the_call}) {
                copy_and_compare(t, *place, {0, 0}, *place, {16, 20}, 64, 20, 1, options, form.is_asynchronous);
                const ferry_copy_desc onto_itself = describe_copy(place->describe(statement::any, {0, 4}),
                                                                  place->describe(statement::any, {0, 6}), 64, 20);
                t.begin("a copy onto its source");
                t.ended_refused("a copy onto its source",
                                form.is_asynchronous
                                    ? ferry_copy_async(t.ferry, &onto_itself, options, t.stream, nullptr, t.error())
                                    : ferry_copy(t.ferry, &onto_itself, options, t.error()));
                t.expect_unchanged(*place);
                t.wait_and_compare(t.stream);
            }
    }
}

void pieces_within_one_memory(trial &t) {
    t.open();
    cut_small(t);
    constexpr std::uint64_t count = 200, stride = 300, size = 250;
    test_place pinned(place_kind::pinned, {.width = 2 * count * stride}),
        device(place_kind::device, {.width = 2 * count * stride});
    pinned.fill(1), device.fill(2);
    for (test_place *const place : {&pinned, &device}) {
        pieces halves, rotated; // from one half to the other, and each piece to the place of the next
        for (std::uint64_t i = 0; i < count; ++i) {
            halves.add(*place, i * stride, *place, (count + i) * stride, size);
            rotated.add(*place, i * stride, *place, (i + 1) % count * stride, size);
        }
        copy_three_times(t, halves, [&](bool succeeded) {
            for (std::uint64_t i = 0; i < count; ++i)
                t.expect_copy(succeeded, *place, {i * stride}, *place, {(count + i) * stride}, size);
        });
        for (const copy_form &form : both_forms) {
            const std::uint64_t *const to = rotated.destinations.data(), *const from = rotated.sources.data(),
                                       *const sizes = rotated.sizes.data();
            t.begin("pieces that share bytes");
            t.ended_refused("pieces that share bytes",
                            form.is_asynchronous ? ferry_copy_pieces_async(t.ferry, in_arrays(to, from, sizes, count),
                                                                           check_overlap, t.stream, nullptr, t.error())
                                                 : ferry_copy_pieces(t.ferry, in_arrays(to, from, sizes, count),
                                                                     check_overlap, t.error()));
            t.expect_unchanged(*place);
            t.wait_and_compare(t.stream);
        }
        ferry_prepared *prepared = nullptr;
        t.begin("preparing pieces that share bytes");
        const std::int32_t status = ferry_prepared_create_pieces(t.ferry, rotated.in(array_of_pieces), check_overlap,
                                                                 t.stream, &prepared, t.error());
        t.ended_refused("preparing pieces that share bytes", status);
        if (prepared) t.add(finding::bad_output, "pieces that share bytes were prepared");
    }
}

void prepared_batches(trial &t) {
    t.open();
    cut_small(t);
    constexpr grid shape = {.width = 100'000};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape), other(place_kind::device, shape),
        pageable(place_kind::pageable, shape);
    pinned.fill(1), device.fill(2), other.fill(3), pageable.fill(4);
    // Pieces whose addresses can change, which use a table.
    constexpr std::uint64_t count = 250;
    pieces to_device, to_other;
    for (std::uint64_t i = 0; i < count; ++i) {
        to_device.add(pinned, 320 * i, device, 320 * i, 200);
        to_other.add(pinned, 320 * i + 16, other, 320 * i + 32, 200);
    }
    const auto expect = [&](bool succeeded, test_place &to, std::uint64_t from, std::uint64_t onto) {
        for (std::uint64_t i = 0; i < count; ++i)
            t.expect_copy(succeeded, pinned, {320 * i + from}, to, {320 * i + onto}, 200);
    };
    ferry_prepared *prepared = nullptr;
    if (MAKE(t, prepared, ferry_prepared_create_pieces, t.ferry, to_device.in(array_of_pieces), updatable, t.stream,
             &prepared)) {
        expect(CALL(t, ferry_prepared_launch, prepared, nullptr, t.stream, nullptr), device, 0, 0);
        t.wait_and_compare(t.stream);
        const bool is_changed = CALL(t, ferry_prepared_set_addresses, prepared, to_other.in(own_structs), t.stream);
        const bool is_launched = CALL(t, ferry_prepared_launch, prepared, nullptr, t.stream, nullptr);
        if (is_changed)
            expect(is_launched, other, 16, 32);
        else
            expect(is_launched, device, 0, 0); // the old addresses are still valid
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_prepared_destroy_deferred, prepared, t.stream);
        t.wait_and_compare(t.stream);
        RELEASE(t, ferry_deferred_trim, t.ferry, FERRY_DEVICE_UNKNOWN, 0);
    }
    // Copies of every kind.
    const ferry_copy_desc copies[] = {
        describe_copy(pinned.describe(statement::any), device.describe(statement::any), 50'000),
        describe_copy(pageable.describe(statement::any), other.describe(statement::any), 50'000),
        describe_copy(device.describe(statement::any, {60'000}), other.describe(statement::any, {60'000}), 30'000)};
    prepared = nullptr;
    if (MAKE(t, prepared, ferry_prepared_create, t.ferry, copies, std::size(copies), nullptr, t.stream, &prepared)) {
        for (int i = 0; i < 2; ++i) {
            const bool succeeded = CALL(t, ferry_prepared_launch, prepared, nullptr, t.stream, nullptr);
            t.expect_copy(succeeded, pinned, {}, device, {}, 50'000);
            t.expect_copy(succeeded, pageable, {}, other, {}, 50'000);
            t.expect_copy(succeeded, device, {60'000}, other, {60'000}, 30'000);
            t.wait_and_compare(t.stream);
        }
        t.begin("ferry_prepared_destroy");
        t.ended("ferry_prepared_destroy", ferry_prepared_destroy(prepared, t.error()));
    }
}

// Tickets of a batch, of pieces, of two launches of a prepared batch and of a fill.
void tickets_of_other_calls(trial &t) {
    t.open();
    cut_small(t);
    constexpr grid shape = {.width = 100'000};
    test_place device(place_kind::device, shape), pageable(place_kind::pageable, shape),
        pinned(place_kind::pinned, shape);
    device.fill(1), pageable.fill(2), pinned.fill(3);
    const ferry_copy_desc copies[] = {
        describe_copy(device.describe(statement::any), pageable.describe(statement::any), 50'000),
        describe_copy(device.describe(statement::any, {50'000}), pinned.describe(statement::any, {50'000}), 40'000)};
    const auto expect = [&](bool succeeded) {
        t.expect_copy(succeeded, device, {}, pageable, {}, 50'000);
        t.expect_copy(succeeded, device, {50'000}, pinned, {50'000}, 40'000);
    };
    const auto end = [&](ferry_ticket *ticket, std::uint64_t number) {
        finish(t, ticket, number % 2 ? pageable : pinned, number);
        t.wait_and_compare(t.stream);
        device.fill(10 + number);
    };
    ferry_ticket *ticket = nullptr;
    expect(MAKE(t, ticket, ferry_copy_batch_async, t.ferry, copies, 2, tag(1), t.stream, &ticket));
    end(ticket, 1);
    pieces all;
    all.add(device, 0, pageable, 0, 50'000);
    all.add(device, 50'000, pinned, 50'000, 40'000);
    ticket = nullptr;
    expect(MAKE(t, ticket, ferry_copy_pieces_async, t.ferry, all.in(three_arrays), tag(2), t.stream, &ticket));
    end(ticket, 2);
    ferry_prepared *prepared = nullptr;
    if (MAKE(t, prepared, ferry_prepared_create, t.ferry, copies, 2, tag(3), t.stream, &prepared)) {
        for (const std::uint64_t number : {3, 4}) {
            const how options = number == 3 ? how() : tag(number); // NULL: the tag of the preparation
            ticket = nullptr;
            expect(MAKE(t, ticket, ferry_prepared_launch, prepared, options, t.stream, &ticket));
            end(ticket, number);
        }
        RELEASE(t, ferry_prepared_destroy, prepared);
    }
    const ferry_place place = pinned.describe(statement::any);
    const std::uint32_t pattern = 0x11223344;
    ferry_fill_desc fill;
    ferry_fill_desc_init(&fill, &place, 80'000, 1, 1, &pattern, sizeof pattern);
    ticket = nullptr;
    t.expect_pattern(MAKE(t, ticket, ferry_fill_async, t.ferry, &fill, tag(6), t.stream, &ticket), pinned, {}, 80'000,
                     1, 1, &pattern, sizeof pattern);
    end(ticket, 6);
}

// ---- Fills

void fills(trial &t) {
    t.open();
    constexpr grid shape = {.width = 256, .height = 20, .depth = 3, .slice_height = 22};
    test_place device(place_kind::device, shape), pinned(place_kind::pinned, shape);
    device.fill(1), pinned.fill(2);
    const std::uint64_t pattern[2] = {0x0123456789abcdef, 0xfedcba9876543210};
    for (const copy_form &form : both_forms)
        for (test_place *const place : {&device, &pinned})
            for (const std::uint32_t size : {1u, 2u, 4u, 16u})
                for (const bool is_box : {false, true}) {
                    const std::uint64_t width = is_box ? 128 : 256, height = is_box ? 15 : 1, depth = is_box ? 2 : 1;
                    const box at = is_box ? box{32, 2, 1} : box{};
                    const ferry_place where = place->describe(statement::any, at);
                    ferry_fill_desc fill;
                    ferry_fill_desc_init(&fill, &where, width, height, depth, pattern, size);
                    const bool succeeded = form.is_asynchronous
                                               ? CALL(t, ferry_fill_async, t.ferry, &fill, nullptr, t.stream, nullptr)
                                               : CALL(t, ferry_fill, t.ferry, &fill, nullptr);
                    t.expect_pattern(succeeded, *place, at, width, height, depth, pattern, size);
                    if (form.is_asynchronous)
                        t.wait_and_compare(t.stream);
                    else
                        t.compare();
                }
}

// ---- Arrays

// Arrays created by ferry and read by kernels. ferry also writes their bytes and reads them back.
void arrays(trial &t) {
    t.open();
    cut_small(t);
    ferry_array_desc desc = {.struct_size = sizeof desc,
                             .format = FERRY_FORMAT_UINT32,
                             .channels = 1,
                             .flags = FERRY_ARRAY_SURFACE,
                             .width = 64,
                             .height = 50,
                             .depth = 0};
    constexpr grid shape = {.width = 256, .height = 50};
    test_place device(place_kind::device, shape), back(place_kind::device, shape), host(place_kind::pageable, shape),
        pinned(place_kind::pinned, shape);
    device.fill(1), back.fill(2), host.fill(3), pinned.fill(4);
    CUarray_st *array = nullptr, *level = nullptr;
    CUmipmappedArray_st *mipmapped = nullptr;
    MAKE(t, array, ferry_array_create, t.ferry, 0, &desc, &array);
    desc.width *= 2, desc.height *= 2;
    MAKE(t, mipmapped, ferry_mipmapped_array_create, t.ferry, 0, &desc, 2, &mipmapped);
    if (mipmapped) MAKE(t, level, ferry_mipmapped_array_get_level, t.ferry, mipmapped, 1, &level);
    for (CUarray_st *const one : {array, level}) {
        if (!one) continue;
        // Copies into the array and out again.
        const auto there_and_back = [&](test_place &from, test_place &to, const how &options, bool is_asynchronous) {
            ferry_place in_array;
            ferry_place_array(&in_array, 0, one);
            const auto copy = [&](const ferry_place &source, const ferry_place &destination, const how &options) {
                const ferry_copy_desc desc = describe_copy(source, destination, 256, 50);
                return is_asynchronous ? CALL(t, ferry_copy_async, t.ferry, &desc, options, t.stream, nullptr)
                                       : CALL(t, ferry_copy, t.ferry, &desc, options);
            };
            // Kernels only read arrays.
            bool succeeded = copy(from.describe(statement::any), in_array, options == by_kernel ? how() : options);
            succeeded &= copy(in_array, to.describe(statement::any), options);
            t.expect_copy(succeeded, from, {}, to, {}, 256, 50);
            t.wait_and_compare(t.stream);
        };
        for (const copy_form &form : both_forms) {
            there_and_back(device, back, {}, form.is_asynchronous);
            there_and_back(device, back, by_kernel, form.is_asynchronous);
            there_and_back(host, host, by_staging, form.is_asynchronous);
            there_and_back(pinned, back, by_driver, form.is_asynchronous);
        }
        // Copies boxes out of the array in one launch.
        ferry_place in_array;
        ferry_place_array(&in_array, 0, one);
        ferry_copy_desc whole = describe_copy(device.describe(statement::any), in_array, 256, 50);
        const bool is_written = CALL(t, ferry_copy, t.ferry, &whole, nullptr);
        std::vector<ferry_copy_desc> boxes;
        for (std::uint64_t i = 0; i < 12; ++i) {
            in_array.x = 16 * i;
            boxes.push_back(describe_copy(in_array, back.describe(statement::any, {16 * i}), 16, 40));
        }
        const bool is_read =
            CALL(t, ferry_copy_batch_async, t.ferry, boxes.data(), boxes.size(), nullptr, t.stream, nullptr);
        t.expect_copy(is_written && is_read, device, {}, back, {}, 12 * 16, 40);
        t.wait_and_compare(t.stream);
    }
    if (array) RELEASE(t, ferry_array_destroy, t.ferry, array);
    if (mipmapped) RELEASE(t, ferry_mipmapped_array_destroy, t.ferry, mipmapped);
}

// One array that a kernel reads, so that each driver call in the lifetime of the array is made to fail.
void surfaces(trial &t) {
    t.open();
    ferry_array_desc desc = {.struct_size = sizeof desc,
                             .format = FERRY_FORMAT_UINT8,
                             .channels = 1,
                             .flags = FERRY_ARRAY_SURFACE,
                             .width = 256,
                             .height = 50,
                             .depth = 0};
    constexpr grid shape = {.width = 256, .height = 50};
    test_place pinned(place_kind::pinned, shape), back(place_kind::device, shape);
    pinned.fill(1), back.fill(2);
    CUarray_st *array = nullptr;
    if (!MAKE(t, array, ferry_array_create, t.ferry, 0, &desc, &array)) return;
    ferry_place in_array;
    ferry_place_array(&in_array, 0, array);
    const ferry_copy_desc up = describe_copy(pinned.describe(statement::any), in_array, 256, 50),
                          down = describe_copy(in_array, back.describe(statement::any), 256, 50);
    const bool is_up = CALL(t, ferry_copy, t.ferry, &up, nullptr);
    const bool is_down = CALL(t, ferry_copy, t.ferry, &down, by_kernel);
    t.expect_copy(is_up && is_down, pinned, {}, back, {}, 256, 50);
    t.wait_and_compare(t.stream);
    RELEASE(t, ferry_array_destroy, t.ferry, array);
}

// ---- Devices

void peers(trial &t) {
    t.open();
    if (device_count() < 2) return;
    constexpr grid shape = {.width = 200, .height = 40, .row_pitch = 256};
    test_place here(place_kind::device, shape, 0), there(place_kind::device, shape, 1),
        back(place_kind::device, shape, 0), array(place_kind::array_2d, {.width = 200, .height = 40}, 1);
    here.fill(1), there.fill(2), back.fill(3), array.fill(4);
    ferry_peer_info info = {};
    info.struct_size = sizeof info;
    const auto copy_both_ways = [&] {
        for (const copy_form &form : both_forms) {
            copy_and_compare(t, here, {}, there, {}, 190, 40, 1, {}, form.is_asynchronous);
            copy_and_compare(t, there, {1}, back, {2}, 190, 40, 1, {}, form.is_asynchronous);
            copy_and_compare(t, there, {}, array, {}, 200, 40, 1, {}, form.is_asynchronous);
            copy_and_compare(t, array, {}, back, {}, 200, 40, 1, {}, form.is_asynchronous);
        }
    };
    CUcontext far = nullptr;
    EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&far, 1));
    const auto expect_no_access = [&](const char *after) {
        const CUresult result = raw().cuCtxEnablePeerAccess(far, 0);
        if (result == CUDA_SUCCESS)
            EXPECT_OK(raw().cuCtxDisablePeerAccess(far));
        else if (!t.fails("cuCtxDisablePeerAccess") &&
                 !t.fails("cuCtxPopCurrent")) // a failed pop leaves a wrong context current
            t.add(finding::driver_leak, "peer access after %s", after);
    };
    copy_both_ways();
    CALL(t, ferry_peer_get_info, t.ferry, 0, 1, &info);
    CALL(t, ferry_peer_probe, t.ferry, 0, 1);
    expect_no_access("ferry_peer_probe");
    const bool is_enabled = CALL(t, ferry_peer_enable, t.ferry, 0, 1);
    if (!is_enabled) expect_no_access("ferry_peer_enable");
    copy_both_ways();
    if (is_enabled) {
        copy_and_compare(t, there, {}, back, {}, 190, 40, 1, by_kernel, true);
        const ferry_copy_desc copies[] = {
            describe_copy(there.describe(statement::any), back.describe(statement::any), 50),
            describe_copy(there.describe(statement::any, {60, 1}), back.describe(statement::any, {60, 1}), 50, 30)};
        const bool succeeded = CALL(t, ferry_copy_batch_async, t.ferry, copies, 2, nullptr, t.stream, nullptr);
        t.expect_copy(succeeded, there, {}, back, {}, 50);
        t.expect_copy(succeeded, there, {60, 1}, back, {60, 1}, 50, 30);
        t.wait_and_compare(t.stream);
    }
    RELEASE(t, ferry_peer_disable, t.ferry, 0, 1);
    expect_no_access("ferry_peer_disable");
    copy_both_ways();
    EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1));
}

// ---- Graphs

void nodes_of_graphs(trial &t) {
    t.open();
    if (!raw().cuGraphCreate || !raw().cuGraphAddMemcpyNode) return;
    constexpr grid shape = {.width = 10'000};
    test_place pinned(place_kind::pinned, shape), device(place_kind::device, shape);
    pinned.fill(1), device.fill(2);
    const std::uint32_t pattern = 0x11223344;
    ferry_fill_desc fill;
    const ferry_place place = device.describe(statement::any, {8000});
    ferry_fill_desc_init(&fill, &place, 800, 1, 1, &pattern, sizeof pattern);
    const ferry_copy_desc copy = describe_copy(pinned.describe(statement::any), device.describe(statement::any), 100),
                          other = describe_copy(pinned.describe(statement::any), device.describe(statement::any), 7000);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CUgraphNode copied = nullptr, filled = nullptr;
    EXPECT_OK(raw().cuGraphCreate(&graph, 0));
    const bool has_copy = CALL(t, ferry_graph_add_copy, t.ferry, graph, nullptr, 0, &copy, nullptr, &copied);
    const bool has_fill = CALL(t, ferry_graph_add_fill, t.ferry, graph, nullptr, 0, &fill, nullptr, &filled);
    EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
    const bool has_other = has_copy && CALL(t, ferry_graph_exec_set_copy, t.ferry, executable, copied, &other, nullptr);
    if (has_fill) CALL(t, ferry_graph_exec_set_fill, t.ferry, executable, filled, &fill, nullptr);
    EXPECT_OK(raw().cuGraphLaunch(executable, t.stream));
    t.expect_copy(has_copy, pinned, {}, device, {}, has_other ? 7000 : 100);
    t.expect_pattern(has_fill, device, {8000}, 800, 1, 1, &pattern, sizeof pattern);
    t.wait_and_compare(t.stream);
    EXPECT_OK(raw().cuGraphExecDestroy(executable));
    EXPECT_OK(raw().cuGraphDestroy(graph));
}

void graphs(trial &t) {
    ferry_options options = t.options();
    options.kernels = FERRY_KERNELS_AT_OPEN;
    t.open(options);
    cut_small(t);
    constexpr grid shape = {.width = 100'000}, rows = {.width = 100, .height = 50, .row_pitch = 128};
    test_place host(place_kind::pageable, shape), back(place_kind::pageable, shape), device(place_kind::device, shape),
        pinned(place_kind::pinned, shape), row_source(place_kind::pinned, rows), row_target(place_kind::device, rows);
    host.fill(1), back.fill(2), device.fill(3), pinned.fill(4), row_source.fill(5), row_target.fill(6);
    CALL(t, ferry_staging_prepare, t.ferry, 0);
    EXPECT_OK(raw().cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    bool captured[6] = {};
    const auto capture = [&](int index, test_place &from, test_place &to, std::uint64_t width, std::uint64_t height,
                             const how &options) {
        const ferry_copy_desc copy =
            describe_copy(from.describe(statement::any), to.describe(statement::any), width, height);
        captured[index] = CALL(t, ferry_copy_async, t.ferry, &copy, options, t.stream, nullptr);
    };
    capture(0, host, device, 90'000, 1, by_staging);
    capture(1, device, back, 90'000, 1, by_staging);
    capture(2, device, pinned, 80'000, 1, by_driver);
    capture(3, row_source, row_target, 90, 40, by_kernel);
    const std::uint32_t pattern = 0x11223344;
    ferry_fill_desc fill;
    const ferry_place place = row_target.describe(statement::any, {0, 45});
    ferry_fill_desc_init(&fill, &place, 64, 2, 1, &pattern, sizeof pattern);
    captured[4] = CALL(t, ferry_fill_async, t.ferry, &fill, nullptr, t.stream, nullptr);
    const ferry_copy_desc batch[] = {
        describe_copy(pinned.describe(statement::any, {90'000}), device.describe(statement::any, {90'000}), 1000),
        describe_copy(pinned.describe(statement::any, {95'000}), device.describe(statement::any, {95'000}), 1000)};
    captured[5] = CALL(t, ferry_copy_batch_async, t.ferry, batch, 2, nullptr, t.stream, nullptr);
    const bool all = captured[0] && captured[1] && captured[2] && captured[3] && captured[4] && captured[5];
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    const CUresult ended = raw().cuStreamEndCapture(t.stream, &graph);
    if (ended && all) t.add(finding::stream_failed, "a capture broke although each call reported success");
    if (ended == CUDA_SUCCESS) {
        EXPECT_OK(raw().cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (int launch = 0; launch < 3; ++launch) {
            host.fill(10u + static_cast<unsigned>(launch));
            EXPECT_OK(raw().cuGraphLaunch(executable, t.stream));
            t.expect_copy(captured[0], host, {}, device, {}, 90'000);
            t.expect_copy(captured[1], device, {}, back, {}, 90'000);
            t.expect_copy(captured[2], device, {}, pinned, {}, 80'000);
            t.expect_copy(captured[3], row_source, {}, row_target, {}, 90, 40);
            t.expect_pattern(captured[4], row_target, {0, 45}, 64, 2, 1, &pattern, sizeof pattern);
            t.expect_copy(captured[5], pinned, {90'000}, device, {90'000}, 1000);
            t.expect_copy(captured[5], pinned, {95'000}, device, {95'000}, 1000);
            t.wait_and_compare(t.stream);
            if (t.is_dead()) break;
        }
        EXPECT_OK(raw().cuGraphExecDestroy(executable));
        EXPECT_OK(raw().cuGraphDestroy(graph));
    }
}

// ---- Explanations

void explanations(trial &t) {
    t.open();
    constexpr grid shape = {.width = 4096, .height = 10, .row_pitch = 5000};
    test_place pageable(place_kind::pageable, shape), pinned(place_kind::pinned, shape),
        device(place_kind::device, shape);
    for (test_place *const from : {&pageable, &pinned, &device}) {
        const ferry_copy_desc copy =
            describe_copy(from->describe(statement::any), device.describe(statement::any, {0, 5}), 4000, 5);
        ferry_explanation told = {};
        told.struct_size = sizeof told;
        CALL(t, ferry_copy_explain, t.ferry, &copy, nullptr, &told);
        CALL(t, ferry_copy_explain_async, t.ferry, &copy, nullptr, t.stream, &told);
    }
    ferry_batch_explanation all = {};
    all.struct_size = sizeof all;
    const ferry_copy_desc boxes[] = {
        describe_copy(pageable.describe(statement::any), device.describe(statement::any, {0, 5}), 4000, 5),
        describe_copy(pinned.describe(statement::any), device.describe(statement::any), 4000, 5)};
    CALL(t, ferry_copy_batch_explain_async, t.ferry, boxes, 2, nullptr, t.stream, &all);
    const std::uint64_t to[] = {device.address(), device.address() + 100},
                        from[] = {pageable.address(), pageable.address() + 50}, sizes[] = {50, 60};
    CALL(t, ferry_copy_pieces_explain_async, t.ferry, in_arrays(to, from, sizes, 2), nullptr, t.stream, &all);
    ferry_address_info info = {};
    info.struct_size = sizeof info;
    CALL(t, ferry_address_get_info, t.ferry, device.address(), &info);
}

// Memory of a host pool that only one of two devices can access, and memory of device 1, on a stream of device 0.
void host_pools_of_one_device(trial &t) {
    if (device_count() < 2 || !is_supported(place_kind::pool_of_host)) return;
    constexpr std::uint64_t size = 50'000;
    const test_stream allocating;
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CUmemoryPool pools[2] = {};
    CUdeviceptr hosts[2] = {};
    for (const int device : {0, 1}) {
        const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_OK(raw().cuMemPoolCreate(&pools[device], &props));
        EXPECT_OK(raw().cuMemPoolSetAccess(pools[device], &access, 1));
        EXPECT_OK(raw().cuMemAllocFromPoolAsync(&hosts[device], size, pools[device], allocating));
    }
    EXPECT_OK(raw().cuStreamSynchronize(allocating));
    t.open();
    {
        test_place far(place_kind::device, {.width = size}, 1);
        far.fill(1);
        for (const how &options : {how(), read_in_the_call | written_in_the_call})
            for (const copy_form &form : both_forms)
                for (const CUdeviceptr host : hosts) {
                    auto *const bytes = reinterpret_cast<unsigned char *>(host);
                    const auto copy = [&](const ferry_copy_desc &one) {
                        return form.is_asynchronous
                                   ? CALL(t, ferry_copy_async, t.ferry, &one, options, t.stream, nullptr)
                                   : CALL(t, ferry_copy, t.ferry, &one, options);
                    };
                    ferry_copy_desc up = {}, down = {};
                    ferry_place_host(&up.source, bytes);
                    up.destination = down.source = far.describe(statement::stated);
                    down.destination = up.source;
                    up.width = down.width = size;
                    unsigned char value = 7;
                    std::memset(bytes, value, size);
                    t.expect_pattern(copy(up), far, {}, size, 1, 1, &value, 1);
                    t.wait_and_compare(t.stream);
                    std::memset(bytes, 0, size);
                    far.fill(1);
                    const bool succeeded = copy(down);
                    const bool is_promised = options.has(written_in_the_call) || !form.is_asynchronous;
                    if (!is_promised) t.wait_and_compare(t.stream);
                    if (succeeded && !t.is_dead() && std::memcmp(bytes, far.picture().data(), size) != 0)
                        t.add(finding::wrong_bytes, "a copy to a host pool");
                    t.wait_and_compare(t.stream);
                }
    }
    for (const int device : {0, 1}) {
        if (t.is_dead()) return;
        EXPECT_OK(raw().cuMemFree(hosts[device]));
        EXPECT_OK(raw().cuMemPoolDestroy(pools[device]));
    }
}

// Copies over several devices: relayed, over several links, and broadcast.
void several_devices(trial &t) {
    if (device_count() < 2) return;
    t.open();
    constexpr std::uint64_t length = (std::uint64_t{4} << 20) + 4096;
    constexpr grid line = {.width = length};
    test_place pinned(place_kind::pinned, line), near(place_kind::device, line), far(place_kind::device, line, 1);
    pinned.fill(1), near.fill(2), far.fill(3);
    for (const copy_form &form : both_forms) {
        // The first copy uses a slot twice.
        copy_and_compare(t, near, {}, far, {}, 4'000'001, 1, 1, by_relay, form.is_asynchronous);
        copy_and_compare(t, far, {5}, near, {77}, 1'000'001, 1, 1, by_relay, form.is_asynchronous);
    }
    const std::uint64_t to[] = {near.address(), far.address()}, from[] = {pinned.address(), pinned.address()},
                        sizes[] = {length, length};
    const auto broadcast = [&] {
        const bool succeeded =
            CALL(t, ferry_copy_pieces_async, t.ferry, in_arrays(to, from, sizes, 2), nullptr, t.stream, nullptr);
        t.expect_copy(succeeded, pinned, {}, near, {}, length, 1, 1);
        t.expect_copy(succeeded, pinned, {}, far, {}, length, 1, 1);
        t.wait_and_compare(t.stream);
    };
    broadcast();
    const std::int32_t helper = 1;
    ferry_multilink_options options = {};
    options.struct_size = sizeof options;
    options.helpers = &helper;
    options.helper_count = 1;
    CALL(t, ferry_peer_enable, t.ferry, 0, 1);
    CALL(t, ferry_multilink_set, t.ferry, 0, &options);
    pinned.fill(4);
    broadcast();
    for (const copy_form &form : both_forms) {
        copy_and_compare(t, pinned, {}, near, {}, length, 1, 1, over_links, form.is_asynchronous);
        copy_and_compare(t, near, {}, pinned, {}, length, 1, 1, over_links, form.is_asynchronous);
    }
    RELEASE(t, ferry_peer_disable, t.ferry, 0, 1);
    RELEASE(t, ferry_peer_disable, t.ferry, 1, 0);
}

void with_full_checks(trial &t) {
    ferry_options options = t.options();
    options.checks = FERRY_CHECKS_FULL;
    t.open(options);
    cut_small(t);
    constexpr grid shape = {.width = 4096, .height = 20, .row_pitch = 5000};
    test_place pageable(place_kind::pageable, shape), pinned(place_kind::pinned, shape),
        device(place_kind::device, shape), array(place_kind::array_2d, {.width = 4096, .height = 20});
    pageable.fill(1), pinned.fill(2), device.fill(3), array.fill(4);
    for (const copy_form &form : both_forms) {
        copy_and_compare(t, pageable, {}, device, {}, 4000, 20, 1, {}, form.is_asynchronous);
        copy_and_compare(t, device, {}, pinned, {}, 4000, 20, 1, {}, form.is_asynchronous);
        copy_and_compare(t, pinned, {}, array, {}, 4000, 20, 1, {}, form.is_asynchronous);
        copy_and_compare(t, array, {}, pageable, {}, 4000, 20, 1, {}, form.is_asynchronous);
    }
}

} // namespace

const std::vector<scenario> copy_scenarios = {
    {"copies by the driver", copies_by_the_driver},
    {"lines and bytes", lines_and_bytes},
    {"without a current context", without_a_current_context},
    {"rows by kernels", rows_by_kernels},
    {"staged synchronously", staged_synchronously},
    {"staged asynchronously", staged_asynchronously},
    {"staged by host functions", staged_by_host_functions},
    {"staged without kernels", staged_without_kernels},
    {"staged as the plan says", staged_as_the_plan_says},
    {"staged many", staged_many},
    {"files", files},
    {"tickets", tickets},
    {"staged by threads of the program", staged_by_threads_of_the_program},
    {"staged by a pool that runs work itself", staged_by_a_pool_that_runs_work_itself},
    {"other calls beside staged copies", other_calls_beside_staged_copies},
    {"staging prepared and trimmed", staging_prepared_and_trimmed, 40},
    {"parts", parts},
    {"batches", batches},
    {"pieces by kernels", pieces_by_kernels},
    {"pieces by the driver", pieces_by_the_driver},
    {"nests by kernels", nests_by_kernels},
    {"nests by the driver", nests_by_the_driver},
    {"nests through a buffer", nests_through_a_buffer},
    {"prepared nests", prepared_nests},
    {"pieces staged", pieces_staged},
    {"sources read early", sources_read_early},
    {"destinations written", destinations_written},
    {"copies within one memory", copies_within_one_memory},
    {"pieces within one memory", pieces_within_one_memory},
    {"prepared batches", prepared_batches},
    {"tickets of other calls", tickets_of_other_calls},
    {"fills", fills},
    {"arrays", arrays},
    {"arrays through a buffer", arrays_through_a_buffer},
    {"surfaces", surfaces, 40},
    {"peers", peers},
    {"graphs", graphs},
    {"nodes of graphs", nodes_of_graphs},
    {"explanations", explanations},
    {"with full checks", with_full_checks},
    {"several devices", several_devices},
    {"host pools of one device", host_pools_of_one_device},
};

} // namespace ferry::test
