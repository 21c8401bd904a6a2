// ferry_copy_options with every call that takes them: which values are refused, what NULL means, and where the tag and
// the ticket of each kind of work arrive.
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "support/captured_graph.h"
#include "support/counted_test.h"
#include "support/gate.h"
#include "support/how.h"
#include "support/piece_lists.h"
#include "support/raw_objects.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t size = 64 << 10;
constexpr std::uint64_t count = 2; // copies in each batch

std::uint64_t at(const void *data) { return reinterpret_cast<std::uintptr_t>(data); }

struct heard {
    std::mutex mutex;
    std::vector<ferry_trace_event> events;
};

void hear(void *user, const ferry_trace_event *event) {
    auto &to = *static_cast<heard *>(user);
    const std::lock_guard lock(to.mutex);
    to.events.push_back(*event);
}

// One call that takes options.
struct any_call {
    const char *name;
    std::function<std::int32_t(ferry_instance *, const ferry_copy_options *, ferry_error_info *)> make;
    bool is_explanation = false;
    bool is_launch = false; // of a prepared batch, whose own options are ordinary
};

// One call that can return a ticket.
struct ticket_call {
    const char *name;
    std::uint64_t bytes; // ferry_ticket_info.bytes_total
    std::function<std::int32_t(const ferry_copy_options *, CUstream, ferry_ticket **)> enqueue;
};

// Needs a current context. Not inside the class: Clang takes it for complete only behind that.
struct owned {
    device_memory device{count * size};
    pinned_memory host{count * size};
};

class copy_options : public counted_test {
protected:
    copy_options() { kernels = FERRY_KERNELS_AT_OPEN; } // loading would wait for a blocked stream
    void SetUp() override {
        counted_test::SetUp();
        memory.emplace();
        copies[0] = copies[1] = {};
        for (std::uint64_t i = 0; i < count; ++i) {
            sources[i] = copies[i].source.address = at(memory->host.data()) + i * size;
            destinations[i] = copies[i].destination.address = memory->device + i * size;
            nests[i].source.place.address = sources[i];
            nests[i].destination.place.address = destinations[i];
            sizes[i] = nests[i].width = copies[i].width = size / 2; // not adjacent, so that the copies stay apart
        }
        fill.destination.address = memory->device;
        fill.width = size;
        fill.pattern_size = 1;
        fill.pattern[0] = 0x5a;
    }
    void TearDown() override {
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        close();
        memory.reset();
        counted_test::TearDown();
    }
    // Opens the instance `opened`. The pointer in `options` is read here.
    void open(ferry_options options) {
        options.kernels = kernels;
        opened = open_or_fail(options);
    }
    void close() {
        for (ferry_prepared *const one : prepared)
            EXPECT_OK(ferry_prepared_destroy(one, nullptr));
        prepared.clear();
        opened.reset();
    }
    ferry_prepared *prepare(ferry_instance *instance, const ferry_copy_options *options) {
        ferry_prepared *made = nullptr;
        EXPECT_OK(ferry_prepared_create(instance, copies, count, options, stream, &made, nullptr));
        prepared.push_back(made);
        return made;
    }
    // Launches what a call has just prepared.
    std::int32_t launched(std::int32_t status, ferry_prepared *made) {
        if (status) {
            EXPECT_EQ(made, nullptr);
            return status;
        }
        prepared.push_back(made);
        return ferry_prepared_launch(made, nullptr, stream, nullptr, nullptr);
    }
    std::int32_t explained(std::int32_t status, const ferry_explanation &found) {
        is_kernel_explained = found.route == FERRY_ROUTE_KERNEL;
        return status;
    }
    std::int32_t explained(std::int32_t status, const ferry_batch_explanation &found) {
        is_kernel_explained = found.kernels.copies != 0;
        return status;
    }
    static ferry_batch_explanation new_batch_explanation() {
        ferry_batch_explanation found = {};
        found.struct_size = sizeof found;
        return found;
    }

    std::vector<any_call> all_calls();
    std::vector<ticket_call> ticket_calls(ferry_instance *instance, const how &of_prepared = ordinary);

    std::optional<owned> memory;
    ferry_copy_desc copies[count];
    ferry_nest nests[count] = {}; // the same bytes
    ferry_fill_desc fill = {};
    std::uint64_t destinations[count], sources[count], sizes[count];
    std::vector<ferry_prepared *> prepared;
    instance_owner opened;
    bool is_kernel_explained = false;
};

