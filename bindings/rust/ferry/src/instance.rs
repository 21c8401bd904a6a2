//! An opened instance of ferry, and what it does without a stream.

use crate::error::{check, filled, wait_for_end};
use crate::info::{DeviceInfo, Explanation};
use crate::options::{raw, send_line};
use crate::view::{CopyDesc, Element, Pieces, View, ViewMut};
use crate::{sys, CopyOptions, Error, LogLine, Options, Result, Scope};
use std::ptr::{null_mut, NonNull};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};

/// An instance of ferry. Clones are the same instance. Every object keeps its instance open: it closes once the last
/// clone and the last object are gone, in any order.
#[derive(Clone)]
pub struct Ferry(Arc<Instance>);

struct Instance {
    handle: NonNull<sys::ferry_instance>,
    _log: Option<Arc<Mutex<Sender<LogLine>>>>, // the callback's, until ferry_close has returned
}

// SAFETY: any number of threads may call ferry on one instance. Drop has the last reference.
unsafe impl Send for Instance {}
unsafe impl Sync for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: objects hold the instance, so all of them are gone and no call is running.
        unsafe { sys::ferry_close(self.handle.as_ptr()) };
        lock(&OPEN).1 -= 1;
    }
}

/// The driver of the open instances, and their number. Every instance on a driver takes that driver's handles, but the
/// handles of another driver would crash it. So all open instances are on one driver.
static OPEN: Mutex<(sys::Driver, usize)> = Mutex::new((sys::FERRY_DRIVER_CUDA, 0));

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Ferry {
    /// Opens an instance. While instances on the NVIDIA driver are open, one on the software driver is refused with
    /// `FERRY_ERROR_UNSUPPORTED`, and the reverse: their objects must not be mixed.
    pub fn open(options: Options) -> Result<Ferry> {
        let Options { raw: mut given, copy, software, log } = options;
        if copy.is_some() {
            given.copy_options = raw(copy.as_ref());
        }
        given.driver_options = (&software as *const sys::ferry_software_options).cast();
        if let Some(lines) = &log {
            given.log = Some(send_line);
            given.log_user = &**lines as *const Mutex<Sender<LogLine>> as *mut std::ffi::c_void;
        }
        let mut handle = null_mut();
        // SAFETY: the callback's data lives as long as the instance, and the structs until the call has returned.
        check(|error| unsafe { sys::ferry_open(&given, &mut handle, error) })?;
        let handle = NonNull::new(handle).expect("an open instance has a handle");
        let mut open = lock(&OPEN);
        // SAFETY: the struct has its size.
        let report: Result<sys::ferry_report> =
            filled(|report, error| unsafe { sys::ferry_instance_get_report(handle.as_ptr(), report, error) });
        let driver = report.as_ref().map_or(open.0, |report| report.driver);
        if report.is_err() || open.1 > 0 && open.0 != driver {
            // SAFETY: nothing was made through the instance.
            unsafe { sys::ferry_close(handle.as_ptr()) };
            report?;
            let (side, field) = (sys::FERRY_SIDE_OPTIONS, sys::FERRY_FIELD_DRIVER);
            return Err(Error::refusal(sys::FERRY_ERROR_UNSUPPORTED, side, field, driver.0 as u64, open.0 .0 as u64));
        }
        *open = (driver, open.1 + 1);
        Ok(Ferry(Arc::new(Instance { handle, _log: log })))
    }

    /// The handle, for `ferry_sys`. It is valid while this instance is open, and must not be closed.
    pub fn as_raw(&self) -> *mut sys::ferry_instance {
        self.0.handle.as_ptr()
    }

    /// Copies, and returns when the copy is complete. [`Ferry::run`] takes options.
    pub fn copy<'a, T: Element>(
        &self,
        source: impl Into<View<'a, T>>,
        destination: impl Into<ViewMut<'a, T>>,
    ) -> Result<()> {
        self.run(&CopyDesc::new(source, destination)?, None)
    }

    /// Makes a described copy, and returns when it is complete.
    pub fn run(&self, copy: &CopyDesc<'_>, options: Option<&CopyOptions>) -> Result<()> {
        // SAFETY: the copy borrows its memory, and is complete when the call returns.
        let result = check(|error| unsafe { sys::ferry_copy(self.as_raw(), &copy.raw, raw(options), error) });
        self.settled(result, &copy.devices())
    }

    /// Makes copies in any order, and returns when all are complete.
    pub fn copy_batch(&self, copies: &[CopyDesc<'_>], options: Option<&CopyOptions>) -> Result<()> {
        let (first, count) = (copies.as_ptr().cast(), copies.len() as u64);
        // SAFETY: a CopyDesc is a ferry_copy_desc; else as in run().
        let result = check(|error| unsafe { sys::ferry_copy_batch(self.as_raw(), first, count, raw(options), error) });
        self.settled(result, &devices_of(copies))
    }

    /// Copies pieces in any order, and returns when all are complete.
    pub fn copy_pieces(&self, pieces: &Pieces<'_>, options: Option<&CopyOptions>) -> Result<()> {
        let (list, options) = (pieces.list(), raw(options));
        // SAFETY: as in run().
        let result = check(|error| unsafe { sys::ferry_copy_pieces(self.as_raw(), &list, options, error) });
        self.settled(result, &pieces.devices)
    }

    /// Repeats a value of 1, 2, 4, 8 or 16 bytes over device or pinned memory.
    pub fn fill<'a, T: Element>(
        &self,
        destination: impl Into<ViewMut<'a, T>>,
        value: T,
        options: Option<&CopyOptions>,
    ) -> Result<()> {
        let fill = describe_fill(&destination.into(), &value);
        // SAFETY: the fill is complete when the call returns.
        let result = check(|error| unsafe { sys::ferry_fill(self.as_raw(), &fill, raw(options), error) });
        self.settled(result, &[fill.destination.device])
    }

    /// What [`Ferry::run`] would do.
    pub fn explain(&self, copy: &CopyDesc<'_>, options: Option<&CopyOptions>) -> Result<Explanation> {
        let mut explained = sys::ferry_explanation::default();
        // SAFETY: nothing is copied.
        check(|error| unsafe {
            sys::ferry_copy_explain(self.as_raw(), &copy.raw, raw(options), &mut explained, error)
        })?;
        Ok(Explanation(explained))
    }

    /// What [`Ferry::fill`] would do.
    pub fn explain_fill<'a, T: Element>(
        &self,
        destination: impl Into<ViewMut<'a, T>>,
        value: T,
        options: Option<&CopyOptions>,
    ) -> Result<Explanation> {
        let (fill, mut explained) = (describe_fill(&destination.into(), &value), sys::ferry_explanation::default());
        // SAFETY: nothing is filled.
        check(|error| unsafe { sys::ferry_fill_explain(self.as_raw(), &fill, raw(options), &mut explained, error) })?;
        Ok(Explanation(explained))
    }

    /// Runs `enqueue`, waits for all streams that it used through the scope, and returns its result, or the error of
    /// the work. Also waits if `enqueue` fails or panics. Until then everything that was given to the scope stays
    /// borrowed.
    pub fn scope<'env, R>(
        &'env self,
        enqueue: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        Scope::run(self, enqueue)
    }

    /// Waits for all work of the context that ferry uses for a device.
    pub fn synchronize(&self, device: i32) -> Result<()> {
        // SAFETY: no memory is passed.
        check(|error| unsafe { sys::ferry_context_synchronize(self.as_raw(), device, null_mut(), error) })
    }

    /// What [`Ferry::open`] found.
    pub fn report(&self) -> Result<sys::ferry_report> {
        // SAFETY: the struct has its size.
        filled(|report, error| unsafe { sys::ferry_instance_get_report(self.as_raw(), report, error) })
    }

    /// The optional entry points that the driver lacks.
    pub fn missing_entry_points(&self) -> Vec<&'static str> {
        // SAFETY: the call returns NULL or a static string.
        let name = |index| unsafe {
            let name = sys::ferry_instance_get_missing_entry_point(self.as_raw(), index);
            (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name).to_str().unwrap_or(""))
        };
        (0..).map_while(name).collect()
    }

    /// The facts of a device.
    pub fn device(&self, device: i32) -> Result<DeviceInfo> {
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_device_get_info(self.as_raw(), device, info, error) }).map(DeviceInfo)
    }

    /// The number of the device with a UUID.
    pub fn find_device(&self, uuid: &[u8; 16]) -> Result<i32> {
        let mut device = sys::FERRY_DEVICE_UNKNOWN;
        // SAFETY: the UUID has 16 bytes; there is no LUID.
        check(|error| unsafe {
            sys::ferry_device_find(self.as_raw(), uuid.as_ptr(), std::ptr::null(), &mut device, error)
        })?;
        Ok(device)
    }

    /// What the driver knows about the memory at an address.
    pub fn address_info(&self, address: u64) -> Result<sys::ferry_address_info> {
        // SAFETY: the address is looked up, not read.
        filled(|info, error| unsafe { sys::ferry_address_get_info(self.as_raw(), address, info, error) })
    }

    /// The access of `device` to the memory of `peer`.
    pub fn peer_info(&self, device: i32, peer: i32) -> Result<sys::ferry_peer_info> {
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_peer_get_info(self.as_raw(), device, peer, info, error) })
    }

    /// Sends data between two devices to test their access.
    pub fn probe_peer(&self, device: i32, peer: i32) -> Result<()> {
        // SAFETY: takes only numbers.
        check(|error| unsafe { sys::ferry_peer_probe(self.as_raw(), device, peer, error) })
    }

    /// Gives `device` access to the memory of `peer`.
    pub fn enable_peer(&self, device: i32, peer: i32) -> Result<()> {
        // SAFETY: takes only numbers.
        check(|error| unsafe { sys::ferry_peer_enable(self.as_raw(), device, peer, error) })
    }

    /// Removes the access of `device` to the memory of `peer`.
    pub fn disable_peer(&self, device: i32, peer: i32) -> Result<()> {
        // SAFETY: takes only numbers.
        check(|error| unsafe { sys::ferry_peer_disable(self.as_raw(), device, peer, error) })
    }

    /// Measures the copies between two devices.
    pub fn calibrate_peer(&self, device: i32, peer: i32) -> Result<()> {
        // SAFETY: takes only numbers.
        check(|error| unsafe { sys::ferry_peer_calibrate(self.as_raw(), device, peer, error) })
    }

    /// Measures a device. ferry plans with the result.
    pub fn calibrate(&self, device: i32) -> Result<()> {
        // SAFETY: takes only a number.
        check(|error| unsafe { sys::ferry_device_calibrate(self.as_raw(), device, error) })
    }

    /// The profile of a device as text.
    pub fn save_profile(&self, device: i32) -> Result<String> {
        let mut text = vec![0u8; 64 << 10];
        let mut needed = 0;
        loop {
            let (buffer, size) = (text.as_mut_ptr().cast(), text.len() as u64);
            // SAFETY: the call writes at most `size` bytes.
            let result = check(|error| unsafe {
                sys::ferry_profile_save(self.as_raw(), device, buffer, size, &mut needed, error)
            });
            if needed <= size {
                result?;
                text.truncate((needed as usize).saturating_sub(1)); // without the ending zero
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            text.resize(needed as usize, 0);
        }
    }

    /// Loads a profile for the devices that it fits.
    pub fn load_profile(&self, text: &str) -> Result<()> {
        let (first, size) = (text.as_ptr().cast(), text.len() as u64);
        // SAFETY: the text is read before return.
        check(|error| unsafe { sys::ferry_profile_load(self.as_raw(), first, size, error) })
    }

    /// The threads and buffers of staged copies, and the number of copies in flight.
    pub fn staging_info(&self) -> Result<sys::ferry_staging_info> {
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_staging_get_info(self.as_raw(), info, error) })
    }

    /// The memory and the threads that the instance uses for itself.
    pub fn usage(&self) -> Result<sys::ferry_usage> {
        // SAFETY: the struct has its size.
        filled(|usage, error| unsafe { sys::ferry_instance_get_usage(self.as_raw(), usage, error) })
    }

    /// What each route has copied on a device.
    pub fn device_counters(&self, device: i32) -> Result<sys::ferry_device_counters> {
        // SAFETY: the struct has its size.
        filled(|counters, error| unsafe { sys::ferry_device_get_counters(self.as_raw(), device, counters, error) })
    }

    /// Creates what the first staged copy of a device would wait for.
    pub fn prepare_staging(&self, device: i32) -> Result<()> {
        // SAFETY: takes only a number.
        check(|error| unsafe { sys::ferry_staging_prepare(self.as_raw(), device, error) })
    }

    /// Releases staging buffers that no copy needs.
    pub fn trim_staging(&self) -> Result<()> {
        // SAFETY: buffers that a copy needs stay.
        check(|error| unsafe { sys::ferry_staging_trim(self.as_raw(), error) })
    }

    /// What deferred frees keep on a device; `None`: on all devices and in the host's memory.
    pub fn deferred_info(&self, device: Option<i32>) -> Result<sys::ferry_deferred_info> {
        let device = device.unwrap_or(sys::FERRY_DEVICE_UNKNOWN);
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_deferred_get_info(self.as_raw(), device, info, error) })
    }

    /// Returns what deferred frees keep to the driver, until at most `keep` bytes are left.
    pub fn trim_deferred(&self, device: Option<i32>, keep: u64) -> Result<()> {
        let device = device.unwrap_or(sys::FERRY_DEVICE_UNKNOWN);
        // SAFETY: memory that its stream has not passed stays.
        check(|error| unsafe { sys::ferry_deferred_trim(self.as_raw(), device, keep, error) })
    }

    /// Passes on the result of a copy. If the driver or a limit ended it, parts of it may be in flight on any stream
    /// of its devices: they are waited for, because the memory's borrow ends.
    pub(crate) fn settled(&self, result: Result<()>, devices: &[i32]) -> Result<()> {
        if matches!(&result, Err(error) if may_be_in_flight(error)) {
            self.wait_for_devices(devices);
            self.wait_for_threads(&result);
        }
        result
    }

    /// Waits until ferry's threads have left the program's memory, where they may be for the rest of a chunk after the
    /// context of a copy has died.
    pub(crate) fn wait_for_threads(&self, result: &Result<()>) {
        let has_died = matches!(result, Err(error) if error.context_is_dead());
        while has_died && matches!(self.staging_info(), Ok(info) if info.busy_threads > 0) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    fn wait_for_devices(&self, devices: &[i32]) {
        let mut context = null_mut();
        // SAFETY: the current context, if any, is valid.
        unsafe {
            sys::ferry_context_get_current(self.as_raw(), &mut context, null_mut());
            if !context.is_null() {
                let _ = wait_for_end(|error| sys::ferry_context_synchronize(self.as_raw(), 0, context, error));
            }
        }
        // A copy without a device runs on device 0. Devices that do not exist take no work.
        let is_named = devices.iter().any(|device| *device >= 0);
        let unnamed = if is_named { None } else { Some(0) };
        for device in devices.iter().copied().filter(|device| *device >= 0).chain(unnamed) {
            let _ = self.synchronize(device);
        }
    }
}

