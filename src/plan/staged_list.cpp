#include "plan/staged_list.h"

#include "plan/staged_chunks.h"

namespace ferry {

bool staged_list::take(staged_cursor &from, std::uint64_t bytes, std::uint64_t slot_size) noexcept {
    pieces_.clear();
    std::uint64_t taken = 0;
    std::size_t count = 0;
    for (const staged_piece *piece = from.piece; piece != from.end && taken < bytes + from.done; ++piece, ++count)
        taken += piece->size;
    if (!pieces_.reserve(count)) return false;
    taken = 0;
    for (; from.piece != from.end && taken != bytes; ++from.piece, from.done = 0) {
        const staged_piece &piece = *from.piece;
        const std::uint64_t size = std::min(piece.size - from.done, bytes - taken);
        pieces_.append_reserved({piece.device + from.done, piece.host + from.done, size});
        taken += size;
        if (from.done + size != piece.size) {
            from.done += size;
            break;
        }
    }
    taken_before_ = from.taken;
    from.taken += taken;
    return cut(taken, slot_size);
}

bool staged_list::touches_host(const address_span &range) const noexcept {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const staged_piece &piece) noexcept {
        return piece.host <= range.last && piece.host + (piece.size - 1) >= range.first;
    });
}

std::uint64_t staged_list::bytes_before(std::uint64_t index, std::uint64_t host) const noexcept {
    std::uint64_t before = taken_before_ + chunks_[index].bytes_before, found = before, gap = UINT64_MAX;
    for_each_part(index, [&](const staged_piece &piece, const gpu::staged_record &) noexcept {
        const std::uint64_t inside = host > piece.host ? host - piece.host : 0;
        const std::uint64_t behind = piece.host > host ? piece.host - host : 0;
        if (inside < piece.size && behind < gap) {
            gap = behind;
            found = before + inside;
        }
        before += piece.size;
    });
    return found;
}

bool staged_list::cut(std::uint64_t bytes, std::uint64_t slot_size) noexcept {
    // A part of a long piece that does not justify a record: the next chunk includes it.
    constexpr std::uint64_t least_part = 4096 / window_bytes;
    const std::uint64_t around_pieces = 2 * window_bytes * pieces_.size(); // records, and windows that are not full
    const std::uint64_t room = room_for_a_chunk(bytes + around_pieces, slot_size) / window_bytes;
    chunks_.clear();
    chunk open = {};
    std::uint64_t used = 0, before = 0;
    const auto close = [&]() noexcept {
        if (!chunks_.append(open)) return false;
        used = 0;
        return true;
    };
    for (std::size_t i = 0; i < pieces_.size(); ++i)
        for (std::uint64_t done = 0; done != pieces_[i].size;) {
            const std::uint64_t device = pieces_[i].device + done, left = pieces_[i].size - done;
            const std::uint64_t whole = windows_of(device, left), free = room - used;
            const bool fits =
                used == 0 || (open.records < gpu::max_staged_records && free > std::min(whole, least_part));
            if (!fits) {
                if (!close()) return false;
                continue;
            }
            if (used == 0) open = {i, done, before, 0, 0};
            const std::uint64_t windows = std::min(whole, free - 1);
            const std::uint64_t size = std::min(left, windows * window_bytes - device % window_bytes);
            ++open.records;
            open.windows += static_cast<std::uint32_t>(windows);
            used += 1 + windows;
            done += size;
            before += size;
        }
    if (used != 0 && !close()) return false;
    return chunks_.append({pieces_.size(), 0, before, 0, 0});
}

} // namespace ferry