std::vector<any_call> copy_options::all_calls() {
    using instance = ferry_instance *;
    using options = const ferry_copy_options *;
    using error = ferry_error_info *;
    const auto single = [this](bool is_bytes, bool is_async, instance ferry, options given, error details) {
        if (is_bytes)
            return is_async ? ferry_copy_bytes_async(ferry, destinations[0], sources[0], sizes[0], given, stream,
                                                     nullptr, details)
                            : ferry_copy_bytes(ferry, destinations[0], sources[0], sizes[0], given, details);
        return is_async ? ferry_copy_async(ferry, copies, given, stream, nullptr, details)
                        : ferry_copy(ferry, copies, given, details);
    };
    return {
        {"ferry_copy", [=](instance i, options o, error e) { return single(false, false, i, o, e); }},
        {"ferry_copy_async", [=](instance i, options o, error e) { return single(false, true, i, o, e); }},
        {"ferry_copy_bytes", [=](instance i, options o, error e) { return single(true, false, i, o, e); }},
        {"ferry_copy_bytes_async", [=](instance i, options o, error e) { return single(true, true, i, o, e); }},
        {"ferry_copy_batch",
         [this](instance i, options o, error e) { return ferry_copy_batch(i, copies, count, o, e); }},
        {"ferry_copy_batch_async",
         [this](instance i, options o, error e) {
             return ferry_copy_batch_async(i, copies, count, o, stream, nullptr, e);
         }},
        {"ferry_copy_pieces",
         [this](instance i, options o, error e) {
             return ferry_copy_pieces(i, in_arrays(destinations, sources, sizes, count), o, e);
         }},
        {"ferry_copy_pieces_async",
         [this](instance i, options o, error e) {
             return ferry_copy_pieces_async(i, in_arrays(destinations, sources, sizes, count), o, stream, nullptr, e);
         }},
        {"ferry_copy_nests",
         [this](instance i, options o, error e) { return ferry_copy_nests(i, nests, count, o, e); }},
        {"ferry_copy_nests_async",
         [this](instance i, options o, error e) {
             return ferry_copy_nests_async(i, nests, count, o, stream, nullptr, e);
         }},
        {"ferry_prepared_create",
         [this](instance i, options o, error e) {
             ferry_prepared *made = reinterpret_cast<ferry_prepared *>(this);
             const std::int32_t status = ferry_prepared_create(i, copies, count, o, stream, &made, e);
             return launched(status, made);
         }},
        {"ferry_prepared_create_pieces",
         [this](instance i, options o, error e) {
             ferry_prepared *made = reinterpret_cast<ferry_prepared *>(this);
             const std::int32_t status =
                 ferry_prepared_create_pieces(i, in_arrays(destinations, sources, sizes, count), o, stream, &made, e);
             return launched(status, made);
         }},
        {"ferry_prepared_create_nests",
         [this](instance i, options o, error e) {
             ferry_prepared *made = reinterpret_cast<ferry_prepared *>(this);
             const std::int32_t status = ferry_prepared_create_nests(i, nests, count, o, stream, &made, e);
             return launched(status, made);
         }},
        {"ferry_prepared_launch",
         [this](instance i, options o, error e) {
             ferry_prepared *const made = prepare(i, ordinary);
             driver.reset_counts();
             return ferry_prepared_launch(made, o, stream, nullptr, e);
         },
         false, true},
        {"ferry_fill", [this](instance i, options o, error e) { return ferry_fill(i, &fill, o, e); }},
        {"ferry_fill_async",
         [this](instance i, options o, error e) { return ferry_fill_async(i, &fill, o, stream, nullptr, e); }},
        {"ferry_copy_explain",
         [this](instance i, options o, error e) {
             ferry_explanation found = new_explanation();
             return explained(ferry_copy_explain(i, copies, o, &found, e), found);
         },
         true},
        {"ferry_copy_explain_async",
         [this](instance i, options o, error e) {
             ferry_explanation found = new_explanation();
             return explained(ferry_copy_explain_async(i, copies, o, stream, &found, e), found);
         },
         true},
        {"ferry_copy_nest_explain_async",
         [this](instance i, options o, error e) {
             ferry_explanation found = new_explanation();
             return explained(ferry_copy_nest_explain_async(i, nests, o, stream, &found, e), found);
         },
         true},
        {"ferry_copy_batch_explain_async",
         [this](instance i, options o, error e) {
             ferry_batch_explanation found = new_batch_explanation();
             return explained(ferry_copy_batch_explain_async(i, copies, count, o, stream, &found, e), found);
         },
         true},
        {"ferry_copy_pieces_explain_async",
         [this](instance i, options o, error e) {
             ferry_batch_explanation found = new_batch_explanation();
             const std::int32_t status = ferry_copy_pieces_explain_async(
                 i, in_arrays(destinations, sources, sizes, count), o, stream, &found, e);
             return explained(status, found);
         },
         true},
        {"ferry_fill_explain",
         [this](instance i, options o, error e) {
             ferry_explanation found = new_explanation();
             return explained(ferry_fill_explain(i, &fill, o, &found, e), found);
         },
         true},
        {"ferry_fill_explain_async",
         [this](instance i, options o, error e) {
             ferry_explanation found = new_explanation();
             return explained(ferry_fill_explain_async(i, &fill, o, stream, &found, e), found);
         },
         true},
    };
}

