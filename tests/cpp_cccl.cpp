// ferry.hpp beside NVIDIA's libcu++: cuda::stream_ref as a stream, and mdspans of cuda::std as the ends of copies.
#include <cuda/std/mdspan>
#include <cuda/stream_ref>

#include <ferry/ferry.hpp>

#include <cstdio>
#include <vector>

namespace {

int failures = 0;
void expect(bool holds, const char *what) {
    if (holds) return;
    std::printf("failed: %s\n", what);
    ++failures;
}
void expect(const ferry::status &done, const char *what) { expect(done.ok(), what); }

using extents = cuda::std::dextents<int, 2>;
template <class Layout> using matrix = cuda::std::mdspan<int, extents, Layout>;
using cuda::std::layout_left, cuda::std::layout_right, cuda::std::layout_stride;

void copy_on_a_stream_ref(const ferry::instance &ferry) {
    const auto order = *ferry::stream::create(ferry, 0);
    const cuda::stream_ref stream(order.handle());
    auto back = *ferry::pinned_memory<int>::create(ferry, 8);
    const auto freed = *ferry::stream_memory<int>::create(ferry, 0, back.size(), stream);
    expect(freed.stream() == order, "memory keeps the stream");
    expect(ferry::fill_async(ferry, ferry::device_view<int>(0, freed.address(), 8), 6, stream), "a fill is enqueued");
    expect(ferry::copy_async(ferry, freed, back, cuda::stream_ref(order.handle())), "so is a copy");
    expect(order.synchronize(), "both are complete");
    expect(back[7] == 6, "in order");
}

template <class From, class To> void copy_matrix(const ferry::instance &ferry, const From &from, const To &to) {
    for (int i = 0; i < from.extent(0); ++i)
        for (int j = 0; j < from.extent(1); ++j)
            from(i, j) = 100 * i + j, to(i, j) = -1;
    expect(ferry::copy(ferry, from, to), "a matrix is copied");
    for (int i = 0; i < from.extent(0); ++i)
        for (int j = 0; j < from.extent(1); ++j)
            expect(to(i, j) == 100 * i + j, "element by element");
}

void copy_mdspans(const ferry::instance &ferry) {
    std::vector<int> a(64), b(64);
    const matrix<layout_left> left(a.data(), 4, 3), left_too(b.data(), 4, 3);
    const matrix<layout_right> right(a.data(), 4, 3), right_too(b.data(), 4, 3);
    const matrix<layout_stride> columns(b.data(), {extents(4, 3), cuda::std::array<int, 2>{1, 9}});
    const cuda::std::mdspan<int, cuda::std::extents<int, 4, 3>, layout_left> fixed(b.data());
    copy_matrix(ferry, left, left_too);
    copy_matrix(ferry, left, columns);
    copy_matrix(ferry, left, fixed);
    copy_matrix(ferry, right, right_too);
    expect(ferry::view_of(left).width() == 4 && ferry::view_of(fixed).width() == 4, "the first extent of columns is X");
    expect(ferry::view_of(right).width() == 3, "the last extent of rows is X");
    expect(ferry::copy(ferry, left, right_too).field() == FERRY_FIELD_X, "no copy transposes");

    auto device = *ferry::pitched_memory<int>::create(ferry, 0, 4, 3);
    expect(ferry::copy(ferry, left, device), "columns go up");
    expect(ferry::copy(ferry, device, left_too), "they come back");
    expect(left_too(3, 2) == left(3, 2), "they are the same");
}

} // namespace

int main() {
    auto opened = ferry::instance::open(ferry::any_driver());
    expect(opened.error(), "ferry opens");
    if (!opened) return 1;
    const ferry::instance ferry = *std::move(opened);
    copy_on_a_stream_ref(ferry);
    copy_mdspans(ferry);
    return failures ? 1 : 0;
}
