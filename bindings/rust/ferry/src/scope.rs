//! Scopes: asynchronous copies of borrowed memory. Batches that are prepared once and launched in scopes.

use crate::error::check;
use crate::instance::{describe_fill, devices_of};
use crate::options::raw;
use crate::view::{CopyDesc, Element, Pieces, View, ViewMut};
use crate::{sys, CopyOptions, Error, Ferry, Result, Stream, Ticket};
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};

/// Enqueues copies on streams: see [`Ferry::scope`]. What a call is given stays borrowed until the scope has ended.
pub struct Scope<'scope, 'env: 'scope> {
    ferry: &'env Ferry,
    streams: Mutex<Vec<Stream>>,
    // As in std::thread::Scope: neither lifetime may be changed.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn run<R>(
        ferry: &'env Ferry,
        enqueue: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let scope = Scope { ferry, streams: Mutex::default(), scope: PhantomData, env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| enqueue(&scope)));
        let mut waited = Ok(());
        for stream in scope.streams().iter() {
            waited = waited.and(stream.drain(ferry));
        }
        let value = result.unwrap_or_else(|panic| resume_unwind(panic))?;
        waited.map(|()| value)
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes that the scope must wait for a stream, before the stream gets work.
    fn note(&self, stream: &Stream) {
        let mut streams = self.streams();
        if !streams.iter().any(|one| one.as_raw() == stream.as_raw()) {
            streams.push(stream.clone());
        }
    }

    /// Enqueues a copy. [`Scope::run_copy`] takes options.
    pub fn copy<T: Element>(
        &'scope self,
        stream: &Stream,
        source: impl Into<View<'scope, T>>,
        destination: impl Into<ViewMut<'scope, T>>,
    ) -> Result<()> {
        self.run_copy(stream, &CopyDesc::new(source, destination)?, None)
    }

    /// Enqueues a described copy.
    pub fn run_copy(
        &'scope self,
        stream: &Stream,
        copy: &CopyDesc<'scope>,
        options: Option<&CopyOptions>,
    ) -> Result<()> {
        self.enqueue_copy(stream, copy, options, null_mut())
    }

    /// Enqueues a described copy, with a ticket that reports its progress.
    pub fn run_copy_with_ticket(
        &'scope self,
        stream: &Stream,
        copy: &CopyDesc<'scope>,
        options: Option<&CopyOptions>,
    ) -> Result<Ticket> {
        Ticket::new(self.ferry, |ticket| self.enqueue_copy(stream, copy, options, ticket))
    }

    fn enqueue_copy(
        &'scope self,
        stream: &Stream,
        copy: &CopyDesc<'scope>,
        options: Option<&CopyOptions>,
        ticket: *mut *mut sys::ferry_ticket,
    ) -> Result<()> {
        self.note(stream);
        let (ferry, stream, options) = (self.ferry.as_raw(), stream.as_raw(), raw(options));
        // SAFETY: the memory is borrowed for 'scope, and the scope waits for the stream.
        let result = check(|error| unsafe { sys::ferry_copy_async(ferry, &copy.raw, options, stream, ticket, error) });
        self.ferry.settled(result, &copy.devices())
    }

    /// Enqueues copies that have no order among themselves.
    pub fn copy_batch(
        &'scope self,
        stream: &Stream,
        copies: &[CopyDesc<'scope>],
        options: Option<&CopyOptions>,
    ) -> Result<()> {
        self.enqueue_batch(stream, copies, options, null_mut())
    }

    /// Enqueues copies that have no order among themselves, with a ticket.
    pub fn copy_batch_with_ticket(
        &'scope self,
        stream: &Stream,
        copies: &[CopyDesc<'scope>],
        options: Option<&CopyOptions>,
    ) -> Result<Ticket> {
        Ticket::new(self.ferry, |ticket| self.enqueue_batch(stream, copies, options, ticket))
    }

    fn enqueue_batch(
        &'scope self,
        stream: &Stream,
        copies: &[CopyDesc<'scope>],
        options: Option<&CopyOptions>,
        ticket: *mut *mut sys::ferry_ticket,
    ) -> Result<()> {
        self.note(stream);
        let (first, count, options) = (copies.as_ptr().cast(), copies.len() as u64, raw(options));
        let (ferry, stream) = (self.ferry.as_raw(), stream.as_raw());
        // SAFETY: a CopyDesc is a ferry_copy_desc; else as in enqueue_copy().
        let result =
            check(|error| unsafe { sys::ferry_copy_batch_async(ferry, first, count, options, stream, ticket, error) });
        self.ferry.settled(result, &devices_of(copies))
    }

    /// Enqueues pieces, as [`Scope::copy_batch`].
    pub fn copy_pieces(
        &'scope self,
        stream: &Stream,
        pieces: &Pieces<'scope>,
        options: Option<&CopyOptions>,
    ) -> Result<()> {
        self.enqueue_pieces(stream, pieces, options, null_mut())
    }

    /// Enqueues pieces, with a ticket.
    pub fn copy_pieces_with_ticket(
        &'scope self,
        stream: &Stream,
        pieces: &Pieces<'scope>,
        options: Option<&CopyOptions>,
    ) -> Result<Ticket> {
        Ticket::new(self.ferry, |ticket| self.enqueue_pieces(stream, pieces, options, ticket))
    }

    fn enqueue_pieces(
        &'scope self,
        stream: &Stream,
        pieces: &Pieces<'scope>,
        options: Option<&CopyOptions>,
        ticket: *mut *mut sys::ferry_ticket,
    ) -> Result<()> {
        self.note(stream);
        let (ferry, list, stream, options) = (self.ferry.as_raw(), pieces.list(), stream.as_raw(), raw(options));
        // SAFETY: as in enqueue_copy().
        let result =
            check(|error| unsafe { sys::ferry_copy_pieces_async(ferry, &list, options, stream, ticket, error) });
        self.ferry.settled(result, &pieces.devices)
    }

    /// Enqueues a fill, as [`Ferry::fill`].
    pub fn fill<T: Element>(
        &'scope self,
        stream: &Stream,
        destination: impl Into<ViewMut<'scope, T>>,
        value: T,
        options: Option<&CopyOptions>,
    ) -> Result<()> {
        self.enqueue_fill(stream, &destination.into(), &value, options, null_mut())
    }

    /// Enqueues a fill, with a ticket.
    pub fn fill_with_ticket<T: Element>(
        &'scope self,
        stream: &Stream,
        destination: impl Into<ViewMut<'scope, T>>,
        value: T,
        options: Option<&CopyOptions>,
    ) -> Result<Ticket> {
        let destination = destination.into();
        Ticket::new(self.ferry, |ticket| self.enqueue_fill(stream, &destination, &value, options, ticket))
    }

    fn enqueue_fill<T: Element>(
        &'scope self,
        stream: &Stream,
        destination: &ViewMut<'scope, T>,
        value: &T,
        options: Option<&CopyOptions>,
        ticket: *mut *mut sys::ferry_ticket,
    ) -> Result<()> {
        self.note(stream);
        let (fill, options) = (describe_fill(destination, value), raw(options));
        let (ferry, stream) = (self.ferry.as_raw(), stream.as_raw());
        // SAFETY: as in enqueue_copy().
        check(|error| unsafe { sys::ferry_fill_async(ferry, &fill, options, stream, ticket, error) })
    }

    /// Enqueues a prepared batch on its stream. A launch uses only the tag of the options. Without options, it has the
    /// tag of [`Stream::prepare`].
    pub fn launch(&'scope self, prepared: &Prepared<'scope>, options: Option<&CopyOptions>) -> Result<()> {
        self.enqueue_prepared(prepared, options, null_mut())
    }

    /// Enqueues a prepared batch, with a ticket.
    pub fn launch_with_ticket(
        &'scope self,
        prepared: &Prepared<'scope>,
        options: Option<&CopyOptions>,
    ) -> Result<Ticket> {
        Ticket::new(prepared.stream.ferry(), |ticket| self.enqueue_prepared(prepared, options, ticket))
    }

    fn enqueue_prepared(
        &'scope self,
        prepared: &Prepared<'scope>,
        options: Option<&CopyOptions>,
        ticket: *mut *mut sys::ferry_ticket,
    ) -> Result<()> {
        self.note(&prepared.stream);
        let (handle, stream, options) = (prepared.handle, prepared.stream.as_raw(), raw(options));
        // SAFETY: as in enqueue_copy().
        let result = check(|error| unsafe { sys::ferry_prepared_launch(handle, options, stream, ticket, error) });
        self.ferry.settled(result, &prepared.devices)
    }
}

/// A batch that is checked and planned once, and launched any number of times on its stream. It borrows the memory.
pub struct Prepared<'a> {
    stream: Stream,
    handle: *mut sys::ferry_prepared,
    devices: Vec<i32>,
    sizes: Vec<u64>, // of pieces
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: ferry takes prepared batches on any thread; set_addresses() has the only reference.
unsafe impl Send for Prepared<'_> {}
unsafe impl Sync for Prepared<'_> {}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // SAFETY: no call uses the batch any more. Launches may be in flight: their scopes wait.
        unsafe { sys::ferry_prepared_destroy(self.handle, null_mut()) };
    }
}

