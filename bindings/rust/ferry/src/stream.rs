//! Streams and events; tickets; transfers, which own the memory of a copy in flight.

use crate::error::{check, filled, wait_for_end, Failed};
use crate::info::{BatchExplanation, Explanation};
use crate::instance::{describe_fill, may_be_in_flight};
use crate::memory::{HostBuffer, Owned};
use crate::options::raw;
use crate::view::{CopyDesc, DeviceView, Element, Pieces, Shape, ViewMut};
use crate::{sys, CopyOptions, Error, Ferry, Result};
use std::ffi::c_void;
use std::mem::{size_of, MaybeUninit};
use std::ptr::null_mut;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

/// A stream of a device. Clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamHandle>);

struct StreamHandle {
    ferry: Ferry,
    device: i32,
    handle: *mut sys::CUstream_st,
    is_foreign: bool,
}

// SAFETY: ferry takes streams on any thread. Drop has the last reference.
unsafe impl Send for StreamHandle {}
unsafe impl Sync for StreamHandle {}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        if !self.is_foreign {
            // SAFETY: no call uses the stream any more. Its work still completes.
            unsafe { sys::ferry_stream_destroy(self.ferry.as_raw(), self.handle, null_mut()) };
        }
    }
}

impl Stream {
    /// Creates a stream that is not ordered with the legacy default stream.
    pub fn new(ferry: &Ferry, device: i32) -> Result<Stream> {
        Stream::with(ferry, device, sys::FERRY_STREAM_NON_BLOCKING, 0)
    }

    /// Creates a stream with `FERRY_STREAM_*` flags and a priority.
    pub fn with(ferry: &Ferry, device: i32, flags: sys::StreamFlags, priority: i32) -> Result<Stream> {
        let mut handle = null_mut();
        // SAFETY: the call writes a handle.
        check(|error| unsafe {
            sys::ferry_stream_create(ferry.as_raw(), device, flags, priority, &mut handle, error)
        })?;
        Ok(Stream(Arc::new(StreamHandle { ferry: ferry.clone(), device, handle, is_foreign: false })))
    }

    /// Wraps a stream of the program. It is not destroyed.
    ///
    /// # Safety
    /// `handle` must be a stream of `device`, not a default stream, and live as long as the result. It must not be
    /// captured while the result is used.
    pub unsafe fn from_raw(ferry: &Ferry, device: i32, handle: *mut sys::CUstream_st) -> Stream {
        Stream(Arc::new(StreamHandle { ferry: ferry.clone(), device, handle, is_foreign: true }))
    }

    /// The handle, a `CUstream`.
    pub fn as_raw(&self) -> *mut sys::CUstream_st {
        self.0.handle
    }

    pub(crate) fn ferry(&self) -> &Ferry {
        &self.0.ferry
    }

    /// The device's number.
    pub fn device(&self) -> i32 {
        self.0.device
    }

