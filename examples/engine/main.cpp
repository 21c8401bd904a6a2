// The frame loop of an engine without a window. ferry uploads textures, vertices and constants to Vulkan while frames
// are drawn; the main thread waits only for the display. docs/engines.md explains the steps.
//
//   engine [--frames N] [--rate HZ] [--limit-us N] [--own-threads 1]
//
// Compares screenshots with frames that the processor has drawn. --limit-us: fails if a ferry call on the main thread
// took longer, except for calls during which the system ran another thread. --own-threads: ferry moves bytes on its own
// threads instead of the job system's threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "jobs.h"
#include "renderer.h"

namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t pictures = 512;      // of tiles, in the file
constexpr std::uint64_t backdrop_frames = 4; // interval between new backdrops
constexpr std::size_t backdrop_texels = std::size_t{frame_size} * frame_size;

std::uint32_t texel(std::uint32_t picture, std::uint32_t index) {
    std::uint32_t mixed = picture * 2654435761U ^ index * 40503U;
    mixed ^= mixed >> 15;
    return mixed * 2246822519U;
}

// ---- What is streamed

// A file of pictures, mapped: pageable memory whose pages arrive when they are first touched.
class pack_file {
public:
    pack_file() {
        char name[] = "/tmp/ferry-engine-XXXXXX";
        file_ = mkstemp(name);
        if (file_ < 0) throw std::runtime_error("no temporary file");
        unlink(name);
        std::vector<std::uint32_t> picture(texels);
        for (std::uint32_t i = 0; i < pictures; ++i) {
            for (std::uint32_t j = 0; j < texels; ++j)
                picture[j] = texel(i, j);
            if (write(file_, picture.data(), tile_bytes) != ssize_t{tile_bytes})
                throw std::runtime_error("the temporary file has no room");
        }
        data_ = mmap(nullptr, pictures * tile_bytes, PROT_READ, MAP_SHARED, file_, 0);
        if (data_ == MAP_FAILED) throw std::runtime_error("the temporary file cannot be mapped");
    }
    ~pack_file() {
        munmap(data_, pictures * tile_bytes);
        close(file_);
    }
    pack_file(const pack_file &) = delete;
    pack_file &operator=(const pack_file &) = delete;
    const std::uint32_t *operator[](std::uint32_t picture) const {
        return static_cast<const std::uint32_t *>(data_) + std::size_t{picture} * texels;
    }

private:
    int file_ = -1;
    void *data_ = nullptr;
};

// A picture for a tile. Its bytes are in the file, or a job has unpacked them.
struct request {
    std::uint32_t tile = 0, picture = 0;
    const std::uint32_t *source = nullptr;
    std::vector<std::uint32_t> unpacked;
};

class loader {
public:
    loader(job_system &jobs, const pack_file &pack) : jobs_(jobs), pack_(pack) {}
    // Every second picture is unpacked, and the other pictures are read from the mapping.
    void ask_for(std::uint32_t tile, std::uint32_t picture) {
        ++asked_;
        if (picture % 2 == 0) return finish({tile, picture, pack_[picture], {}});
        jobs_.add_job([this, tile, picture] {
            request made = {tile, picture, nullptr,
                            std::vector<std::uint32_t>(pack_[picture], pack_[picture] + texels)};
            made.source = made.unpacked.data();
            finish(std::move(made));
        });
    }
    bool take(request &next) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (ready_.empty()) return false;
        next = std::move(ready_.front());
        ready_.pop_front();
        --asked_;
        return true;
    }
    std::size_t asked() const { return asked_; } // and not taken yet

private:
    void finish(request made) {
        const std::lock_guard<std::mutex> lock(mutex_);
        ready_.push_back(std::move(made));
    }
    job_system &jobs_;
    const pack_file &pack_;
    std::mutex mutex_;
    std::deque<request> ready_;
    std::size_t asked_ = 0; // used only by the main thread
};