std::vector<ticket_call> copy_options::ticket_calls(ferry_instance *instance, const how &of_prepared) {
    ferry_prepared *const launched = prepare(instance, of_prepared);
    using options = const ferry_copy_options *;
    return {
        {"ferry_copy_async", sizes[0],
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_copy_async(instance, copies, o, on, ticket, nullptr);
         }},
        {"ferry_copy_bytes_async", sizes[0],
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_copy_bytes_async(instance, destinations[0], sources[0], sizes[0], o, on, ticket, nullptr);
         }},
        {"ferry_copy_batch_async", sizes[0] + sizes[1],
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_copy_batch_async(instance, copies, count, o, on, ticket, nullptr);
         }},
        {"ferry_copy_pieces_async", sizes[0] + sizes[1],
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_copy_pieces_async(instance, in_arrays(destinations, sources, sizes, count), o, on, ticket,
                                            nullptr);
         }},
        {"ferry_copy_nests_async", sizes[0] + sizes[1],
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_copy_nests_async(instance, nests, count, o, on, ticket, nullptr);
         }},
        {"ferry_prepared_launch", sizes[0] + sizes[1],
         [=](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_prepared_launch(launched, o, on, ticket, nullptr);
         }},
        {"ferry_fill_async", fill.width,
         [=, this](options o, CUstream on, ferry_ticket **ticket) {
             return ferry_fill_async(instance, &fill, o, on, ticket, nullptr);
         }},
    };
}

ferry_ticket_info info_of(ferry_ticket *ticket) {
    ferry_ticket_info info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(ferry_ticket_get_info(ticket, &info, nullptr));
    return info;
}

// ---- Values -----------------------------------------------------------------------------------------------------

struct refused_row {
    const char *what;
    how options;
    std::int32_t status, field, numbers;
    std::uint64_t limit, value;
};

constexpr how with_fields(std::uint32_t flags, std::int32_t route = 0, std::int32_t priority = 0,
                          std::int32_t source_order = 0) {
    ferry_copy_options fields = {};
    fields.flags = flags;
    fields.route = route;
    fields.priority = priority;
    fields.source_order = source_order;
    return how(fields);
}

constexpr std::int32_t invalid = FERRY_ERROR_INVALID_ARGUMENT, unsupported = FERRY_ERROR_UNSUPPORTED;
constexpr std::int32_t up_to = FERRY_NUMBERS_UP_TO, one_of = FERRY_NUMBERS_ONE_OF;
constexpr std::uint64_t routes_of_options = 1u << FERRY_ROUTE_AUTO | 1u << FERRY_ROUTE_DRIVER |
                                            1u << FERRY_ROUTE_KERNEL | 1u << FERRY_ROUTE_STAGED |
                                            1u << FERRY_ROUTE_RELAYED;
constexpr std::int32_t lowest = INT32_MIN, highest = INT32_MAX;
constexpr std::uint64_t minus_1 = UINT64_MAX;

constexpr refused_row refused_rows[] = {
    {"route -1", with_fields(0, -1), invalid, FERRY_FIELD_ROUTE, up_to, FERRY_ROUTE_MULTILINK, minus_1},
    {"route 7", with_fields(0, 7), invalid, FERRY_FIELD_ROUTE, up_to, FERRY_ROUTE_MULTILINK, 7},
    {"the lowest route", with_fields(0, lowest), invalid, FERRY_FIELD_ROUTE, up_to, FERRY_ROUTE_MULTILINK,
     static_cast<std::uint64_t>(std::int64_t{lowest})},
    {"the highest route", with_fields(0, highest), invalid, FERRY_FIELD_ROUTE, up_to, FERRY_ROUTE_MULTILINK, highest},
    {"BUFFERED", with_fields(0, FERRY_ROUTE_BUFFERED), unsupported, FERRY_FIELD_ROUTE, one_of, routes_of_options,
     FERRY_ROUTE_BUFFERED},
    {"MULTILINK", with_fields(0, FERRY_ROUTE_MULTILINK), unsupported, FERRY_FIELD_ROUTE, one_of, routes_of_options,
     FERRY_ROUTE_MULTILINK},
    {"priority -1", with_fields(0, 0, -1), invalid, FERRY_FIELD_PRIORITY, up_to, FERRY_PRIORITY_BACKGROUND, minus_1},
    {"priority 3", with_fields(0, 0, 3), invalid, FERRY_FIELD_PRIORITY, up_to, FERRY_PRIORITY_BACKGROUND, 3},
    {"BACKGROUND", with_fields(0, 0, FERRY_PRIORITY_BACKGROUND), unsupported, FERRY_FIELD_PRIORITY, up_to,
     FERRY_PRIORITY_URGENT, FERRY_PRIORITY_BACKGROUND},
    {"source order -1", with_fields(0, 0, 0, -1), invalid, FERRY_FIELD_SOURCE_ORDER, up_to, FERRY_SOURCE_ORDER_CALL,
     minus_1},
    {"source order 3", with_fields(0, 0, 0, 3), invalid, FERRY_FIELD_SOURCE_ORDER, up_to, FERRY_SOURCE_ORDER_CALL, 3},
    {"65536 SMs", max_sms(65536), invalid, FERRY_FIELD_MAX_SMS, up_to, 65535, 65536},
    {"the highest number of SMs", max_sms(UINT32_MAX), invalid, FERRY_FIELD_MAX_SMS, up_to, 65535, UINT32_MAX},
    {"a forced kernel without kernels", by_kernel | no_kernels, FERRY_ERROR_ROUTE, FERRY_FIELD_ROUTE,
     FERRY_NUMBERS_OBSTACLE, 0, FERRY_OBSTACLE_FORBIDDEN},
};