impl Stream {
    /// Prepares a batch for launches on this stream.
    pub fn prepare<'a>(&self, copies: &[CopyDesc<'a>], options: Option<&CopyOptions>) -> Result<Prepared<'a>> {
        let (first, count, mut handle) = (copies.as_ptr().cast(), copies.len() as u64, null_mut());
        let (ferry, stream, options) = (self.ferry().as_raw(), self.as_raw(), raw(options));
        // SAFETY: a CopyDesc is a ferry_copy_desc. Nothing is copied yet.
        check(|error| unsafe { sys::ferry_prepared_create(ferry, first, count, options, stream, &mut handle, error) })?;
        let (devices, sizes) = (devices_of(copies), Vec::new());
        Ok(Prepared { stream: self.clone(), handle, devices, sizes, memory: PhantomData })
    }

    /// Prepares pieces. With `FERRY_COPY_UPDATABLE` their addresses can be changed.
    pub fn prepare_pieces<'a>(&self, pieces: &Pieces<'a>, options: Option<&CopyOptions>) -> Result<Prepared<'a>> {
        let (ferry, list, stream) = (self.ferry().as_raw(), pieces.list(), self.as_raw());
        let (mut handle, options) = (null_mut(), raw(options));
        // SAFETY: nothing is copied yet.
        check(|error| unsafe {
            sys::ferry_prepared_create_pieces(ferry, &list, options, stream, &mut handle, error)
        })?;
        let (devices, sizes) = (pieces.devices.clone(), pieces.sizes().collect());
        Ok(Prepared { stream: self.clone(), handle, devices, sizes, memory: PhantomData })
    }
}

impl<'a> Prepared<'a> {
    /// Gives all pieces of an updatable batch other ends. Later launches use them. The pieces must have the same sizes.
    pub fn set_addresses(&mut self, pieces: &Pieces<'a>) -> Result<()> {
        if !pieces.sizes().eq(self.sizes.iter().copied()) {
            let (side, field) = (sys::FERRY_SIDE_EXTENT, sys::FERRY_FIELD_WIDTH);
            let (value, limit) = (pieces.sizes().sum(), self.sizes.iter().sum());
            return Err(Error::refusal(sys::FERRY_ERROR_INVALID_ARGUMENT, side, field, value, limit));
        }
        let (handle, list, stream) = (self.handle, pieces.list(), self.stream.as_raw());
        // SAFETY: launches are in the order of this stream too.
        check(|error| unsafe { sys::ferry_prepared_set_addresses(handle, &list, stream, error) })?;
        self.devices.clone_from(&pieces.devices);
        Ok(())
    }
}
