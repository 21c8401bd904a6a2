//! The errors of calls.

use crate::sys::{self, Field, Item, Numbers, Side, Status};
use std::ffi::CStr;
use std::fmt;

/// What went wrong, and where: ferry's own details of an error.
#[derive(Clone, Copy)]
pub struct Error(pub(crate) sys::ferry_error_info);

// SAFETY: the only pointer is the name of a driver function, which is constant and static.
unsafe impl Send for Error {}
// SAFETY: as above.
unsafe impl Sync for Error {}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn from_status(status: Status) -> Error {
        Error(sys::ferry_error_info { status, ..Default::default() })
    }

    /// An error that this crate finds before it calls ferry.
    pub(crate) fn refusal(status: Status, side: Side, field: Field, value: u64, limit: u64) -> Error {
        let numbers = if (value, limit) == (0, 0) {
            sys::FERRY_NUMBERS_NONE
        } else if status == sys::FERRY_ERROR_OUT_OF_BOUNDS {
            sys::FERRY_NUMBERS_END // of an empty view, the limit is 0
        } else if limit == 0 {
            sys::FERRY_NUMBERS_VALUE
        } else if status == sys::FERRY_ERROR_ARRAY_FORMAT {
            sys::FERRY_NUMBERS_ELEMENT
        } else if value < limit {
            sys::FERRY_NUMBERS_AT_LEAST
        } else {
            sys::FERRY_NUMBERS_AT_MOST
        };
        Error(sys::ferry_error_info { status, side, field, value, limit, numbers, ..Default::default() })
    }

    /// `FERRY_ERROR_*`, or -1000 - r for the driver's `CUresult` r.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// `FERRY_SIDE_*`: the end of the copy, its extent, or the options.
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// `FERRY_FIELD_*`.
    pub fn field(&self) -> Field {
        self.0.field
    }

    /// `FERRY_ITEM_*`: what `index` counts.
    pub fn item(&self) -> Item {
        self.0.item
    }

    /// The number of the copy or piece in its batch, or of another item.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// The value that was refused, in the field's unit.
    pub fn value(&self) -> u64 {
        self.0.value
    }

    /// The bound that `value` missed.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// `FERRY_NUMBERS_*`: what `value` and `limit` are.
    pub fn numbers(&self) -> Numbers {
        self.0.numbers
    }

    /// Of `FERRY_ERROR_FILE`: the system's error number, or `FERRY_FILE_ENDED`. `limit` is then the offset of the first
    /// byte that was not transferred.
    pub fn file_error(&self) -> Option<i32> {
        (self.status() == sys::FERRY_ERROR_FILE).then(|| self.value() as i32)
    }

    /// The driver function that failed, such as `cuMemAlloc`.
    pub fn driver_function(&self) -> Option<&'static str> {
        let name = self.0.driver_function;
        if name.is_null() {
            return None;
        }
        // SAFETY: a static string that ends with zero.
        unsafe { CStr::from_ptr(name) }.to_str().ok()
    }

    /// The status's name, such as `FERRY_ERROR_PITCH`.
    pub fn name(&self) -> &'static str {
        // SAFETY: the call returns a static string that ends with zero, for every status.
        unsafe { CStr::from_ptr(sys::ferry_status_name(self.status())) }.to_str().unwrap_or("")
    }

    /// The status's meaning in a few words.
    pub fn text(&self) -> &'static str {
        // SAFETY: as in name().
        unsafe { CStr::from_ptr(sys::ferry_status_text(self.status())) }.to_str().unwrap_or("")
    }

    /// Whether every later call on the context will fail too.
    pub fn context_is_dead(&self) -> bool {
        context_is_dead(self.status())
    }

    /// Whether the same call may succeed later.
    pub fn can_retry(&self) -> bool {
        // SAFETY: takes any number.
        unsafe { sys::ferry_status_traits(self.status()).contains(sys::FERRY_STATUS_RETRY) }
    }
}

pub(crate) fn context_is_dead(status: Status) -> bool {
    // SAFETY: takes any number.
    unsafe { sys::ferry_status_traits(status).contains(sys::FERRY_STATUS_CONTEXT_DEAD) }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the call writes at most `size` bytes.
        write_line(formatter, |buffer, size| unsafe { sys::ferry_error_format(&self.0, buffer, size) })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Error {}

/// Writes the line of a `ferry_*_format` function, which returns the line's length.
pub(crate) fn write_line(
    formatter: &mut fmt::Formatter<'_>,
    format: impl Fn(*mut std::os::raw::c_char, u64) -> u64,
) -> fmt::Result {
    let length = format(std::ptr::null_mut(), 0) as usize;
    let mut line = vec![0u8; length + 1];
    format(line.as_mut_ptr().cast(), line.len() as u64);
    formatter.write_str(&String::from_utf8_lossy(&line[..length]))
}

/// A transfer that failed, with the buffer that was given to it. Nothing uses the buffer any more.
pub struct Failed<B> {
    /// Why.
    pub error: Error,
    /// The buffer, for another try.
    pub buffer: B,
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Error {
        failed.error
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, formatter)
    }
}

/// The result of a call, with the details of its error.
pub(crate) fn check(call: impl FnOnce(*mut sys::ferry_error_info) -> Status) -> Result<()> {
    let mut info = sys::ferry_error_info::default();
    if call(&mut info) == sys::FERRY_SUCCESS {
        return Ok(());
    }
    Err(Error(info))
}

/// A struct that a call fills.
pub(crate) fn filled<T: Default>(call: impl FnOnce(*mut T, *mut sys::ferry_error_info) -> Status) -> Result<T> {
    let mut value = T::default();
    check(|error| call(&mut value, error))?;
    Ok(value)
}

/// Calls `wait` until it shows that the work has ended, and returns its first error. Memory that was lent to the work
/// must not go back to the program before that. If ferry cannot determine this, the process ends.
pub(crate) fn wait_for_end(wait: impl Fn(*mut sys::ferry_error_info) -> Status) -> Result<()> {
    // After a fork: the parent's memory is not ours.
    const NO_DRIVER_IN_CHILD: Status = Status(sys::FERRY_STATUS_DRIVER_BASE - 3);
    let has_ended = |error: &Error| error.status() == NO_DRIVER_IN_CHILD || error.context_is_dead();
    check(&wait).map_err(|first| {
        // The driver may report the error of earlier work once. Then a second wait succeeds.
        if !has_ended(&first) && matches!(check(&wait), Err(second) if !has_ended(&second)) {
            eprintln!("ferry: cannot wait for copies that use the program's memory: {first}");
            std::process::abort();
        }
        first
    })
}