// Copies and fills nothing.
void expect_no_call(const fault_driver &driver) {
    EXPECT_EQ(driver.calls_beginning("cuMemcpy") + driver.calls_beginning("cuMemset") + driver.calls("cuLaunchKernel"),
              0);
}

TEST_F(copy_options, a_refused_value_names_its_field_value_and_limit_in_every_call) {
    const bytes before = read_back(memory->device, count * size);
    for (const any_call &call : all_calls())
        for (const refused_row &row : refused_rows) {
            SCOPED_TRACE(testing::Message() << call.name << ", " << row.what);
            ferry_error_info error = new_error();
            driver.reset_counts();
            expect_refusal(call.make(counted.get(), row.options, &error), error, row.status, FERRY_SIDE_OPTIONS,
                           row.field);
            EXPECT_EQ(error.numbers, row.numbers) << describe(error);
            EXPECT_EQ(error.limit, row.limit) << describe(error);
            EXPECT_EQ(error.value, row.value) << describe(error);
            EXPECT_EQ(error.item, FERRY_ITEM_NONE) << describe(error);
            EXPECT_EQ(error.driver_function, nullptr);
            expect_no_call(driver);
        }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(memory->device, count * size) == before);
}

TEST_F(copy_options, an_instance_refuses_the_values_that_its_calls_refuse) {
    for (const refused_row &row : refused_rows) {
        SCOPED_TRACE(row.what);
        ferry_options options = driver.options();
        options.copy_options = row.options;
        ferry_instance *instance = counted.get();
        ferry_error_info error = new_error();
        expect_refusal(ferry_open(&options, &instance, &error), error, row.status, FERRY_SIDE_OPTIONS, row.field);
        EXPECT_EQ(error.numbers, row.numbers) << describe(error);
        EXPECT_EQ(error.limit, row.limit) << describe(error);
        EXPECT_EQ(error.value, row.value) << describe(error);
        EXPECT_EQ(instance, nullptr);
    }
}

TEST_F(copy_options, flags_that_a_call_does_not_know_are_refused) {
    constexpr std::uint32_t known = FERRY_COPY_NO_KERNELS | FERRY_COPY_MULTILINK | FERRY_COPY_DESTINATION_WRITTEN |
                                    FERRY_COPY_CHECK_OVERLAP | FERRY_COPY_NO_WAIT;
    for (const any_call &call : all_calls()) {
        // A launch reads only the tag and NO_WAIT, and takes the options that the batch was prepared with.
        const std::string name = call.name;
        const bool may_update = call.is_launch || name == "ferry_prepared_create_pieces" ||
                                name == "ferry_copy_batch_explain_async" || name == "ferry_copy_pieces_explain_async";
        const std::uint32_t accepted = known | (may_update ? FERRY_COPY_UPDATABLE : 0);
        for (std::uint32_t flag = 1; flag != 0; flag <<= 1) {
            SCOPED_TRACE(testing::Message() << call.name << ", flag " << flag);
            ferry_error_info error = new_error();
            driver.reset_counts();
            const std::int32_t status = call.make(counted.get(), with_fields(flag), &error);
            if (flag & accepted) {
                EXPECT_TRUE(status == FERRY_SUCCESS ||
                            (flag == FERRY_COPY_NO_WAIT && status == FERRY_ERROR_WOULD_BLOCK))
                    << describe(error);
                EXPECT_OK(raw().cuStreamSynchronize(stream)); // synchronous calls are not ordered with it
                continue;
            }
            expect_refusal(status, error, FERRY_ERROR_FLAGS, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS);
            const bool is_known = flag == FERRY_COPY_UPDATABLE;
            EXPECT_EQ(error.numbers, is_known ? FERRY_NUMBERS_NOT_HERE : FERRY_NUMBERS_BITS);
            EXPECT_EQ(error.limit, is_known ? flag : accepted);
            EXPECT_EQ(error.value, flag);
            expect_no_call(driver);
        }
    }
    ferry_options options = driver.options();
    options.copy_options = updatable;
    ferry_instance *instance = nullptr;
    EXPECT_EQ(ferry_open(&options, &instance, nullptr), FERRY_ERROR_FLAGS) << "updatable batches are chosen one by one";
}

