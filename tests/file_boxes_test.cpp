// Random boxes of random files against a plain reader and a plain writer.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "support/dice.h"
#include "support/how.h"
#include "support/opened_file.h"
#include "support/sanitizer.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

constexpr std::uint64_t most_bytes = 3'000'000, most_growth = 20'000;
constexpr std::uint64_t around = 5000; // bytes before and behind a written box that are compared; more than a page

// A file, the bytes that it must contain, and ferry's handles of it.
class modelled_file {
public:
    modelled_file(ferry_instance *instance, dice &random) {
        static int count = 0;
        const std::string folders[] = {"/dev/shm", std::filesystem::temp_directory_path()};
        path_ = random.of(folders) + "/ferry-boxes-" + std::to_string(getpid()) + "-" + std::to_string(count++);
        contents = random_bytes(random.one_in(10) ? 0 : random.size(most_bytes), random.any());
        descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        EXPECT_EQ(pwrite(descriptor_, contents.data(), contents.size(), 0), static_cast<ssize_t>(contents.size()));
        constexpr std::uint32_t both = FERRY_FILE_READ | FERRY_FILE_WRITE;
        for (const file_mode &mode :
             {file_mode{both, FERRY_FILE_DIRECT_AUTO}, file_mode{both, FERRY_FILE_DIRECT_NEVER},
              file_mode{both, FERRY_FILE_DIRECT_ALWAYS}, file_mode{both | FERRY_FILE_KEEP_CACHE}}) {
            file_mode drawn = mode;
            drawn.max_threads = static_cast<std::uint32_t>(random.up_to(3));
            if (random.one_in(8)) drawn.flags |= FERRY_FILE_SYNC;
            if (opened_file opened = open_file_as(instance, path_, drawn)) handles.push_back(std::move(opened));
        }
    }
    ~modelled_file() {
        EXPECT_TRUE(contents == read(0, size())) << path_;
        ::close(descriptor_);
        unlink(path_.c_str());
    }
    modelled_file(const modelled_file &) = delete;

    void grow_to(std::uint64_t size) { contents.resize(std::max<std::uint64_t>(contents.size(), size)); }
    // Whether the file has the bytes of the model, near [begin, end).
    bool is_right(std::uint64_t begin, std::uint64_t end) const {
        begin -= std::min(begin, around);
        end = std::min(end + around, contents.size());
        return size() == contents.size() && read(begin, end) == bytes(at(begin), at(end));
    }
    bytes::const_iterator at(std::uint64_t offset) const {
        return contents.begin() + static_cast<std::ptrdiff_t>(offset);
    }

    bytes contents;
    std::vector<opened_file> handles;

private:
    std::uint64_t size() const { return static_cast<std::uint64_t>(lseek(descriptor_, 0, SEEK_END)); }
    bytes read(std::uint64_t begin, std::uint64_t end) const {
        bytes found(end - begin);
        EXPECT_EQ(pread(descriptor_, found.data(), found.size(), static_cast<off_t>(begin)),
                  static_cast<ssize_t>(found.size()));
        return found;
    }

    std::string path_;
    int descriptor_;
};

// A drawn box: the file's end of the copy, and its shape.
struct file_box {
    std::uint64_t offset, pitch, height; // of the whole picture in the file
    box origin;                          // the depth origin is 0
    std::uint64_t width, rows, slices;
    bool reads;

    std::uint64_t at(std::uint64_t y, std::uint64_t z) const {
        return offset + (z * height + y + origin.y) * pitch + origin.x;
    }
    std::uint64_t begin() const { return at(0, 0); }
    std::uint64_t end() const { return at(rows - 1, slices - 1) + width; }
    std::string text() const {
        std::ostringstream out;
        out << (reads ? "reads " : "writes ") << width << " x " << rows << " x " << slices << " bytes at " << offset
            << " + (" << origin.x << ", " << origin.y << "), row pitch " << pitch << ", slice height " << height;
        return out.str();
    }
};

class file_boxes : public file_fixture {
protected:
    void SetUp() override {
        file_fixture::SetUp();
        kinds = {place_kind::device, place_kind::device, place_kind::array_2d, place_kind::array_3d};
        if (!has_stream_waits()) return;
        for (const place_kind kind : {place_kind::pageable, place_kind::pinned, place_kind::registered})
            kinds.push_back(kind);
    }

