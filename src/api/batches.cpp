// The C functions for batches: batches that run immediately, and batches that are prepared first and launched later.
#include "batch/batch.h"

#include "api/call_options.h"
#include "api/piece_lists.h"
#include "base/explanation.h"
#include "base/sized.h"
#include "batch/prepared.h"
#include "submit/ticket.h"

using namespace ferry;

namespace {

// The copies of a call as the program passes them: descriptors, or a list of pieces. Pieces have no count here.
struct given_copies {
    const ferry_copy_desc *copies = nullptr;
    std::uint64_t count = 0;
    const ferry_piece_list *pieces = nullptr;
    std::int32_t item = FERRY_ITEM_COPY;
};

given_copies descriptors(const ferry_copy_desc *copies, std::uint64_t count) noexcept {
    return {.copies = copies, .count = count};
}
given_copies pieces_of(const ferry_piece_list *pieces) noexcept { return {.pieces = pieces, .item = FERRY_ITEM_PIECE}; }

// Prepared batches have no files.
error refuse_source_file(const ferry_file *file) noexcept {
    return refuse_value(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_PIECES, FERRY_FIELD_SOURCE_FILE, number(file));
}

error read_input(const ferry_instance *instance, const given_copies &given, const ferry_copy_options *options,
                 batch_input &input, std::uint32_t known_flags = flags_of_every_call) noexcept {
    if (!instance) return null_among(instance);
    if (error failed = choose_options(*instance, options, input.options, known_flags)) return failed;
    if (given.item == FERRY_ITEM_PIECE)
        return given.pieces
                   ? read_pieces(*given.pieces, piece_fields::all, input.pieces, input.count, input.source_file)
                   : null_among(given.pieces);
    input.copies = given.copies;
    input.count = given.count;
    return given.copies || given.count == 0 ? ok : refuse_null(FERRY_FIELD_COPIES);
}

std::int32_t report_item(ferry_error_info *details, const error &failed, std::int32_t item,
                         std::uint64_t bad_index) noexcept {
    const bool is_known = failed && bad_index != no_index;
    return report(details, failed, is_known ? error_item{item, bad_index} : error_item{});
}

[[gnu::cold]] std::uint64_t sum_bytes(const batch_input &input) noexcept {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < input.count; ++i)
        bytes += input.copies ? bytes_of(input.copies[i].width, input.copies[i].height, input.copies[i].depth)
                              : input.pieces.size(i);
    return bytes;
}

std::int32_t run_and_report(ferry_instance *instance, const given_copies &given, const ferry_copy_options *options,
                            copy_form form, CUstream stream, ferry_ticket **ticket,
                            ferry_error_info *details) noexcept {
    if (ticket) *ticket = nullptr;
    batch_input input;
    if (error failed = read_input(instance, given, options, input)) return report(details, failed);
    if (form == copy_form::synchronous) input.options.preferences.follow_the_stream();
    std::uint64_t bad_index = no_index;
    const auto enqueue = [&](ferry_ticket *made) noexcept {
        return run_batch(*instance, input, form, stream, made, bad_index);
    };
    const auto run = [&]() noexcept {
        return enqueue_with_ticket(*instance, ticket, input.options.tag, ticket ? sum_bytes(input) : 0, enqueue);
    };
    error failed;
    if (instance->trace)
        failed = instance->trace.run(
            {FERRY_TRACE_BATCH, form, stream, sum_bytes(input), input.count, input.options.tag}, run);
    else
        failed = run();
    return report_item(details, failed, given.item, bad_index);
}

std::int32_t explain_and_report(ferry_instance *instance, const given_copies &given, const ferry_copy_options *options,
                                CUstream stream, ferry_batch_explanation *explanation,
                                ferry_error_info *details) noexcept {
    batch_input input;
    constexpr std::uint32_t known_flags = flags_of_every_call | FERRY_COPY_UPDATABLE;
    if (error failed = read_input(instance, given, options, input, known_flags)) return report(details, failed);
    if (!explanation) return report_null(details, explanation);
    std::uint64_t bad_index = no_index;
    ferry_batch_explanation found = {};
    error failed = explain_batch(*instance, input, stream, found, bad_index);
    if (!failed) failed = write_sized(found, explanation);
    return report_item(details, failed, given.item, bad_index);
}

std::int32_t create_and_report(ferry_instance *instance, const given_copies &given, const ferry_copy_options *options,
                               std::uint32_t known_flags, CUstream stream, ferry_prepared **prepared,
                               ferry_error_info *details) noexcept {
    if (prepared) *prepared = nullptr;
    batch_input input;
    if (error failed = read_input(instance, given, options, input, known_flags)) return report(details, failed);
    if (input.source_file) return report(details, refuse_source_file(input.source_file));
    input.takes_files = false;
    if (!prepared) return report_null(details, prepared);
    std::uint64_t bad_index = no_index;
    const bool no_wait = input.options.preferences.no_wait; // of the launches
    input.options.preferences.no_wait = false;
    const error failed = create_prepared(*instance, input, stream, *prepared, bad_index);
    if (!failed) {
        (*prepared)->no_wait = no_wait;
        (*prepared)->count = input.count;
        (*prepared)->bytes = sum_bytes(input);
    }
    return report_item(details, failed, given.item, bad_index);
}

} // namespace

