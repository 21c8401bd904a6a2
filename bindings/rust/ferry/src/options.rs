//! How to open ferry.

use crate::sys::{self, CopyFlags, Kernels, LogLevel, Priority, Route, SourceOrder, Staging};
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

/// Which driver an instance uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The NVIDIA driver, or an error.
    Cuda,
    /// The NVIDIA driver if it has a usable device, else the software driver.
    Auto,
    /// The software driver, which needs no GPU.
    Software,
}

/// How a copy, a batch or a fill is made. The methods return the changed options.
///
/// Calls take an `Option<&CopyOptions>`. `None` means the options of [`Options::copy_options`]. All options of a call
/// replace the options of the instance.
///
/// ```
/// # use ferry::*;
/// # fn copy(ferry: &Ferry, copy: &CopyDesc<'_>) -> Result<()> {
/// let urgent = CopyOptions::new().priority(sys::FERRY_PRIORITY_URGENT).tag(7);
/// ferry.run(copy, Some(&urgent))
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    pub(crate) raw: sys::ferry_copy_options,
}

impl CopyOptions {
    /// The ordinary choice for every option.
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    /// Forces a route.
    pub fn route(mut self, route: Route) -> CopyOptions {
        self.raw.route = route;
        self
    }

    /// How urgent the copy is.
    pub fn priority(mut self, priority: Priority) -> CopyOptions {
        self.raw.priority = priority;
        self
    }

    /// When an asynchronous call may read a pageable source.
    pub fn source_order(mut self, order: SourceOrder) -> CopyOptions {
        self.raw.source_order = order;
        self
    }

    /// `FERRY_COPY_*`.
    pub fn flags(mut self, flags: CopyFlags) -> CopyOptions {
        self.raw.flags = flags;
        self
    }

    /// The maximum number of SMs that a kernel may use; 0: as many as are useful.
    pub fn max_sms(mut self, count: u32) -> CopyOptions {
        self.raw.max_sms = count;
        self
    }

    /// A number of the program's choice, which tickets and traces return.
    pub fn tag(mut self, tag: u64) -> CopyOptions {
        self.raw.tag = tag;
        self
    }
}

/// The parameter of a call. It is valid as long as the options.
pub(crate) fn raw(options: Option<&CopyOptions>) -> *const sys::ferry_copy_options {
    options.map_or(std::ptr::null(), |options| &options.raw)
}

/// A line of ferry's log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// `FERRY_LOG_*`.
    pub level: LogLevel,
    /// The line, without its end.
    pub text: String,
}

/// How to open an instance. The methods return the changed options.
///
/// Options without a method are fields of `sys::ferry_options`: see [`Options::with_raw`].
pub struct Options {
    pub(crate) raw: sys::ferry_options,
    pub(crate) copy: Option<CopyOptions>,
    pub(crate) software: sys::ferry_software_options,
    pub(crate) log: Option<Arc<Mutex<Sender<LogLine>>>>,
}

impl Options {
    /// The defaults for a driver.
    pub fn new(driver: Driver) -> Options {
        let driver = match driver {
            Driver::Cuda => sys::FERRY_DRIVER_CUDA,
            Driver::Auto => sys::FERRY_DRIVER_AUTO,
            Driver::Software => sys::FERRY_DRIVER_SOFTWARE,
        };
        let raw = sys::ferry_options { driver, ..Default::default() };
        Options { raw, copy: None, software: Default::default(), log: None }
    }

    /// Also checks each address of a copy, not only its arithmetic.
    pub fn full_checks(mut self) -> Options {
        self.raw.checks = sys::FERRY_CHECKS_FULL;
        self
    }

    /// The options of every call that has none.
    pub fn copy_options(mut self, options: CopyOptions) -> Options {
        self.copy = Some(options);
        self
    }

    /// `FERRY_KERNELS_*`: when ferry's kernels are loaded.
    pub fn kernels(mut self, when: Kernels) -> Options {
        self.raw.kernels = when;
        self
    }

    /// `FERRY_STAGING_*`: when threads and staging buffers for pageable memory are made.
    pub fn staging(mut self, when: Staging) -> Options {
        self.raw.staging = when;
        self
    }

    /// The maximum that deferred frees keep on each device, in bytes; 0: a sixteenth of the device's memory.
    pub fn deferred_bytes(mut self, bytes: u64) -> Options {
        self.raw.deferred_bytes = bytes;
        self
    }

    /// The maximum that the instance uses for itself: pinned memory and memory on each device, in bytes, and threads. 0:
    /// no limit.
    pub fn budgets(mut self, pinned_bytes: u64, device_bytes: u64, threads: u32) -> Options {
        self.raw.max_pinned_bytes = pinned_bytes;
        self.raw.max_device_bytes = device_bytes;
        self.raw.max_threads = threads;
        self
    }

    /// The number of devices of the software driver, and the bytes of memory of each; 0: the default.
    pub fn software(mut self, devices: u32, memory: u64) -> Options {
        self.software.devices = devices;
        self.software.memory = memory;
        self
    }

    /// Sends ferry's log to a channel. A callback could call ferry, which ferry's rules forbid.
    pub fn log(mut self, lines: Sender<LogLine>) -> Options {
        self.log = Some(Arc::new(Mutex::new(lines)));
        self
    }

    /// Changes any field. `driver_options` is set later, from [`Options::software`], and `copy_options` from
    /// [`Options::copy_options`].
    ///
    /// # Safety
    /// Callbacks and the list of processors must keep to the rules of `ferry_options`, until the last object of the
    /// instance is gone.
    pub unsafe fn with_raw(mut self, change: impl FnOnce(&mut sys::ferry_options)) -> Options {
        change(&mut self.raw);
        self
    }
}

/// The callback of ferry's log. `user` is the sender of [`Options::log`].
pub(crate) unsafe extern "C" fn send_line(user: *mut c_void, level: LogLevel, message: *const c_char) {
    // SAFETY: the instance owns the sender until ferry_close has returned; the message ends with zero.
    let (lines, text) = unsafe { (&*user.cast::<Mutex<Sender<LogLine>>>(), CStr::from_ptr(message)) };
    let line = LogLine { level, text: text.to_string_lossy().into_owned() };
    let lines = lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _ = lines.send(line); // the receiver may be gone: the line is then lost
}