/// Whether a call that failed may have enqueued a part of its work: ferry's own checks come before that.
pub(crate) fn may_be_in_flight(error: &Error) -> bool {
    error.status().0 <= sys::FERRY_STATUS_DRIVER_BASE
        || [sys::FERRY_ERROR_LIMIT, sys::FERRY_ERROR_OUT_OF_MEMORY].contains(&error.status())
}

/// The devices of copies, each once.
pub(crate) fn devices_of(copies: &[CopyDesc<'_>]) -> Vec<i32> {
    let mut devices: Vec<i32> = copies.iter().flat_map(|copy| copy.devices()).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

pub(crate) fn describe_fill<T: Element>(destination: &ViewMut<'_, T>, value: &T) -> sys::ferry_fill_desc {
    let mut fill = sys::ferry_fill_desc::default();
    let [width, height, depth] = destination.shape.extent();
    let place = destination.shape.place();
    let pattern = (value as *const T).cast();
    let size = u32::try_from(std::mem::size_of::<T>()).unwrap_or(u32::MAX);
    // SAFETY: the call reads `size` bytes of the value, at most 16. Larger ones are refused later.
    unsafe { sys::ferry_fill_desc_init(&mut fill, &place, width, height, depth, pattern, size) };
    fill
}

/// The version of the loaded library: major * 10000 + minor * 100 + patch.
pub fn version() -> i32 {
    // SAFETY: takes nothing.
    unsafe { sys::ferry_version() }
}

/// What an obstacle of an explanation means.
pub fn obstacle_text(obstacle: sys::Obstacle) -> &'static str {
    // SAFETY: the call returns a static string for every number.
    unsafe { std::ffi::CStr::from_ptr(sys::ferry_obstacle_text(obstacle)) }.to_str().unwrap_or("")
}