    std::unique_ptr<test_place> draw_place() {
        const place_kind kind = random.among(kinds);
        grid shape = {.element_size = is_array(kind) ? 4u : 1u};
        const bool is_large = !is_array(kind) && random.one_in(40);
        shape.width = (1 + random.up_to(is_large ? most_bytes / 4 : 300)) * shape.element_size;
        shape.height = 1 + random.up_to(is_large ? 3 : 30);
        shape.depth = kind == place_kind::array_2d || is_large ? 1 : 1 + random.up_to(5);
        if (!is_array(kind)) {
            shape.row_pitch = shape.width + random.up_to(50);
            shape.slice_height = shape.height + random.up_to(2);
            shape.lead = random.up_to(70);
        }
        auto place = std::make_unique<test_place>(kind, shape);
        place->fill(random.any());
        return place;
    }

    // A box of the place, and a box of the same shape in the file.
    file_box draw_box(const test_place &place, box &at, const modelled_file &file, std::uint64_t readable,
                      bool may_be_refused) {
        const grid &shape = place.shape();
        const std::uint64_t element = shape.element_size;
        at = {random.up_to((shape.width - 1) / element) * element, random.up_to(shape.height - 1),
              random.up_to(shape.depth - 1)};
        file_box drawn = {};
        drawn.width = (1 + random.up_to((shape.width - at.x) / element - 1)) * element;
        drawn.rows = 1 + random.up_to(shape.height - at.y - 1);
        drawn.slices = 1 + random.up_to(shape.depth - at.z - 1);
        drawn.pitch = drawn.width + (random.one_in(3) ? 0 : random.up_to(random.one_in(4) ? 5000 : 100));
        drawn.height = drawn.rows + (random.one_in(3) ? 0 : random.up_to(3));
        drawn.origin = {random.up_to(drawn.pitch - drawn.width), random.up_to(drawn.height - drawn.rows), 0};
        // Odd offsets, and those beside the borders of blocks.
        const std::uint64_t size = file.contents.size();
        drawn.offset = random.up_to(size + (random.one_in(4) ? most_growth : 0));
        if (random.one_in(3)) drawn.offset = drawn.offset / 4096 * 4096 + random.up_to(2);
        drawn.reads = random.one_in(2);
        const std::uint64_t extent = drawn.end() - drawn.offset;
        if (drawn.reads && drawn.end() > readable && !(may_be_refused && random.one_in(8))) {
            if (extent <= readable)
                drawn.offset = readable - extent;
            else
                drawn.reads = false;
        }
        if (!drawn.reads && drawn.end() > most_bytes + most_growth) drawn.offset = 0;
        return drawn;
    }

    // One copy. Applies it to the models, and keeps its ticket if it is asynchronous.
    void copy_box(test_place &place, modelled_file &file, std::uint64_t readable, bool is_async) {
        box at;
        const file_box drawn = draw_box(place, at, file, readable, !is_async);
        ferry_place in_file = place_in(random.among(file.handles), drawn.offset, drawn.pitch, drawn.height);
        in_file.x = drawn.origin.x;
        in_file.y = drawn.origin.y;
        const ferry_place in_memory = place.describe(random.one_in(2) ? statement::any : statement::stated, at);
        const ferry_copy_desc desc = {drawn.reads ? in_memory : in_file,
                                      drawn.reads ? in_file : in_memory,
                                      drawn.width,
                                      drawn.rows,
                                      drawn.slices,
                                      {}};
        const how options = has_stream_waits() && random.one_in(8) ? no_kernels : how();
        const bool is_refused = drawn.reads && drawn.end() > readable;
        history += "\n" + drawn.text() + (is_async ? ", asynchronous" : "");
        ferry_error_info error = new_error();
        const instance_owner &instance = random.one_in(2) ? basic : full;
        ferry_ticket *ticket = nullptr;
        const std::int32_t status = is_async ? ferry_copy_async(instance.get(), &desc, options, stream, &ticket, &error)
                                             : ferry_copy(instance.get(), &desc, options, &error);
        if (ticket) tickets.push_back(ticket);
        ++boxes;
        if (is_refused) {
            ASSERT_EQ(status, FERRY_ERROR_OUT_OF_BOUNDS) << describe(error);
            ASSERT_EQ(error.field, FERRY_FIELD_OFFSET) << describe(error);
            ASSERT_EQ(error.limit, readable) << describe(error);
            ++refused;
            return;
        }
        ASSERT_OK(status) << describe(error);
        if (!drawn.reads) {
            file.grow_to(drawn.end());
            written.push_back({&file, drawn.begin(), drawn.end()});
        }
        for (std::uint64_t z = 0; z < drawn.slices; ++z)
            for (std::uint64_t y = 0; y < drawn.rows; ++y) {
                std::byte *const memory = &place.picture_at(at.x, at.y + y, at.z + z);
                std::byte *const bytes_of_file = file.contents.data() + drawn.at(y, z);
                if (drawn.reads)
                    std::memcpy(memory, bytes_of_file, drawn.width);
                else
                    std::memcpy(bytes_of_file, memory, drawn.width);
            }
    }

