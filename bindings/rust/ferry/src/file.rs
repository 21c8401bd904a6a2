//! Files as ends of copies.

use crate::error::{check, filled};
use crate::view::{Element, FileView, Shape};
use crate::{sys, Error, Ferry, Result};
use std::ffi::CString;
use std::mem::size_of;
#[cfg(unix)]
use std::os::unix::io::{AsFd, AsRawFd};
#[cfg(windows)]
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::Path;
use std::ptr::null_mut;

/// An open file. ferry copies between its bytes and device memory or arrays:
///
/// ```no_run
/// use ferry::*;
///
/// # fn load(ferry: &Ferry, stream: &Stream, tensors: &[(u64, DeviceBuffer<f32>)]) -> Result<()> {
/// let file = File::open(ferry, "model.safetensors", &Default::default())?; // to read
/// let mut pieces = Pieces::new();
/// for (offset, tensor) in tensors {
///     pieces.push(file.view(*offset, tensor.len()), tensor)?;
/// }
/// ferry.scope(|scope| {
///     let ticket = scope.copy_pieces_with_ticket(stream, &pieces, None)?;
///     ticket.wait() // reports failures of the file
/// })
/// # }
/// ```
///
/// Copies on a stream require a ticket: the work of the stream goes on after a failure of the file. A copy borrows the
/// file:
///
/// ```compile_fail,E0505
/// # use ferry::*;
/// # fn load(ferry: &Ferry, device: &DeviceBuffer<u8>, file: File) -> Result<()> {
/// let copy = CopyDesc::new(file.view(4096, device.len()), device)?;
/// drop(file);
/// ferry.run(&copy, None)
/// # }
/// ```
pub struct File {
    ferry: Ferry,
    handle: *mut sys::ferry_file,
}

// SAFETY: any number of threads may use a file. Drop has the only reference.
unsafe impl Send for File {}
unsafe impl Sync for File {}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: no call uses the file any more. Copies in flight keep it open for the system.
        unsafe { sys::ferry_file_close(self.handle) };
        let _ = &self.ferry; // closes after the file
    }
}

// Safe code may have changed the size, and ferry reads as many bytes.
fn sized(options: &sys::ferry_file_options) -> sys::ferry_file_options {
    sys::ferry_file_options { struct_size: size_of::<sys::ferry_file_options>() as u32, ..*options }
}

impl File {
    /// Opens the file at a path, which must be text in UTF-8. The default options are to read.
    pub fn open(ferry: &Ferry, path: impl AsRef<Path>, options: &sys::ferry_file_options) -> Result<File> {
        let options = sized(options);
        let path = path.as_ref().to_str().and_then(|path| CString::new(path).ok()).ok_or_else(|| {
            let (status, side) = (sys::FERRY_ERROR_INVALID_ARGUMENT, sys::FERRY_SIDE_NONE);
            Error::refusal(status, side, sys::FERRY_FIELD_PATH, 0, 0)
        })?;
        // SAFETY: the path ends with zero; the struct has its size; the call writes a handle.
        Self::with(ferry, |file, error| unsafe {
            sys::ferry_file_open(ferry.as_raw(), path.as_ptr(), &options, file, error)
        })
    }

    /// Opens a file that the program has opened, such as a `std::fs::File`. The default options are to open it with the
    /// same access. The program may close its file. ferry never moves its position.
    #[cfg(unix)]
    pub fn open_descriptor(ferry: &Ferry, file: impl AsFd, options: &sys::ferry_file_options) -> Result<File> {
        Self::open_os_handle(ferry, file.as_fd().as_raw_fd().into(), options)
    }

    /// Opens a file that the program has opened, such as a `std::fs::File`. The default options are to open it with the
    /// same access. The program may close its file. ferry never moves its position.
    #[cfg(windows)]
    pub fn open_descriptor(ferry: &Ferry, file: impl AsHandle, options: &sys::ferry_file_options) -> Result<File> {
        Self::open_os_handle(ferry, file.as_handle().as_raw_handle() as i64, options)
    }

    fn open_os_handle(ferry: &Ferry, os_handle: i64, options: &sys::ferry_file_options) -> Result<File> {
        let options = sized(options);
        // SAFETY: the caller has borrowed the descriptor; the struct has its size; the call writes a handle.
        Self::with(ferry, |file, error| unsafe {
            sys::ferry_file_open_descriptor(ferry.as_raw(), os_handle, &options, file, error)
        })
    }

    fn with(
        ferry: &Ferry,
        open: impl FnOnce(*mut *mut sys::ferry_file, *mut sys::ferry_error_info) -> sys::Status,
    ) -> Result<File> {
        let mut handle = null_mut();
        check(|error| open(&mut handle, error))?;
        Ok(File { ferry: ferry.clone(), handle })
    }

    /// The handle, for `ferry_sys`. It is valid while the file is open, and must not be closed.
    pub fn as_raw(&self) -> *mut sys::ferry_file {
        self.handle
    }

    /// The number of bytes, now, and how the file can be used.
    pub fn info(&self) -> Result<sys::ferry_file_info> {
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_file_get_info(self.handle, info, error) })
    }

    /// `length` elements from the byte at `offset` on, as one end of a copy.
    ///
    /// # Panics
    /// If the elements pass the last offset that 64 bits can hold.
    pub fn view<T: Element>(&self, offset: u64, length: usize) -> FileView<'_, T> {
        FileView::new(Shape::file::<T>(self.handle, offset, length))
    }
}
