// Random descriptors, hostile ones among them. If a plain model calls a descriptor right, the copy must match the
// reference byte for byte. If not, the copy must be refused and must not change a byte.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "support/how.h"
#include "support/test_place.h"

namespace ferry::test {
namespace {

class random_source {
public:
    explicit random_source(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + engine_() % (high - low + 1); }
    bool one_in(std::uint64_t n) { return engine_() % n == 0; }
    template <class T> T &pick(std::vector<T> &from) { return from[engine_() % from.size()]; }
    template <class T, std::size_t count> const T &of(const T (&from)[count]) { return from[engine_() % count]; }

private:
    std::mt19937_64 engine_;
};

// None of these changes which bytes a copy moves.
constexpr how good_options[] = {urgent,    no_kernels, by_driver,           by_kernel,
                                by_kernel, by_kernel,  urgent | max_sms(3), ordinary | tag(5)};
// Numbers that no call accepts.
constexpr how bad_options[] = {detail::with_flags(0x80),
                               detail::with_route(-1),
                               detail::with_route(FERRY_ROUTE_BUFFERED),
                               detail::with_priority(FERRY_PRIORITY_BACKGROUND + 1),
                               detail::with_source_order(FERRY_SOURCE_ORDER_CALL + 1),
                               max_sms(65536),
                               by_kernel | no_kernels};

struct drawn_copy {
    test_place *source, *destination;
    ferry_copy_desc desc;
    how options;
    bool are_options_right;
};

// Decides byte by byte whether a descriptor is right, straight from the rules in ferry.h.
class model {
public:
    explicit model(const drawn_copy &copy) : copy_(copy) {}

    bool is_right() const {
        const ferry_copy_desc &desc = copy_.desc;
        if (!copy_.are_options_right || desc.reserved[2] || desc.source.reserved[1]) return false;
        if (desc.width == 0) return true;
        return end_is_right(*copy_.source, desc.source) && end_is_right(*copy_.destination, desc.destination) &&
               formats_match() && !shares_bytes() && !goes_between_layers();
    }
    // Whether the copy passes the end of memory whose extent the driver does not report. This cannot be checked, so no
    // test may try it.
    bool leaves_unbounded_memory() const {
        const auto leaves = [&](test_place &place, const ferry_place &described) {
            const bool is_unbounded = place.kind() == place_kind::pageable ||
                                      place.kind() == place_kind::pool_of_host ||
                                      place.kind() == place_kind::open_pool_of_host;
            return is_unbounded && !end_is_right(place, described);
        };
        return leaves(*copy_.source, copy_.desc.source) || leaves(*copy_.destination, copy_.desc.destination);
    }
    // Only for descriptors that are right.
    void apply() const {
        for_each_byte([&](std::uint64_t from, std::uint64_t to) {
            bytes_of(*copy_.destination)[to] = bytes_of(*copy_.source)[from];
        });
    }

private:
    std::uint64_t height() const { return std::max<std::uint64_t>(copy_.desc.height, 1); }
    std::uint64_t depth() const { return std::max<std::uint64_t>(copy_.desc.depth, 1); }
    static bytes &bytes_of(test_place &place) { return const_cast<bytes &>(place.picture()); }

    bool end_is_right(test_place &memory, const ferry_place &place) const {
        const std::uint64_t width = copy_.desc.width;
        if (is_array(memory.kind())) {
            const grid &grid = memory.shape();
            return place.x + width <= grid.width && place.y + height() <= grid.height &&
                   place.z + depth() <= grid.depth && place.x % grid.element_size == 0 &&
                   width % grid.element_size == 0;
        }
        const std::uint64_t pitch = place.row_pitch ? place.row_pitch : width;
        const std::uint64_t slice = place.slice_height ? place.slice_height : height();
        const bool slices = depth() > 1 || place.z, rows = slices || height() > 1 || place.y;
        if ((rows || place.row_pitch) && pitch < place.x + width) return false;
        if ((slices || place.slice_height) && slice < place.y + height()) return false;
        const std::uint64_t end = ((place.z + depth() - 1) * slice + place.y + height() - 1) * pitch + place.x + width;
        return place.address - memory.address() + memory.shape().lead + end <= memory.picture().size();
    }
    // Whether the copy goes between layers of one array. The driver gets that wrong, so ferry refuses it.
    bool goes_between_layers() const {
        return copy_.source == copy_.destination && copy_.source->kind() == place_kind::layers_2d &&
               copy_.desc.source.z != copy_.desc.destination.z;
    }
    bool formats_match() const {
        return !is_array(copy_.source->kind()) || !is_array(copy_.destination->kind()) ||
               copy_.source->shape().element_size == copy_.destination->shape().element_size;
    }