    // Many ranges of a file, to increasing addresses of the place. Each counts as a box.
    void copy_pieces(test_place &place, modelled_file &file, std::uint64_t readable, bool is_async) {
        const grid &shape = place.shape();
        const std::uint64_t room = shape.row_pitch * shape.slice_height * shape.depth;
        std::vector<ferry_piece> pieces;
        std::uint64_t from = random.up_to(readable);
        for (std::uint64_t to = random.up_to(100); pieces.size() < 40;) {
            const std::uint64_t size = random.one_in(8) ? 0 : random.size(random.one_in(10) ? 50'000 : 1000);
            if (random.one_in(4)) from = random.up_to(readable);
            if (to + size > room || from + size > readable) break;
            pieces.push_back({place.address() + to, from, size});
            if (size) std::memcpy(&place.picture_at(to, 0, 0), file.contents.data() + from, size);
            to += size + (random.one_in(3) ? random.up_to(200) : 0);
            from += size + (random.one_in(3) ? random.up_to(300) : 0);
        }
        ferry_piece_list list;
        ferry_piece_list_set(&list, pieces.data(), pieces.size());
        list.source_file = random.among(file.handles).get();
        history += "\nreads " + std::to_string(pieces.size()) + " pieces";
        ferry_error_info error = new_error();
        ferry_ticket *ticket = nullptr;
        ASSERT_OK(is_async ? ferry_copy_pieces_async(basic.get(), &list, nullptr, stream, &ticket, &error)
                           : ferry_copy_pieces(full.get(), &list, nullptr, &error))
            << describe(error);
        if (ticket) tickets.push_back(ticket);
        boxes += pieces.size();
    }

    void end_copies() {
        for (ferry_ticket *const ticket : tickets) {
            ferry_error_info error = new_error();
            EXPECT_OK(ferry_ticket_wait(ticket, FERRY_NO_TIMEOUT, &error)) << describe(error);
            EXPECT_OK(ferry_ticket_release(ticket, nullptr));
        }
        if (!tickets.empty()) {
            EXPECT_OK(raw().cuStreamSynchronize(stream));
        }
        tickets.clear();
    }

    void compare(const test_place &place) {
        ASSERT_TRUE(place.picture() == place.read()) << name_of(place.kind()) << history;
        for (const write &one : written)
            ASSERT_TRUE(one.file->is_right(one.begin, one.end)) << name_of(place.kind()) << history;
        written.clear();
        history.clear();
    }

    struct write {
        const modelled_file *file;
        std::uint64_t begin, end;
    };
    dice random{51};
    std::vector<place_kind> kinds;
    std::vector<ferry_ticket *> tickets; // of copies in flight
    std::vector<write> written;          // since the last comparison
    std::string history;                 // the copies since the last comparison
    std::uint64_t boxes = 0, refused = 0;
};

// Up to four asynchronous copies of the same memory are in flight at the same time, in the order of the stream.
TEST_F(file_boxes, ten_thousand_random_boxes_have_the_bytes_of_a_plain_reader) {
    const std::uint64_t wanted = is_sanitized ? 2'000 : 10'000;
    std::vector<std::unique_ptr<modelled_file>> files(12);
    std::unique_ptr<test_place> place;
    for (std::uint64_t round = 0; boxes < wanted; ++round) {
        if (round % 4 == 0) place = draw_place();
        std::unique_ptr<modelled_file> &first = files[round % files.size()];
        if (!first || random.one_in(8)) {
            first.reset(); // the name of the file is free again
            first = std::make_unique<modelled_file>(basic.get(), random);
        }
        modelled_file &file = *first;
        const std::uint64_t readable = file.contents.size(); // whatever copies in flight write
        const bool is_async = random.one_in(2);
        for (std::uint64_t left = is_async ? 1 + random.up_to(3) : 1; left != 0; --left) {
            if (place->kind() == place_kind::device && random.one_in(6))
                copy_pieces(*place, file, readable, is_async);
            else
                copy_box(*place, file, readable, is_async);
            if (HasFatalFailure()) break;
        }
        end_copies();
        if (HasFailure()) FAIL() << name_of(place->kind()) << history;
        compare(*place);
        if (HasFailure()) return;
    }
    EXPECT_GT(refused, 0u);
}

} // namespace
} // namespace ferry::test