extern "C" {

int32_t ferry_copy_batch(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                         const ferry_copy_options *options, ferry_error_info *details) {
    return run_and_report(instance, descriptors(copies, count), options, copy_form::synchronous, nullptr, nullptr,
                          details);
}

int32_t ferry_copy_batch_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                               const ferry_copy_options *options, CUstream_st *stream, ferry_ticket **ticket,
                               ferry_error_info *details) {
    return run_and_report(instance, descriptors(copies, count), options, copy_form::asynchronous, stream, ticket,
                          details);
}

int32_t ferry_copy_pieces(ferry_instance *instance, const ferry_piece_list *pieces, const ferry_copy_options *options,
                          ferry_error_info *details) {
    return run_and_report(instance, pieces_of(pieces), options, copy_form::synchronous, nullptr, nullptr, details);
}

int32_t ferry_copy_pieces_async(ferry_instance *instance, const ferry_piece_list *pieces,
                                const ferry_copy_options *options, CUstream_st *stream, ferry_ticket **ticket,
                                ferry_error_info *details) {
    return run_and_report(instance, pieces_of(pieces), options, copy_form::asynchronous, stream, ticket, details);
}

int32_t ferry_copy_batch_explain_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                       const ferry_copy_options *options, CUstream_st *stream,
                                       ferry_batch_explanation *explanation, ferry_error_info *details) {
    return explain_and_report(instance, descriptors(copies, count), options, stream, explanation, details);
}

int32_t ferry_copy_pieces_explain_async(ferry_instance *instance, const ferry_piece_list *pieces,
                                        const ferry_copy_options *options, CUstream_st *stream,
                                        ferry_batch_explanation *explanation, ferry_error_info *details) {
    return explain_and_report(instance, pieces_of(pieces), options, stream, explanation, details);
}

uint64_t ferry_batch_explanation_format(const ferry_batch_explanation *explanation, char *buffer, uint64_t size) {
    if (!buffer) size = 0;
    if (size) buffer[0] = '\0';
    ferry_batch_explanation known = {};
    if (!explanation || read_sized(explanation, known)) return 0;
    return format_explanation(known, buffer, size);
}

int32_t ferry_prepared_create(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                              const ferry_copy_options *options, CUstream_st *stream, ferry_prepared **prepared,
                              ferry_error_info *details) {
    return create_and_report(instance, descriptors(copies, count), options, flags_of_every_call, stream, prepared,
                             details);
}

int32_t ferry_prepared_create_pieces(ferry_instance *instance, const ferry_piece_list *pieces,
                                     const ferry_copy_options *options, CUstream_st *stream, ferry_prepared **prepared,
                                     ferry_error_info *details) {
    constexpr std::uint32_t known_flags = flags_of_every_call | FERRY_COPY_UPDATABLE;
    return create_and_report(instance, pieces_of(pieces), options, known_flags, stream, prepared, details);
}

int32_t ferry_prepared_launch(ferry_prepared *prepared, const ferry_copy_options *options, CUstream_st *stream,
                              ferry_ticket **ticket, ferry_error_info *details) {
    if (ticket) *ticket = nullptr;
    if (!prepared) return report_null_field(details, FERRY_FIELD_PREPARED);
    ferry_instance &instance = prepared->instance;
    call_options chosen = prepared->options;
    bool no_wait = prepared->no_wait;
    if (options) {
        if (error failed = read_options(*options, flags_of_every_call | FERRY_COPY_UPDATABLE, chosen))
            return report(details, failed);
        no_wait = chosen.preferences.no_wait;
    }
    const auto run = [&]() noexcept {
        return enqueue_with_ticket(instance, ticket, chosen.tag, prepared->bytes, [&](ferry_ticket *made) noexcept {
            return launch_prepared(*prepared, no_wait, stream, made);
        });
    };
    if (!instance.trace) return report(details, run());
    const traced_call call = {FERRY_TRACE_PREPARED, copy_form::asynchronous, stream,
                              prepared->bytes,      prepared->count,         chosen.tag};
    return report(details, instance.trace.run(call, run));
}

int32_t ferry_prepared_set_addresses(ferry_prepared *prepared, const ferry_piece_list *pieces, CUstream_st *stream,
                                     ferry_error_info *details) {
    if (!prepared) return report_null_field(details, FERRY_FIELD_PREPARED);
    if (!pieces) return report_null(details, pieces);
    piece_list given;
    std::uint64_t count = 0, bad_index = no_index;
    ferry_file *source_file = nullptr;
    if (error failed = read_pieces(*pieces, piece_fields::addresses, given, count, source_file))
        return report(details, failed);
    if (source_file) return report(details, refuse_source_file(source_file));
    const error failed = set_addresses(*prepared, given, count, stream, bad_index);
    return report_item(details, failed, FERRY_ITEM_PIECE, bad_index);
}

int32_t ferry_prepared_destroy(ferry_prepared *prepared, ferry_error_info *details) {
    return report(details, prepared ? destroy_prepared(*prepared) : ok);
}

int32_t ferry_prepared_destroy_deferred(ferry_prepared *prepared, CUstream_st *stream, ferry_error_info *details) {
    return report(details, prepared ? destroy_prepared_deferred(*prepared, stream) : ok);
}

} // extern "C"