struct piece_list {
    void clear() { all.clear(); }
    void add(const void *source, std::uint64_t destination, std::uint64_t size) {
        all.push_back({ferry::source(source), ferry::destination(destination), size});
    }
    void copy(const ferry::instance &ferry, const ferry::stream &stream) const {
        ferry::copy_pieces_async(ferry, all, stream).or_throw();
    }
    std::vector<ferry::piece> all;
};

// ---- The time that the main thread spends in ferry

enum step { waiting, constants, pieces, backdrop, signalling, whole_frame, steps };
constexpr const char *step_names[] = {"wait", "constants", "pieces", "backdrop", "signal", "frame"};

struct stopwatch {
    // Adds the time of call(). A call during which the system ran another thread is counted separately.
    template <class Call> void time(step of, const Call &call) {
        rusage before = {}, after = {};
        getrusage(RUSAGE_THREAD, &before);
        const auto begin = steady_clock::now();
        call();
        const double us = std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
        getrusage(RUSAGE_THREAD, &after);
        in_frame += us;
        if (after.ru_nivcsw != before.ru_nivcsw)
            ++taken_away;
        else
            calls[of].push_back(us);
    }
    void end_frame() { calls[whole_frame].push_back(std::exchange(in_frame, 0)); }
    double longest_call() const {
        double found = 0;
        for (int i = 0; i < whole_frame; ++i)
            for (const double us : calls[i])
                found = std::max(found, us);
        return found;
    }
    void print() {
        std::printf("ferry's calls, us: median, 99 %%, longest (%zu more lost the processor)\n", taken_away);
        for (int i = 0; i < steps; ++i) {
            std::vector<double> &all = calls[i];
            if (all.empty()) continue;
            std::sort(all.begin(), all.end());
            std::printf("  %-10s %7.1f %7.1f %7.1f\n", step_names[i], all[all.size() / 2], all[all.size() * 99 / 100],
                        all.back());
        }
    }

    double in_frame = 0;
    std::size_t taken_away = 0;
    std::vector<double> calls[steps];
};

// ---- What the processor draws

struct scene {
    static constexpr std::uint32_t none = UINT32_MAX;
    std::array<std::uint32_t, tiles> picture_of = {};
    std::uint64_t shift = 0; // distance by which the tiles have moved
    std::uint32_t tint = 0, backdrop = 0;

    std::uint32_t position_of(std::uint32_t tile) const { return static_cast<std::uint32_t>((tile + shift) % tiles); }
};

void lay_out(const scene &of, std::array<vertex, vertices> &corners) {
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        const std::uint32_t at = of.position_of(tile);
        const auto left = static_cast<std::int32_t>(at % tiles_per_row * tile_size);
        const auto top = static_cast<std::int32_t>(at / tiles_per_row * tile_size);
        for (int corner = 0; corner < 6; ++corner) {
            constexpr int right_of[] = {0, 1, 0, 0, 1, 1}, below[] = {0, 0, 1, 1, 0, 1};
            constexpr auto side = static_cast<std::int32_t>(tile_size);
            corners[6 * tile + static_cast<std::uint32_t>(corner)] = {
                2.0F * static_cast<float>(left + right_of[corner] * side) / frame_size - 1,
                2.0F * static_cast<float>(top + below[corner] * side) / frame_size - 1, left, top};
        }
    }
}

bool is_drawn(const scene &of, const std::uint32_t *pixels) {
    std::size_t wrong = 0;
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        const std::uint32_t at = of.position_of(tile);
        const std::uint32_t first = at / tiles_per_row * tile_size * frame_size + at % tiles_per_row * tile_size;
        for (std::uint32_t i = 0; i < texels; ++i) {
            const std::uint32_t pixel = first + i / tile_size * frame_size + i % tile_size;
            const std::uint32_t drawn = texel(of.picture_of[tile], i) ^ texel(of.backdrop, pixel) ^ of.tint;
            wrong += pixels[pixel] != (of.picture_of[tile] == scene::none ? 0 : drawn);
        }
    }
    if (wrong) std::fprintf(stderr, "%zu wrong pixels\n", wrong);
    return wrong == 0;
}

