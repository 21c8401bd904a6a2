#include "calibrate/calibrate.h"

#include <algorithm>
#include <cstddef>

#include "calibrate/array_rates.h"
#include "calibrate/copy_rates.h"
#include "calibrate/piece_rates.h"
#include "calibrate/staged_rates.h"
#include "device/capture_mode.h"

namespace ferry {

namespace {

error measure_direction(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    if (error failed = measure_driver_lines(work, direction, profile)) return failed;
    if (error failed = measure_calls(work, direction, profile)) return failed;
    if (work.has_kernels)
        if (error failed = measure_kernel_lines(work, direction, profile)) return failed;
    if (error failed = measure_batches(work, direction, profile)) return failed;
    if (error failed = measure_rows(work, direction, profile)) return failed;
    return work.has_kernels ? measure_kernel_pieces(work, direction, profile) : ok;
}

// Without threads or memory for staging, the staging numbers stay unchanged.
error measure_staging(const calibration_workspace &work, device_profile &profile) noexcept {
    const calibration_options &options = work.options;
    if (options.staging->prepare(options.device)) return {};
    const staging_ground ground = {.engine = *options.staging,
                                   .device = options.device,
                                   .context = options.context,
                                   .stream = work.stream,
                                   .on_device = work.device[0],
                                   .pageable = static_cast<std::byte *>(work.pageable),
                                   .pinned = static_cast<std::byte *>(work.pinned),
                                   .size = std::min({work.pageable_bytes, work.host_bytes, work.device_bytes})};
    return calibrate_staging(work.cu, ground, profile);
}

error measure_all(calibration_workspace &work, device_profile &profile) noexcept {
    work.has_kernels = work.options.kernels && !work.options.kernels->load();
    if (error failed = work.prepare()) return failed;
    const int routes = work.has_kernels ? 2 : 1;
    const int rates = 3 * gap_sides * width_classes * routes + 3 * (2 + (routes - 1) * 16) + 4;
    work.watch.start(work.stream, work.options.budget_ns, rates);
    for (const copy_direction direction :
         {copy_direction::host_to_device, copy_direction::device_to_host, copy_direction::within_device})
        if (error failed = measure_direction(work, direction, profile)) return failed;
    if (error failed = measure_many_rows(work, profile)) return failed;
    if (error failed = measure_arrays(work, profile)) return failed;
    return work.has_kernels && work.options.staging ? measure_staging(work, profile) : ok;
}

} // namespace

error calibrate(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept {
    const relaxed_capture_mode relaxed(cu); // calibration allocates, which a capture of another thread forbids
    if (!relaxed.entered()) return relaxed.why();
    device_profile found = profile;
    error failed;
    {
        calibration_workspace work(cu, options);
        failed = measure_all(work, found);
    }
    if (!failed) profile = found;
    return failed;
}

} // namespace ferry