TEST_F(copy_options, every_other_value_is_accepted) {
    const how accepted[] = {
        ordinary,
        with_fields(0, FERRY_ROUTE_DRIVER),
        with_fields(0, 0, FERRY_PRIORITY_NORMAL),
        with_fields(0, 0, FERRY_PRIORITY_URGENT),
        with_fields(0, 0, 0, FERRY_SOURCE_ORDER_ANY),
        with_fields(0, 0, 0, FERRY_SOURCE_ORDER_STREAM),
        with_fields(0, 0, 0, FERRY_SOURCE_ORDER_CALL),
        max_sms(1),
        max_sms(65535),
        tag(UINT64_MAX),
        by_driver | no_kernels | urgent | read_in_the_call | written_in_the_call | over_links | check_overlap |
            max_sms(3) | tag(4),
    };
    for (const any_call &call : all_calls())
        for (const how &options : accepted) {
            SCOPED_TRACE(testing::Message() << call.name << ", " << options);
            ferry_error_info error = new_error();
            EXPECT_OK(call.make(counted.get(), options, &error)) << describe(error);
            EXPECT_OK(raw().cuStreamSynchronize(stream));
        }
}

// ---- Sizes ------------------------------------------------------------------------------------------------------

struct longer_options {
    ferry_copy_options known;
    std::uint64_t newer; // a field of a later version
};

TEST_F(copy_options, the_size_of_the_struct_is_checked_in_every_call) {
    const struct {
        std::uint32_t struct_size;
        std::uint64_t newer;
        bool is_refused;
    } rows[] = {
        {0, 0, true},
        {4, 0, true},
        {7, 0, true},
        {4097, 0, true},
        {UINT32_MAX, 0, true},
        {sizeof(longer_options), 1, true},
        {sizeof(longer_options), 0, false},
        {offsetof(ferry_copy_options, max_sms), 1, false}, // of an older program
        {8, 1, false},
    };
    for (const any_call &call : all_calls())
        for (const auto &row : rows) {
            SCOPED_TRACE(testing::Message() << call.name << ", size " << row.struct_size << ", newer " << row.newer);
            longer_options options = {};
            options.known.struct_size = row.struct_size;
            options.newer = row.newer;
            if (row.struct_size < sizeof options.known)
                options.known.max_sms = UINT32_MAX; // past the size that the program states
            ferry_error_info error = new_error();
            driver.reset_counts();
            const std::int32_t status = call.make(counted.get(), &options.known, &error);
            if (!row.is_refused) {
                EXPECT_OK(status) << describe(error);
                EXPECT_OK(raw().cuStreamSynchronize(stream));
                continue;
            }
            expect_refusal(status, error, FERRY_ERROR_ABI_MISMATCH, FERRY_SIDE_OPTIONS, FERRY_FIELD_STRUCT_SIZE);
            EXPECT_EQ(error.numbers, row.struct_size < 8      ? FERRY_NUMBERS_AT_LEAST
                                     : row.struct_size > 4096 ? FERRY_NUMBERS_AT_MOST
                                                              : FERRY_NUMBERS_KNOWN);
            EXPECT_EQ(error.limit, row.struct_size < 8 ? 8 : row.struct_size > 4096 ? 4096 : sizeof options.known);
            EXPECT_EQ(error.value, row.struct_size);
            expect_no_call(driver);
        }
}

TEST_F(copy_options, fields_up_to_the_stated_size_apply) {
    ferry_copy_options options = by_kernel.fields();
    options.max_sms = UINT32_MAX;
    options.struct_size = offsetof(ferry_copy_options, route);
    ferry_explanation found = new_explanation();
    ASSERT_OK(ferry_copy_explain(counted.get(), copies, &options, &found, nullptr));
    EXPECT_EQ(found.route, FERRY_ROUTE_DRIVER);
    EXPECT_EQ(found.reason, FERRY_REASON_LINE) << "the route is past the size";
    options.struct_size = offsetof(ferry_copy_options, priority);
    if (!has_kernels()) return;
    ASSERT_OK(ferry_copy_explain(counted.get(), copies, &options, &found, nullptr));
    EXPECT_EQ(found.route, FERRY_ROUTE_KERNEL);
}

// ---- The instance's options -------------------------------------------------------------------------------------