    // The offset of a byte of one end in the picture of its memory.
    std::uint64_t offset(test_place &memory, const ferry_place &place, std::uint64_t x, std::uint64_t y,
                         std::uint64_t z) const {
        const bool array = is_array(memory.kind());
        const std::uint64_t pitch = array ? memory.shape().width : place.row_pitch ? place.row_pitch : copy_.desc.width;
        const std::uint64_t slice = array ? memory.shape().height : place.slice_height ? place.slice_height : height();
        const std::uint64_t base = array ? 0 : place.address - memory.address() + memory.shape().lead;
        return base + ((place.z + z) * slice + place.y + y) * pitch + place.x + x;
    }
    template <class Visit> void for_each_byte(Visit visit) const {
        for (std::uint64_t z = 0; z < depth(); ++z)
            for (std::uint64_t y = 0; y < height(); ++y)
                for (std::uint64_t x = 0; x < copy_.desc.width; ++x)
                    visit(offset(*copy_.source, copy_.desc.source, x, y, z),
                          offset(*copy_.destination, copy_.desc.destination, x, y, z));
    }
    bool shares_bytes() const {
        if (copy_.source != copy_.destination) return false;
        std::vector<bool> read(copy_.source->picture().size());
        for_each_byte([&](std::uint64_t from, std::uint64_t) { read[from] = true; });
        bool shared = false;
        for_each_byte([&](std::uint64_t, std::uint64_t to) { shared = shared || read[to]; });
        return shared;
    }

