//! Scopes: asynchronous copies of borrowed memory. Batches that are prepared once and launched in scopes.

use crate::error::check;
use crate::instance::{describe_fill, devices_of};
use crate::view::{CopyDesc, Element, Pieces, View, ViewMut};
use crate::{sys, Error, Ferry, Result, Stream, Ticket};
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

    /// Enqueues a copy.
    pub fn copy<T: Element>(
        &'scope self,
        stream: &Stream,
        source: impl Into<View<'scope, T>>,
        destination: impl Into<ViewMut<'scope, T>>,
    ) -> Result<()> {
        self.run_copy(stream, &CopyDesc::new(source, destination)?)
    }

    /// Enqueues a described copy.
    pub fn run_copy(&'scope self, stream: &Stream, copy: &CopyDesc<'scope>) -> Result<()> {
        self.note(stream);
        let ferry = self.ferry.as_raw();
        // SAFETY: the memory is borrowed for 'scope, and the scope waits for the stream.
        let result =
            check(|error| unsafe { sys::ferry_copy_async(ferry, &copy.raw, stream.as_raw(), null_mut(), error) });
        self.ferry.settled(result, &copy.devices())
    }

    /// Enqueues a described copy, with a ticket that reports its progress.
    pub fn run_copy_with_ticket(&'scope self, stream: &Stream, copy: &CopyDesc<'scope>) -> Result<Ticket> {
        self.note(stream);
        // SAFETY: as in run_copy().
        unsafe { stream.enqueue_with_ticket(copy) }
    }

    /// Enqueues copies that have no order among themselves. `flags`: 0 or `FERRY_BATCH_CHECK_OVERLAP`.
    pub fn copy_batch(
        &'scope self,
        stream: &Stream,
        copies: &[CopyDesc<'scope>],
        flags: sys::BatchFlags,
    ) -> Result<()> {
        self.note(stream);
        let (ferry, first, count) = (self.ferry.as_raw(), copies.as_ptr().cast(), copies.len() as u64);
        // SAFETY: a CopyDesc is a ferry_copy_desc; else as in run_copy().
        let result =
            check(|error| unsafe { sys::ferry_copy_batch_async(ferry, first, count, flags, stream.as_raw(), error) });
        self.ferry.settled(result, &devices_of(copies))
    }

    /// Enqueues pieces, as [`Scope::copy_batch`].
    pub fn copy_pieces(&'scope self, stream: &Stream, pieces: &Pieces<'scope>, flags: sys::BatchFlags) -> Result<()> {
        self.note(stream);
        let (to, from, sizes) = (pieces.destinations.as_ptr(), pieces.sources.as_ptr(), pieces.sizes.as_ptr());
        let (ferry, count) = (self.ferry.as_raw(), pieces.len() as u64);
        // SAFETY: the three lists have one length; else as in run_copy().
        let result = check(|error| unsafe {
            sys::ferry_copy_pieces_async(ferry, to, from, sizes, count, flags, stream.as_raw(), error)
        });
        self.ferry.settled(result, &pieces.devices)
    }

    /// Enqueues a fill, as [`Ferry::fill`].
    pub fn fill<T: Element>(
        &'scope self,
        stream: &Stream,
        destination: impl Into<ViewMut<'scope, T>>,
        value: T,
    ) -> Result<()> {
        self.note(stream);
        let fill = describe_fill(&destination.into(), &value);
        // SAFETY: as in run_copy().
        check(|error| unsafe { sys::ferry_fill_async(self.ferry.as_raw(), &fill, stream.as_raw(), error) })
    }

    /// Enqueues a prepared batch on its stream.
    pub fn launch(&'scope self, prepared: &Prepared<'scope>) -> Result<()> {
        self.note(&prepared.stream);
        // SAFETY: as in run_copy().
        let result =
            check(|error| unsafe { sys::ferry_prepared_launch(prepared.handle, prepared.stream.as_raw(), error) });
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
    /// Prepares a batch for launches on this stream. `flags` as for [`Ferry::copy_batch`].
    pub fn prepare<'a>(&self, copies: &[CopyDesc<'a>], flags: sys::BatchFlags) -> Result<Prepared<'a>> {
        let (first, count, mut handle) = (copies.as_ptr().cast(), copies.len() as u64, null_mut());
        // SAFETY: a CopyDesc is a ferry_copy_desc. Nothing is copied yet.
        check(|error| unsafe {
            sys::ferry_prepared_create(self.ferry().as_raw(), first, count, flags, self.as_raw(), &mut handle, error)
        })?;
        let (devices, sizes) = (devices_of(copies), Vec::new());
        Ok(Prepared { stream: self.clone(), handle, devices, sizes, memory: PhantomData })
    }

    /// Prepares pieces. With `FERRY_BATCH_UPDATABLE` their addresses can be changed.
    pub fn prepare_pieces<'a>(&self, pieces: &Pieces<'a>, flags: sys::BatchFlags) -> Result<Prepared<'a>> {
        let (to, from, sizes) = (pieces.destinations.as_ptr(), pieces.sources.as_ptr(), pieces.sizes.as_ptr());
        let (ferry, stream, count, mut handle) = (self.ferry(), self.as_raw(), pieces.len() as u64, null_mut());
        // SAFETY: the three lists have one length. Nothing is copied yet.
        check(|error| unsafe {
            let ferry = ferry.as_raw();
            sys::ferry_prepared_create_pieces(ferry, to, from, sizes, count, flags, stream, &mut handle, error)
        })?;
        let (devices, sizes) = (pieces.devices.clone(), pieces.sizes.clone());
        Ok(Prepared { stream: self.clone(), handle, devices, sizes, memory: PhantomData })
    }
}

impl<'a> Prepared<'a> {
    /// Gives all pieces of an updatable batch other ends. Later launches use them. The pieces must have the same sizes.
    pub fn set_addresses(&mut self, pieces: &Pieces<'a>) -> Result<()> {
        if pieces.sizes != self.sizes {
            let (side, field) = (sys::FERRY_SIDE_EXTENT, sys::FERRY_FIELD_WIDTH);
            let (value, limit) = (pieces.sizes.iter().sum(), self.sizes.iter().sum());
            return Err(Error::refusal(sys::FERRY_ERROR_INVALID_ARGUMENT, side, field, value, limit));
        }
        let (to, from) = (pieces.destinations.as_ptr(), pieces.sources.as_ptr());
        // SAFETY: the lists are as long as the batch. Launches are in the order of this stream too.
        check(|error| unsafe {
            sys::ferry_prepared_set_addresses(self.handle, to, from, self.stream.as_raw(), error)
        })?;
        self.devices.clone_from(&pieces.devices);
        Ok(())
    }
}