TEST_F(copy_options, null_means_the_options_of_the_instance_and_a_zeroed_struct_replaces_them) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    {
        how forced = by_kernel;
        ferry_options options = driver.options();
        options.copy_options = forced;
        open(options);
        forced = by_driver; // which the instance does not read
    }
    const auto takes_kernel = [&](const any_call &call, const how &options) {
        is_kernel_explained = false;
        driver.reset_counts();
        ferry_error_info error = new_error();
        EXPECT_OK(call.make(opened.get(), options, &error)) << describe(error);
        EXPECT_OK(raw().cuStreamSynchronize(stream));
        return is_kernel_explained || driver.calls("cuLaunchKernel") > 0;
    };
    for (const any_call &call : all_calls()) {
        if (call.is_launch) continue; // reads only the tag
        SCOPED_TRACE(call.name);
        EXPECT_TRUE(takes_kernel(call, {}));
        EXPECT_FALSE(takes_kernel(call, by_driver));
        if (std::strstr(call.name, "fill") || std::strcmp(call.name, "ferry_copy") == 0) {
            EXPECT_FALSE(takes_kernel(call, ordinary)) << "the driver makes contiguous copies and fills";
        }
        EXPECT_FALSE(takes_kernel(call, no_kernels)) << "the options do not add to the options of the instance";
    }
}

TEST_F(copy_options, a_route_that_cannot_serve_is_named_with_the_copy) {
    if (!has_kernels()) GTEST_SKIP() << "the driver cannot load kernels";
    const bytes pageable(size), before = read_back(memory->device, count * size);
    sources[1] = nests[1].source.place.address = copies[1].source.address = at(pageable.data());
    for (const any_call &call : all_calls()) {
        const bool is_batch = std::strstr(call.name, "batch") || std::strstr(call.name, "pieces") ||
                              std::strcmp(call.name, "ferry_prepared_create") == 0;
        if (!is_batch) continue;
        SCOPED_TRACE(call.name);
        ferry_error_info error = new_error();
        driver.reset_counts();
        expect_refusal(call.make(counted.get(), by_kernel, &error), error, FERRY_ERROR_ROUTE, FERRY_SIDE_OPTIONS,
                       FERRY_FIELD_ROUTE);
        EXPECT_EQ(error.numbers, FERRY_NUMBERS_OBSTACLE);
        EXPECT_EQ(error.value, static_cast<std::uint64_t>(FERRY_OBSTACLE_PAGEABLE)) << describe(error);
        EXPECT_EQ(error.item, std::strstr(call.name, "pieces") ? FERRY_ITEM_PIECE : FERRY_ITEM_COPY);
        EXPECT_EQ(error.index, 1u) << describe(error);
        expect_no_call(driver);
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    EXPECT_TRUE(read_back(memory->device, count * size) == before);
}

// ---- Tags -------------------------------------------------------------------------------------------------------

TEST_F(copy_options, the_tag_arrives_in_every_event_of_the_trace) {
    heard told;
    ferry_options options = driver.options();
    const how of_instance = tag(1000);
    options.copy_options = of_instance;
    options.trace = hear;
    options.trace_user = &told;
    options.trace_phases = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN | FERRY_PHASE_DONE;
    open(options);
    std::map<std::uint64_t, std::pair<std::uint64_t, const char *>> wanted; // by the number of the call
    std::uint64_t next = 1;
    for (const any_call &call : all_calls()) {
        const std::uint64_t if_null = call.is_launch ? 0 : 1000; // a launch has the tag of its preparation
        for (const bool is_given : {true, false}) {
            if (!call.is_explanation) {
                const std::uint64_t id = wanted.size() + 1;
                wanted[id] = {is_given ? next : if_null, call.name};
            }
            EXPECT_OK(call.make(opened.get(), is_given ? tag(next) : how(), nullptr)) << call.name;
            EXPECT_OK(raw().cuStreamSynchronize(stream));
            ++next;
        }
    }
    EXPECT_OK(raw().cuStreamSynchronize(stream));
    close(); // reports all that has completed
    std::map<std::uint64_t, std::uint32_t> phases;
    for (const ferry_trace_event &event : told.events) {
        ASSERT_TRUE(wanted.count(event.id)) << "an explanation has no event";
        EXPECT_EQ(event.tag, wanted[event.id].first) << wanted[event.id].second << ", phase " << event.phase;
        phases[event.id] |= event.phase;
    }
    for (const auto &[id, call] : wanted) {
        const bool is_async = std::strstr(call.second, "async") || std::strstr(call.second, "prepared");
        const std::uint32_t expected = FERRY_PHASE_BEGIN | FERRY_PHASE_RETURN | (is_async ? FERRY_PHASE_DONE : 0u);
        EXPECT_EQ(phases[id], expected) << call.second;
    }
}

TEST_F(copy_options, the_tag_arrives_in_every_ticket) {
    ferry_options options = driver.options();
    const how of_instance = tag(1000);
    options.copy_options = of_instance;
    open(options);
    const auto tag_of = [&](const ticket_call &call, const how &given) {
        ferry_ticket *ticket = nullptr;
        EXPECT_OK(call.enqueue(given, stream, &ticket));
        const std::uint64_t found = info_of(ticket).tag;
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        return found;
    };
    for (const ticket_call &call : ticket_calls(opened.get(), tag(77))) {
        SCOPED_TRACE(call.name);
        EXPECT_EQ(tag_of(call, tag(1)), 1u);
        EXPECT_EQ(tag_of(call, tag(UINT64_MAX)), UINT64_MAX);
        EXPECT_EQ(tag_of(call, by_driver), 0u) << "other options replace the tag too";
        EXPECT_EQ(tag_of(call, {}), std::strcmp(call.name, "ferry_prepared_launch") == 0 ? 77u : 1000u);
    }
    for (const ticket_call &call : ticket_calls(opened.get(), {})) // prepared with the options of the instance
        EXPECT_EQ(tag_of(call, {}), 1000u) << call.name;
    ferry_ticket *of_stream = nullptr;
    ASSERT_OK(ferry_ticket_create(opened.get(), stream, &of_stream, nullptr));
    EXPECT_EQ(info_of(of_stream).tag, 0u) << "a ticket of a stream has no options";
    EXPECT_OK(ferry_ticket_release(of_stream, nullptr));
}

// ---- Tickets ----------------------------------------------------------------------------------------------------

TEST_F(copy_options, a_ticket_is_done_when_its_work_has_completed_on_the_stream) {
    for (const ticket_call &call : ticket_calls(counted.get())) {
        SCOPED_TRACE(call.name);
        ferry_ticket *ticket = nullptr;
        const bool is_single = std::strstr(call.name, "copy_async") || std::strstr(call.name, "bytes_async");
        {
            gate held(stream);
            ASSERT_OK(call.enqueue(ordinary, stream, &ticket));
            ASSERT_NE(ticket, nullptr);
            const ferry_ticket_info info = info_of(ticket);
            EXPECT_FALSE(info.done);
            EXPECT_EQ(info.status, FERRY_SUCCESS);
            EXPECT_EQ(info.route, is_single ? FERRY_ROUTE_DRIVER : FERRY_ROUTE_NONE);
            EXPECT_EQ(info.bytes_total, call.bytes);
            EXPECT_EQ(info.bytes_done, 0u);
            EXPECT_EQ(ferry_ticket_wait(ticket, 1'000'000, nullptr), FERRY_ERROR_NOT_READY);
        }
        EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, nullptr));
        const ferry_ticket_info info = info_of(ticket);
        EXPECT_TRUE(info.done);
        EXPECT_EQ(info.status, FERRY_SUCCESS);
        EXPECT_EQ(info.bytes_total, call.bytes);
        EXPECT_EQ(info.bytes_done, call.bytes);
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
}