    drawn_copy copy_;
};

ferry_place draw_place(random_source &random, test_place &memory) {
    ferry_place place = memory.describe(random.one_in(2) ? statement::any : statement::stated);
    const bool linear = !is_array(memory.kind());
    const auto origin = [&](std::uint64_t most) { return random.one_in(3) ? random.between(0, most) : 0; };
    const std::uint64_t element = memory.shape().element_size;
    place.x = origin(16 / element) * (random.one_in(30) ? 1 : element);
    place.y = origin(4);
    place.z = origin(2);
    if (!linear) return place;
    place.address += origin(9);
    const auto stride = [&](std::uint64_t usual, std::uint64_t odd) {
        return random.one_in(4) ? 0 : random.one_in(12) ? random.between(1, odd) : random.between(usual, odd);
    };
    place.row_pitch = stride(36, 60);
    place.slice_height = stride(5, 8);
    return place;
}

drawn_copy draw(random_source &random, std::vector<std::unique_ptr<test_place>> &places) {
    drawn_copy copy = {random.pick(places).get(), random.pick(places).get(), {}, {}, !random.one_in(50)};
    if (random.one_in(6)) copy.destination = copy.source;
    const ferry_place source = draw_place(random, *copy.source), destination = draw_place(random, *copy.destination);
    const std::uint64_t element = std::max(copy.source->shape().element_size, copy.destination->shape().element_size);
    const std::uint64_t width = random.one_in(30) ? random.between(0, 40) : random.between(1, 40 / element) * element;
    copy.desc = describe_copy(source, destination, width, random.between(0, 4), random.between(0, 2));
    if (copy.source == copy.destination && random.one_in(2)) { // equal strides, for which the overlap check is exact
        copy.desc.destination.row_pitch = source.row_pitch;
        copy.desc.destination.slice_height = source.slice_height;
    }
    if (!copy.are_options_right)
        copy.options = random.of(bad_options);
    else if (random.one_in(2))
        copy.options = random.of(good_options);
    if (random.one_in(50)) copy.desc.reserved[2] = 7;
    if (random.one_in(50)) copy.desc.source.reserved[1] = 7;
    return copy;
}

// For unequal strides ferry proves no overlap, and the result of an overlapping copy is undefined.
bool overlap_is_undecided(const drawn_copy &copy) {
    const ferry_place &a = copy.desc.source, &b = copy.desc.destination;
    return copy.source == copy.destination && !is_array(copy.source->kind()) &&
           (a.row_pitch != b.row_pitch || a.slice_height != b.slice_height);
}

class properties : public ferry_test {};

TEST_F(properties, random_descriptors_do_what_the_reference_does_or_are_refused) {
    constexpr int rounds = 24000;
    const char *given = std::getenv("FERRY_TEST_SEED");
    const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("seed %llu (FERRY_TEST_SEED repeats it)\n", static_cast<unsigned long long>(seed));
    RecordProperty("seed", std::to_string(seed));
    random_source random(seed);

    std::vector<std::unique_ptr<test_place>> places;
    const grid linear = {.width = 40, .height = 6, .depth = 4, .row_pitch = 48, .slice_height = 7, .lead = 3};
    for (const place_kind kind :
         {place_kind::pageable, place_kind::pinned, place_kind::registered, place_kind::managed, place_kind::device,
          place_kind::device, place_kind::pool, place_kind::pool_of_host, place_kind::open_pool_of_host})
        if (is_supported(kind)) places.push_back(std::make_unique<test_place>(kind, linear));
    for (const std::uint32_t element : {1u, 4u, 16u}) {
        places.push_back(
            std::make_unique<test_place>(place_kind::array_1d, grid{.width = 64, .element_size = element}));
        places.push_back(std::make_unique<test_place>(place_kind::array_2d,
                                                      grid{.width = 48, .height = 6, .element_size = element}));
        for (const place_kind kind : {place_kind::array_3d, place_kind::layers_2d, place_kind::mipmap_level})
            places.push_back(std::make_unique<test_place>(
                kind, grid{.width = 48, .height = 5, .depth = 4, .element_size = element}));
    }
    for (auto &place : places)
        place->fill(random.between(1, 1u << 30));
    CUstream stream = nullptr;
    ASSERT_OK(raw().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    int right = 0, wrong = 0, kernel_copies = 0, unserved = 0;
    for (int round = 0; round < rounds; ++round) {
        const drawn_copy copy = draw(random, places);
        const model model(copy);
        const bool is_right = model.is_right();
        if (overlap_is_undecided(copy) || model.leaves_unbounded_memory()) continue;
        ferry_error_info error = new_error();
        const bool is_synchronous = random.one_in(2);
        const std::int32_t status =
            is_synchronous ? ferry_copy(full.get(), &copy.desc, copy.options, &error)
                           : ferry_copy_async(full.get(), &copy.desc, copy.options, stream, nullptr, &error);
        if (!is_synchronous) {
            ASSERT_OK(raw().cuStreamSynchronize(stream));
        }
        const auto scene = [&] {
            return testing::Message() << "round " << round << " " << name_of(copy.source->kind()) << " to "
                                      << name_of(copy.destination->kind()) << " " << copy.desc.width << "x"
                                      << copy.desc.height << "x" << copy.desc.depth << " with " << copy.options << ": "
                                      << describe(error);
        };
        // A right descriptor may still be unsuitable for a kernel.
        if (status == FERRY_ERROR_ROUTE) {
            ASSERT_TRUE((is_right && copy.options == by_kernel) || copy.options == (by_kernel | no_kernels)) << scene();
            ASSERT_EQ(copy.destination->read(), copy.destination->picture()) << scene();
            ++unserved;
            continue;
        }
        kernel_copies += is_right && copy.options == by_kernel && copy.desc.width;
        ASSERT_EQ(status == FERRY_SUCCESS, is_right) << scene();
        if (!is_right) {
            ASSERT_GT(status, FERRY_STATUS_DRIVER_BASE) << "refused by ferry, not by the driver: " << scene();
            ASSERT_NE(error.field, FERRY_FIELD_NONE) << scene();
        } else if (copy.desc.width) {
            model.apply();
        }
        ASSERT_EQ(copy.destination->read(), copy.destination->picture()) << scene();
        ++(is_right ? right : wrong);
    }
    for (auto &place : places)
        EXPECT_EQ(place->read(), place->picture());
    std::printf("%d copies, %d of them by a kernel, and %d refusals\n", right, kernel_copies, wrong);
    EXPECT_GE(right + wrong + unserved, 20000);
    EXPECT_GT(kernel_copies, rounds / 500);
    EXPECT_GT(right, rounds / 5);
    EXPECT_GT(wrong, rounds / 10);
    EXPECT_OK(raw().cuStreamDestroy(stream));
}

} // namespace
} // namespace ferry::test