// ---- The loop

struct settings {
    std::uint64_t frames = 120;
    double rate = 0; // Hz; 0: as fast as they are drawn
    double limit_us = 0;
    bool own_threads = false;
};

class frame_loop {
public:
    explicit frame_loop(const settings &given)
        : given_(given), ferry_(open(jobs_, given.own_threads)), on_(ferry_), draws_(on_, ferry_),
          uploaded_(on_, ferry_), rendered_(on_, ferry_),
          stream_(ferry::stream::create(ferry_, on_.number, ferry::stream_flag::non_blocking).or_throw()),
          constants_(ferry::pinned_memory<std::uint32_t>::create(ferry_, 4 * frames_in_flight).or_throw()) {
        paint_backdrops();
    }

    int run() {
        bool is_right = true;
        begun_ = steady_clock::now();
        begin_level();
        for (frame_ = 1; frame_ <= given_.frames; ++frame_) {
            // The pace of the display. These frames have been drawn, so the memory that they used may be written.
            const std::uint64_t passed = frame_ > frames_in_flight ? frame_ - frames_in_flight : 0;
            rendered_.wait_on_host(passed);
            choose_content(passed);
            upload(passed);
            const bool with_screenshot = frame_ % 30 == 0 || frame_ == given_.frames;
            draws_.draw(frame_, shown_, uploaded_, rendered_, with_screenshot);
            if (with_screenshot) {
                rendered_.wait_on_host(frame_);
                is_right &= is_drawn(scene_, draws_.screenshot());
                ++screenshots_;
            }
            if (frame_ == given_.frames / 2) change_level();
            if (given_.rate > 0) sleep_until_frame();
        }
        finish_frames(given_.frames);
        end_level();
        return report(is_right);
    }

private:
    static ferry::instance open(job_system &jobs, bool own_threads) {
        ferry_options options = ferry::any_driver();
        options.staging = FERRY_STAGING_AT_OPEN; // the first copy must not load kernels after work on a waiting stream
        if (own_threads) return ferry::instance::open(options).or_throw();
        options.submit_user = &jobs;
        options.submit = [](void *self, void (*work)(void *), void *argument) -> std::int32_t {
            static_cast<job_system *>(self)->add_move([=] { work(argument); });
            return 1; // it will be called
        };
        return ferry::instance::open(options).or_throw();
    }

    // ---- Levels: here the main thread may block

    void begin_level() {
        for (std::size_t i = 0; i < tiles + frames_in_flight * tiles_per_frame; ++i) {
            textures_.push_back(std::make_unique<texture>(on_, nullptr, tile_size));
            draws_.make_set(*textures_.back(), VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL);
            free_.push_back({textures_.back().get(), 0});
        }
        for (std::unique_ptr<texture> &one : backdrops_) {
            one = std::make_unique<texture>(on_, &ferry_, frame_size);
            draws_.make_set(*one, VK_IMAGE_LAYOUT_GENERAL);
            draws_.make_general(*one);
        }
        shown_ = {}; // the next frames fill the tiles
        scene_.picture_of.fill(scene::none);
        warm_up();
    }
    // The first call of each kind allocates memory. The bytes are irrelevant.
    void warm_up() {
        pieces_.clear();
        for (std::uint32_t i = 0; i < tiles_per_frame; ++i)
            pieces_.add(pack_[i], draws_.upload_buffer_of(0).address() + i * tile_bytes, tile_bytes);
        pieces_.copy(ferry_, stream_);
        copy_backdrop(*backdrops_[0]);
        stream_.synchronize().or_throw();
    }
    void end_level() {
        for (const std::unique_ptr<texture> &one : textures_)
            draws_.free_set(*one);
        for (std::unique_ptr<texture> &one : backdrops_) {
            draws_.free_set(*one);
            one->end_import(stream_); // behind its last copy
            one.reset();              // Vulkan has drawn
        }
        free_.clear();
        textures_.clear();
        stream_.synchronize().or_throw(); // trim_deferred keeps objects that are still in use on a stream
        ferry_.trim_deferred().or_throw();
    }
    void change_level() {
        finish_frames(frame_);
        end_level();
        begin_level();
    }
    void finish_frames(std::uint64_t last) {
        rendered_.wait_on_host(last);
        stream_.synchronize().or_throw();
    }