TEST_F(copy_options, another_stream_waits_for_the_ticket_of_a_batch_and_of_a_fill) {
    const test_stream later;
    for (const ticket_call &call : ticket_calls(counted.get())) {
        SCOPED_TRACE(call.name);
        const bytes source = random_bytes(count * size, 1);
        std::memcpy(memory->host.data(), source.data(), source.size());
        write_for_all_streams(memory->device, bytes(count * size));
        const pinned_memory seen(count * size);
        {
            gate held(stream);
            ferry_ticket *ticket = nullptr;
            ASSERT_OK(call.enqueue({}, stream, &ticket));
            ASSERT_OK(ferry_ticket_wait_async(ticket, later, nullptr));
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
            ASSERT_OK(raw().cuMemcpyDtoHAsync(seen.data(), memory->device, count * size, later));
        }
        ASSERT_OK(raw().cuStreamSynchronize(later));
        const bool is_fill = std::strstr(call.name, "fill");
        EXPECT_EQ(seen.data()[0], is_fill ? std::byte{0x5a} : source[0]);
        EXPECT_TRUE(is_fill || std::equal(source.begin(), source.begin() + size / 2, seen.data()));
    }
}

TEST_F(copy_options, a_ticket_for_no_work_is_done_immediately) {
    const ferry_copy_desc nothing[count] = {};
    const std::uint64_t no_bytes[count] = {};
    ferry_fill_desc no_fill = fill;
    no_fill.width = 0;
    const struct {
        const char *what;
        std::function<std::int32_t(ferry_ticket **)> enqueue;
    } rows[] = {
        {"a batch of nothing",
         [&](ferry_ticket **ticket) {
             return ferry_copy_batch_async(counted.get(), nullptr, 0, tag(5), stream, ticket, nullptr);
         }},
        {"a batch of empty copies",
         [&](ferry_ticket **ticket) {
             return ferry_copy_batch_async(counted.get(), nothing, count, tag(5), stream, ticket, nullptr);
         }},
        {"no pieces",
         [&](ferry_ticket **ticket) {
             return ferry_copy_pieces_async(counted.get(), in_arrays(nullptr, nullptr, nullptr, 0), tag(5), stream,
                                            ticket, nullptr);
         }},
        {"empty pieces",
         [&](ferry_ticket **ticket) {
             return ferry_copy_pieces_async(counted.get(), in_arrays(destinations, sources, no_bytes, count), tag(5),
                                            stream, ticket, nullptr);
         }},
        {"an empty copy",
         [&](ferry_ticket **ticket) {
             return ferry_copy_async(counted.get(), nothing, tag(5), stream, ticket, nullptr);
         }},
        {"an empty fill",
         [&](ferry_ticket **ticket) {
             return ferry_fill_async(counted.get(), &no_fill, tag(5), stream, ticket, nullptr);
         }},
    };
    const gate held(stream);
    for (const auto &row : rows) {
        SCOPED_TRACE(row.what);
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(row.enqueue(&ticket));
        ASSERT_NE(ticket, nullptr);
        const ferry_ticket_info info = info_of(ticket);
        EXPECT_TRUE(info.done);
        EXPECT_EQ(info.status, FERRY_SUCCESS);
        EXPECT_EQ(info.bytes_total, 0u);
        EXPECT_EQ(info.tag, 5u);
        EXPECT_OK(ferry_ticket_wait(ticket, 0, nullptr));
        EXPECT_OK(ferry_ticket_release(ticket, nullptr));
    }
}