    /// Waits for all work enqueued so far.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives.
        check(|error| unsafe { sys::ferry_stream_synchronize(self.ferry().as_raw(), self.as_raw(), error) })
    }

    /// Waits until no work that the instance has enqueued on the stream uses the program's memory any more.
    pub(crate) fn drain(&self, ferry: &Ferry) -> Result<()> {
        // SAFETY: the stream lives.
        let result =
            wait_for_end(|error| unsafe { sys::ferry_stream_synchronize(ferry.as_raw(), self.as_raw(), error) });
        ferry.wait_for_threads(&result);
        result
    }

    /// Whether all work enqueued so far has ended.
    pub fn is_done(&self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: the stream lives.
        check(|error| unsafe { sys::ferry_stream_query(self.ferry().as_raw(), self.as_raw(), &mut done, error) })?;
        Ok(done != 0)
    }

    /// Makes later work wait for the last record of an event, on any device.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        // SAFETY: stream and event live.
        check(|error| unsafe {
            sys::ferry_stream_wait_event(self.ferry().as_raw(), self.as_raw(), event.handle, error)
        })
    }

    /// Sends the result of the work enqueued so far, once it has ended. Nothing comes from a dead stream.
    pub fn notify(&self) -> Result<Receiver<Result<()>>> {
        let (sender, receiver) = channel();
        let user: *mut Sender<Result<()>> = Box::into_raw(Box::new(sender));
        // SAFETY: the callback takes the sender, and is called once at most.
        let result = check(|error| unsafe {
            sys::ferry_stream_notify(self.ferry().as_raw(), self.as_raw(), Some(send_result), user.cast(), error)
        });
        if let Err(error) = result {
            // SAFETY: after a failure the callback is not called.
            drop(unsafe { Box::from_raw(user) });
            return Err(error);
        }
        Ok(receiver)
    }

    /// A ticket for all work enqueued so far.
    pub fn ticket(&self) -> Result<Ticket> {
        // SAFETY: the stream lives; the call writes a handle.
        Ticket::new(self.ferry(), |handle| {
            check(|error| unsafe { sys::ferry_ticket_create(self.ferry().as_raw(), self.as_raw(), handle, error) })
        })
    }

    /// What a copy on the stream would do now.
    pub fn explain(&self, copy: &CopyDesc<'_>, options: Option<&CopyOptions>) -> Result<Explanation> {
        let (ferry, mut explained) = (self.ferry().as_raw(), Default::default());
        // SAFETY: nothing is copied.
        check(|error| unsafe {
            sys::ferry_copy_explain_async(ferry, &copy.raw, raw(options), self.as_raw(), &mut explained, error)
        })?;
        Ok(Explanation(explained))
    }

    /// What a fill on the stream would do now.
    pub fn explain_fill<'a, T: Element>(
        &self,
        destination: impl Into<ViewMut<'a, T>>,
        value: T,
        options: Option<&CopyOptions>,
    ) -> Result<Explanation> {
        let (fill, ferry, mut explained) =
            (describe_fill(&destination.into(), &value), self.ferry().as_raw(), Default::default());
        // SAFETY: nothing is filled.
        check(|error| unsafe {
            sys::ferry_fill_explain_async(ferry, &fill, raw(options), self.as_raw(), &mut explained, error)
        })?;
        Ok(Explanation(explained))
    }

    /// What a batch on the stream would do now.
    pub fn explain_batch(&self, copies: &[CopyDesc<'_>], options: Option<&CopyOptions>) -> Result<BatchExplanation> {
        let (first, count, mut explained) = (copies.as_ptr().cast(), copies.len() as u64, Default::default());
        let (ferry, stream, options) = (self.ferry().as_raw(), self.as_raw(), raw(options));
        // SAFETY: nothing is copied.
        check(|error| unsafe {
            sys::ferry_copy_batch_explain_async(ferry, first, count, options, stream, &mut explained, error)
        })?;
        Ok(BatchExplanation(explained))
    }

    /// What pieces on the stream would do now.
    pub fn explain_pieces(&self, pieces: &Pieces<'_>, options: Option<&CopyOptions>) -> Result<BatchExplanation> {
        let (ferry, list, stream) = (self.ferry().as_raw(), pieces.list(), self.as_raw());
        let (mut explained, options) = (Default::default(), raw(options));
        // SAFETY: nothing is copied.
        check(|error| unsafe {
            sys::ferry_copy_pieces_explain_async(ferry, &list, options, stream, &mut explained, error)
        })?;
        Ok(BatchExplanation(explained))
    }

    /// Enqueues a copy of a whole buffer to device memory or an array of as many elements. The transfer owns the buffer
    /// until the copy is done, and keeps the device memory.
    pub fn upload<'a, B: HostBuffer>(
        &self,
        buffer: B,
        destination: impl Into<DeviceView<'a, B::Element>>,
        options: Option<&CopyOptions>,
    ) -> Result<Transfer<B>, Failed<B>>
    where
        B::Element: 'a,
    {
        let view = destination.into();
        self.transfer(buffer, view.owner, &view.shape, true, options)
    }

    /// Enqueues a copy of device memory or an array to a whole buffer, as [`Stream::upload`].
    pub fn download<'a, B: HostBuffer>(
        &self,
        source: impl Into<DeviceView<'a, B::Element>>,
        buffer: B,
        options: Option<&CopyOptions>,
    ) -> Result<Transfer<B>, Failed<B>>
    where
        B::Element: 'a,
    {
        let view = source.into();
        self.transfer(buffer, view.owner, &view.shape, false, options)
    }

    fn transfer<B: HostBuffer>(
        &self,
        mut buffer: B,
        owner: &Arc<Owned>,
        device: &Shape,
        is_upload: bool,
        options: Option<&CopyOptions>,
    ) -> Result<Transfer<B>, Failed<B>> {
        if buffer.length() != device.count() {
            let host_is_smaller = buffer.length() < device.count();
            let side = if host_is_smaller == is_upload { sys::FERRY_SIDE_SOURCE } else { sys::FERRY_SIDE_DESTINATION };
            let bytes = [buffer.length(), device.count()].map(|count| (count * size_of::<B::Element>()) as u64);
            let (value, limit) = (bytes[0].max(bytes[1]), bytes[0].min(bytes[1]));
            let field = sys::FERRY_FIELD_WIDTH;
            let error = Error::refusal(sys::FERRY_ERROR_OUT_OF_BOUNDS, side, field, value, limit);
            return Err(Failed { error, buffer });
        }
        let host = device.in_host(buffer.pointer() as usize as u64);
        let (from, to) = if is_upload { (&host, device) } else { (device, &host) };
        let copy = match CopyDesc::between(from, to) {
            Ok(copy) => copy,
            Err(error) => return Err(Failed { error, buffer }),
        };
        let buffer = MaybeUninit::new(buffer); // moved without a claim that nothing else uses its memory
                                               // SAFETY: the transfer owns the host memory and shares the device memory until the end.
        match unsafe { self.enqueue_with_ticket(&copy, options) } {
            Ok(ticket) => Ok(Transfer { ticket, buffer: Some(buffer), stream: self.clone(), _device: owner.clone() }),
            Err(error) => {
                if may_be_in_flight(&error) {
                    let _ = self.drain(self.ferry());
                }
                // SAFETY: the buffer is set.
                Err(Failed { error, buffer: unsafe { buffer.assume_init() } })
            }
        }
    }

    /// # Safety
    /// The memory must stay valid, and be lent to the copy, until the copy has completed.
    unsafe fn enqueue_with_ticket(&self, copy: &CopyDesc<'_>, options: Option<&CopyOptions>) -> Result<Ticket> {
        let ferry = self.ferry();
        Ticket::new(ferry, |handle| {
            let result = check(|error| unsafe {
                sys::ferry_copy_async(ferry.as_raw(), &copy.raw, raw(options), self.as_raw(), handle, error)
            });
            ferry.settled(result, &copy.devices())
        })
    }
}