    // ---- Frames: here the main thread must not block

    // Chooses the pictures of tiles that this frame gets, at most tiles_per_frame.
    void choose_content(std::uint64_t passed) {
        while (!sources_.empty() && sources_.front().frame <= passed)
            sources_.pop_front(); // drawn, so uploaded
        ask_for_more();
        shown_.uploads.clear();
        pieces_.clear();
        request next;
        while (shown_.uploads.size() < tiles_per_frame && free_.front().last_use <= passed && loads_.take(next)) {
            texture *const fresh = free_.front().unused;
            free_.pop_front();
            const std::size_t offset = vertex_bytes + shown_.uploads.size() * tile_bytes;
            shown_.uploads.push_back({fresh, offset});
            pieces_.add(next.source, draws_.upload_buffer_of(frame_).address() + offset, tile_bytes);
            if (texture *const old = std::exchange(shown_.tile_textures[next.tile], fresh))
                free_.push_back({old, frame_ - 1});
            scene_.picture_of[next.tile] = next.picture;
            sources_.push_back({frame_, std::move(next.unpacked)});
        }
        streamed_ += shown_.uploads.size();
        scene_.shift = frame_;
        scene_.tint = static_cast<std::uint32_t>(frame_) * 0x01030507U;
    }

    // All ferry calls of a frame.
    void upload(std::uint64_t passed) {
        auto &corners = corners_[frame_ % frames_in_flight];
        lay_out(scene_, corners);
        pieces_.add(corners.data(), draws_.upload_buffer_of(frame_).address(), vertex_bytes);
        std::uint32_t *const tint = constants_.view().pointer() + 4 * (frame_ % frames_in_flight);
        for (int channel = 0; channel < 4; ++channel)
            tint[channel] = scene_.tint >> 8 * channel & 255U;

        watch_.time(waiting, [&] { rendered_.make_wait(stream_, passed); });
        watch_.time(constants, [&] { // small, and not after copies of other streams
            ferry::copy_async(ferry_, ferry::host_view<std::uint32_t>(tint, 4), draws_.constants_of(frame_), stream_,
                              ferry::copy_priority::urgent)
                .or_throw();
        });
        watch_.time(pieces, [&] { pieces_.copy(ferry_, stream_); });
        if (frame_ % backdrop_frames == 1 || !shown_.backdrop) {
            shown_.backdrop = backdrops_[++backdrop_ % backdrops_.size()].get();
            watch_.time(backdrop, [&] { copy_backdrop(*shown_.backdrop); });
        }
        watch_.time(signalling, [&] { uploaded_.make_signal(stream_, frame_); });
        watch_.end_frame();
    }
    // One copy, from pageable memory directly into the image.
    void copy_backdrop(const texture &to) {
        const std::vector<std::uint32_t> &from = backdrop_pixels_[backdrop_ % backdrop_pixels_.size()];
        scene_.backdrop = backdrop_id(backdrop_);
        ferry_place source;
        ferry_place_host(&source, from.data());
        ferry_copy_desc copy;
        ferry_copy_desc_set(&copy, &to.place(), &source, frame_size * sizeof(std::uint32_t), frame_size, 1);
        ferry::copy_async(ferry_, copy, stream_).or_throw();
    }
    std::uint32_t backdrop_id(std::size_t number) const {
        return static_cast<std::uint32_t>(pictures + number % backdrop_pixels_.size());
    }
    void paint_backdrops() {
        for (std::size_t i = 0; i < backdrop_pixels_.size(); ++i)
            for (std::size_t j = 0; j < backdrop_texels; ++j)
                backdrop_pixels_[i].push_back(texel(backdrop_id(i), static_cast<std::uint32_t>(j)));
    }
    void ask_for_more() {
        while (loads_.asked() < tiles_per_frame) {
            loads_.ask_for(next_tile_, next_picture_ % pictures);
            next_tile_ = (next_tile_ + 7) % tiles;
            ++next_picture_;
        }
    }
    void sleep_until_frame() {
        const auto period = std::chrono::duration<double>(1 / given_.rate);
        std::this_thread::sleep_until(
            begun_ + std::chrono::duration_cast<steady_clock::duration>(period * static_cast<double>(frame_)));
    }

