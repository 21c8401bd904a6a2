//! Copies between host memory, GPU memory, CUDA arrays and files, by [ferry](sys).
//!
//! ```
//! use ferry::{DeviceBuffer, Driver, Ferry, Options};
//!
//! # fn main() -> ferry::Result<()> {
//! let ferry = Ferry::open(Options::new(Driver::Software))?;
//! let device = DeviceBuffer::new(&ferry, 0, 4)?;
//! ferry.copy(&[1.0f32, 2.0, 3.0, 4.0], &device)?;
//! let mut received = vec![0.0f32; 4];
//! ferry.copy(&device, &mut received)?;
//! assert_eq!(received, [1.0, 2.0, 3.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Memory of copies in flight
//!
//! A copy that returns before it is complete needs its memory for longer. There are two forms, and neither depends on a
//! destructor, which `std::mem::forget` could leave out:
//!
//! - [`Ferry::scope`] lends memory to any number of copies and returns once they are done, like `std::thread::scope`.
//! - [`Stream::upload`] and [`Stream::download`] take a host buffer and give it back in [`Transfer::wait`].
//!
//! Host memory is borrowed as by Rust's own rules. This is refused, since the scope may still write `received`:
//!
//! ```compile_fail,E0502
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, stream: &Stream, device: &DeviceBuffer<u8>) -> Result<()> {
//! let mut received = vec![0u8; 4];
//! ferry.scope(|scope| {
//!     scope.copy(stream, device, &mut received)?;
//!     println!("{}", received[0]);
//!     Ok(())
//! })
//! # }
//! ```
//!
//! And so is this, since `sent` ends before the scope:
//!
//! ```compile_fail,E0597
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, stream: &Stream, device: &DeviceBuffer<u8>) -> Result<()> {
//! ferry.scope(|scope| {
//!     let sent = vec![0u8; 4];
//!     scope.copy(stream, &sent, device)
//! })
//! # }
//! ```
//!
//! With memory from outside, and used after the scope, both are fine:
//!
//! ```
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, stream: &Stream, device: &DeviceBuffer<u8>) -> Result<()> {
//! let (sent, mut received) = (vec![0u8; 4], vec![0u8; 4]);
//! ferry.scope(|scope| {
//!     scope.copy(stream, &sent, device)?;
//!     scope.copy(stream, device, &mut received)
//! })?;
//! println!("{}", received[0]);
//! # Ok(())
//! # }
//! ```
//!
//! Device memory is different: Rust code cannot reach it, so a shared borrow is enough to write it, and several copies
//! may use one buffer. Streams and events order them. Only its life is tied to the scope:
//!
//! ```compile_fail,E0505
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, stream: &Stream, device: DeviceBuffer<u8>, sent: &[u8]) -> Result<()> {
//! ferry.scope(|scope| {
//!     scope.copy(stream, sent, &device)?;
//!     drop(device);
//!     Ok(())
//! })
//! # }
//! ```
//!
//! A [`File`] is similar to device memory: a shared borrow is enough to write it. A scope borrows it until the end.
//!
//! A prepared batch borrows its memory, and so does a batch that is put together:
//!
//! ```compile_fail,E0506
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, stream: &Stream, device: &DeviceBuffer<u8>, mut sent: [u8; 4]) -> Result<()> {
//! let prepared = stream.prepare(&[CopyDesc::new(&sent, device)?], None)?;
//! sent[0] = 1;
//! ferry.scope(|scope| scope.launch(&prepared, None))
//! # }
//! ```
//!
//! What a scope was lent does not leave it, and a transfer's buffer cannot be used before it is given back:
//!
//! ```compile_fail,E0382
//! # use ferry::*;
//! # fn copy(stream: &Stream, device: &DeviceBuffer<u8>, sent: Vec<u8>) -> Result<()> {
//! let transfer = stream.upload(sent, device, None)?;
//! println!("{}", sent[0]);
//! transfer.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! Elements are numbers, arrays of numbers, and types that the program declares to be [`Element`]:
//!
//! ```compile_fail,E0277
//! # use ferry::*;
//! # fn copy(ferry: &Ferry, device: &DeviceBuffer<u8>) -> Result<()> {
//! let mut received = [false; 4];
//! ferry.copy(device, &mut received)
//! # }
//! ```
//!
//! # Threads
//!
//! All types are `Send` and `Sync`: any number of threads may call ferry at the same time.
//!
//! # What is missing
//!
//! `left-out.txt` lists the functions of ferry that this crate does not call, with reasons. They are in [`sys`], and
//! take the handles that `as_raw` returns.
#![warn(missing_docs, unsafe_op_in_unsafe_fn)]

mod error;
mod file;
mod info;
mod instance;
mod memory;
mod options;
mod scope;
mod stream;
mod view;

pub use error::{Error, Failed, Result};
pub use ferry_sys as sys;
pub use ferry_sys::{CopyFlags, EventFlags, FileFlags, Priority, Route, SourceOrder, StreamFlags}; // arguments
pub use ferry_sys::{Field, Kernels, LogLevel, Obstacle, Side, Staging, Status};
pub use file::File;
pub use info::{BatchExplanation, DeviceInfo, Explanation};
pub use instance::{obstacle_text, version, Ferry};
pub use memory::{Array, DeviceBuffer, HostBuffer, PinnedBuffer, PinnedPool, PoolBlock};
pub use options::{CopyOptions, Driver, LogLine, Options};
pub use scope::{Prepared, Scope};
pub use stream::{Event, Stream, Ticket, Transfer};
pub use view::{CopyDesc, DeviceView, Element, FileView, Pieces, View, ViewMut};