/// The callback of [`Stream::notify`].
unsafe extern "C" fn send_result(user: *mut c_void, status: sys::Status) {
    // SAFETY: `user` is the sender, which is not used elsewhere.
    let sender = unsafe { Box::from_raw(user.cast::<Sender<Result<()>>>()) };
    let result = if status == sys::FERRY_SUCCESS { Ok(()) } else { Err(Error::from_status(status)) };
    let _ = sender.send(result); // the receiver may be gone
}

/// A point in the work of a stream.
pub struct Event {
    ferry: Ferry,
    handle: *mut sys::CUevent_st,
}

// SAFETY: ferry takes events on any thread.
unsafe impl Send for Event {}
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: no call uses the event any more; streams that wait for it are not affected.
        unsafe { sys::ferry_event_destroy(self.ferry.as_raw(), self.handle, null_mut()) };
    }
}

impl Event {
    /// Creates an event of a device. `flags`: 0 or `FERRY_EVENT_*`.
    pub fn new(ferry: &Ferry, device: i32, flags: sys::EventFlags) -> Result<Event> {
        let mut handle = null_mut();
        // SAFETY: the call writes a handle.
        check(|error| unsafe { sys::ferry_event_create(ferry.as_raw(), device, flags, &mut handle, error) })?;
        Ok(Event { ferry: ferry.clone(), handle })
    }

    /// The handle, a `CUevent`.
    pub fn as_raw(&self) -> *mut sys::CUevent_st {
        self.handle
    }