    int report(bool is_right) {
        const double seconds = std::chrono::duration<double>(steady_clock::now() - begun_).count();
        std::printf("%llu frames in %.2f s, %zu textures streamed, %.1f MB; %u screenshots: %s\n",
                    static_cast<unsigned long long>(given_.frames), seconds, streamed_,
                    static_cast<double>(streamed_ * tile_bytes) * 1e-6, screenshots_, is_right ? "right" : "WRONG");
        watch_.print();
        const bool is_late = given_.limit_us > 0 && watch_.longest_call() > given_.limit_us;
        if (is_late) std::fprintf(stderr, "a call took longer than %.0f us\n", given_.limit_us);
        return is_right && !is_late ? 0 : 1;
    }

    struct unused_texture {
        texture *unused;
        std::uint64_t last_use; // the last frame that draws it
    };
    struct kept_source {
        std::uint64_t frame; // the frame whose copies read it
        std::vector<std::uint32_t> bytes;
    };

    const settings given_;
    job_system jobs_{2}; // outlives the instance
    pack_file pack_;
    ferry::instance ferry_;
    vulkan_device on_;
    renderer draws_;
    shared_timeline uploaded_, rendered_; // their values are numbers of frames
    ferry::stream stream_;
    ferry::pinned_memory<std::uint32_t> constants_;
    std::array<vertex, vertices> corners_[frames_in_flight] = {};
    std::vector<std::unique_ptr<texture>> textures_;
    std::deque<unused_texture> free_;
    // While a frame in flight draws one backdrop, ferry writes another.
    std::array<std::unique_ptr<texture>, frames_in_flight> backdrops_;
    std::array<std::vector<std::uint32_t>, 3> backdrop_pixels_;
    std::size_t backdrop_ = 0; // index of the last backdrop shown
    std::deque<kept_source> sources_;
    loader loads_{jobs_, pack_};
    piece_list pieces_;
    picture shown_;
    scene scene_;
    stopwatch watch_;
    std::uint64_t frame_ = 0;
    std::uint32_t next_tile_ = 0, next_picture_ = 0;
    std::size_t streamed_ = 0;
    unsigned screenshots_ = 0;
    steady_clock::time_point begun_;
};

} // namespace

int main(int count, char **arguments) {
    settings given;
    for (int i = 1; i < count; i += 2) {
        const std::string name = arguments[i];
        const double value = i + 1 < count ? std::atof(arguments[i + 1]) : 0;
        if (name == "--frames" && value >= 1)
            given.frames = static_cast<std::uint64_t>(value);
        else if (name == "--rate" && value > 0)
            given.rate = value;
        else if (name == "--limit-us" && value > 0)
            given.limit_us = value;
        else if (name == "--own-threads" && value == 1)
            given.own_threads = true;
        else {
            std::fputs("engine [--frames N] [--rate HZ] [--limit-us N] [--own-threads 1]\n", stderr);
            return 2;
        }
    }
    try {
        const auto loop = std::make_unique<frame_loop>(given);
        return loop->run();
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