TEST_F(copy_options, work_that_becomes_part_of_a_graph_has_no_ticket) {
    const bytes before = read_back(memory->device, count * size);
    for (const ticket_call &call : ticket_calls(counted.get())) {
        SCOPED_TRACE(call.name);
        captured_graph graph(stream);
        ferry_ticket *ticket = reinterpret_cast<ferry_ticket *>(this);
        EXPECT_EQ(call.enqueue({}, stream, &ticket), FERRY_ERROR_CAPTURE);
        EXPECT_EQ(ticket, nullptr);
        graph.end();
        graph.run();
        EXPECT_TRUE(read_back(memory->device, count * size) == before) << "the graph must be empty";
    }
    for (const ticket_call &call : ticket_calls(counted.get())) {
        SCOPED_TRACE(call.name);
        captured_graph graph(stream);
        EXPECT_OK(call.enqueue({}, stream, nullptr)) << "without a ticket";
        graph.end();
        graph.run();
    }
}

TEST_F(copy_options, a_call_that_fails_returns_no_ticket) {
    ferry_copy_desc bad_copy = copies[0];
    bad_copy.source.kind = 99;
    ferry_fill_desc bad_fill = fill;
    bad_fill.pattern_size = 3;
    const std::uint64_t nowhere[count] = {};
    const auto marked = [this] { return reinterpret_cast<ferry_ticket *>(this); };
    ferry_ticket *ticket = marked();
    EXPECT_EQ(ferry_copy_async(counted.get(), &bad_copy, nullptr, stream, &ticket, nullptr), FERRY_ERROR_KIND);
    EXPECT_EQ(ticket, nullptr);
    ticket = marked();
    EXPECT_EQ(ferry_copy_batch_async(counted.get(), &bad_copy, 1, nullptr, stream, &ticket, nullptr), FERRY_ERROR_KIND);
    EXPECT_EQ(ticket, nullptr);
    ticket = marked();
    EXPECT_EQ(ferry_copy_pieces_async(counted.get(), in_arrays(nowhere, sources, sizes, count), nullptr, stream,
                                      &ticket, nullptr),
              FERRY_ERROR_ADDRESS);
    EXPECT_EQ(ticket, nullptr);
    ticket = marked();
    EXPECT_EQ(ferry_fill_async(counted.get(), &bad_fill, nullptr, stream, &ticket, nullptr),
              FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(ticket, nullptr);
    for (const ticket_call &call : ticket_calls(counted.get())) {
        SCOPED_TRACE(call.name);
        ticket = marked();
        EXPECT_EQ(call.enqueue(max_sms(65536), stream, &ticket), FERRY_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(ticket, nullptr);
        for (const char *const entry : {"cuEventCreate", "cuEventRecord"}) {
            driver.fail(entry, CUDA_ERROR_OUT_OF_MEMORY);
            ticket = marked();
            EXPECT_EQ(call.enqueue(by_driver, stream, &ticket), FERRY_STATUS_DRIVER_BASE - CUDA_ERROR_OUT_OF_MEMORY)
                << entry;
            EXPECT_EQ(ticket, nullptr);
            driver.heal();
        }
    }
}

} // namespace
} // namespace ferry::test