    /// Records the event after the work enqueued on a stream of its device so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: event and stream live.
        check(|error| unsafe { sys::ferry_event_record(self.ferry.as_raw(), self.handle, stream.as_raw(), error) })
    }

    /// Waits for the work before the last record.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event lives.
        check(|error| unsafe { sys::ferry_event_synchronize(self.ferry.as_raw(), self.handle, error) })
    }

    /// Whether the work before the last record has ended.
    pub fn is_done(&self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: the event lives.
        check(|error| unsafe { sys::ferry_event_query(self.ferry.as_raw(), self.handle, &mut done, error) })?;
        Ok(done != 0)
    }

    /// The milliseconds from this event to a later one.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32> {
        let mut time = 0.0;
        // SAFETY: both events live.
        check(|error| unsafe {
            sys::ferry_event_elapsed_time(self.ferry.as_raw(), self.handle, end.handle, &mut time, error)
        })?;
        Ok(time)
    }
}

/// Reports the progress of a copy, or of a stream up to some point. The work does not need it.
pub struct Ticket {
    ferry: Ferry,
    handle: *mut sys::ferry_ticket,
}

// SAFETY: any number of threads may use a ticket. Drop has the only reference.
unsafe impl Send for Ticket {}
unsafe impl Sync for Ticket {}

impl Drop for Ticket {
    fn drop(&mut self) {
        // SAFETY: no call uses the ticket any more.
        unsafe { sys::ferry_ticket_release(self.handle, null_mut()) };
        let _ = &self.ferry; // closes after the ticket
    }
}

impl Ticket {
    /// `enqueue` writes the handle, which belongs to an instance.
    pub(crate) fn new(
        ferry: &Ferry,
        enqueue: impl FnOnce(*mut *mut sys::ferry_ticket) -> Result<()>,
    ) -> Result<Ticket> {
        let mut handle = null_mut();
        enqueue(&mut handle)?;
        Ok(Ticket { ferry: ferry.clone(), handle })
    }

    /// Whether the work has ended, its status, route and progress, and the tag of its options.
    pub fn info(&self) -> Result<sys::ferry_ticket_info> {
        // SAFETY: the struct has its size.
        filled(|info, error| unsafe { sys::ferry_ticket_get_info(self.handle, info, error) })
    }

    /// Waits for the work, and helps with a staged copy meanwhile.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the ticket lives.
        check(|error| unsafe { sys::ferry_ticket_wait(self.handle, sys::FERRY_NO_TIMEOUT.into(), error) })
    }

    /// Cancels copies of files: what has not begun is not transferred. `wait` then returns an error, unless all bytes were
    /// transferred before.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the ticket lives.
        check(|error| unsafe { sys::ferry_ticket_cancel(self.handle, error) })
    }
}

/// A copy in flight that owns its host buffer. `drop` waits; a transfer that is forgotten keeps its memory for ever.
#[must_use = "the buffer comes back from wait()"]
pub struct Transfer<B: HostBuffer> {
    ticket: Ticket,
    buffer: Option<MaybeUninit<B>>, // None: given back
    stream: Stream,
    _device: Arc<Owned>,
}

impl<B: HostBuffer> Transfer<B> {
    /// Waits for the copy and gives the buffer back.
    pub fn wait(mut self) -> Result<B, Failed<B>> {
        let result = self.finish();
        let buffer = self.buffer.take().expect("a buffer is given back once");
        // SAFETY: the buffer is set, and the copy no longer uses it.
        let buffer = unsafe { buffer.assume_init() };
        match result {
            Ok(()) => Ok(buffer),
            Err(error) => Err(Failed { error, buffer }),
        }
    }

    /// Whether the copy has ended.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.ticket.info()?.done != 0)
    }

    /// The copy's ticket.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    fn finish(&self) -> Result<()> {
        let result = self.ticket.wait();
        if result.is_err() {
            let _ = self.stream.drain(self.stream.ferry()); // the error may be of the wait
        }
        result
    }
}

impl<B: HostBuffer> Drop for Transfer<B> {
    fn drop(&mut self) {
        if self.buffer.is_some() {
            let _ = self.finish();
        }
        if let Some(buffer) = self.buffer.take() {
            // SAFETY: the buffer is set, and the copy no longer uses it.
            drop(unsafe { buffer.assume_init() });
        }
    }
}
