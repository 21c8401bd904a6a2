//! Owners of memory and arrays.
//!
//! A scope borrows what its copies use, and a transfer owns it or shares it. So nothing of ferry's uses the memory any
//! more when an owner is dropped. Device memory may still be used by the program's own kernels: `drop` therefore waits
//! for the device's running work, and `free_after` frees in the order of a stream.

use crate::error::check;
use crate::view::{DeviceView, Element, Shape};
use crate::{sys, Ferry, Result, Stream};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ops::{Deref, DerefMut};
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex};

/// Device memory or an array, freed with its last reference.
pub(crate) struct Owned {
    ferry: Ferry,
    resource: Resource,
    free_after: Mutex<Option<Stream>>,
}

enum Resource {
    Memory(u64),
    StreamOrdered(u64),
    Array(*mut sys::CUarray_st),
    /// The program's own.
    Foreign,
}

// SAFETY: ferry takes handles and addresses on any thread.
unsafe impl Send for Owned {}
unsafe impl Sync for Owned {}

impl Owned {
    fn new(ferry: &Ferry, resource: Resource, stream: Option<Stream>) -> Arc<Owned> {
        Arc::new(Owned { ferry: ferry.clone(), resource, free_after: Mutex::new(stream) })
    }

    fn free_after(&self, stream: &Stream) {
        *self.free_after.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(stream.clone());
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let stream = self.free_after.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let stream = stream.as_ref().map(Stream::as_raw);
        let ferry = self.ferry.as_raw();
        // SAFETY: nothing of ferry's uses the memory. A deferred free that fails leaves it to the other one.
        unsafe {
            match (&self.resource, stream) {
                (Resource::Memory(address), Some(stream))
                    if sys::ferry_device_free_deferred(ferry, *address, stream, null_mut()) == sys::FERRY_SUCCESS => {}
                (Resource::StreamOrdered(address), Some(stream))
                    if sys::ferry_device_free_async(ferry, *address, stream, null_mut()) == sys::FERRY_SUCCESS => {}
                (Resource::Array(array), Some(stream))
                    if sys::ferry_array_destroy_deferred(ferry, *array, stream, null_mut()) == sys::FERRY_SUCCESS => {}
                (Resource::Memory(address) | Resource::StreamOrdered(address), _) => {
                    sys::ferry_device_free(ferry, *address, null_mut());
                }
                (Resource::Array(array), _) => {
                    sys::ferry_array_destroy(ferry, *array, null_mut());
                }
                (Resource::Foreign, _) => {}
            }
        }
    }
}

fn bytes_of<T>(length: usize) -> u64 {
    assert!(size_of::<T>() > 0, "an element of a copy has at least one byte");
    assert!(align_of::<T>() <= 256, "ferry aligns memory to 256 bytes");
    length.checked_mul(size_of::<T>()).expect("memory has at most usize::MAX bytes") as u64
}

/// Memory of a device. Its contents are undefined at first.
pub struct DeviceBuffer<T> {
    memory: Arc<Owned>,
    device: i32,
    address: u64,
    length: usize,
    elements: PhantomData<T>,
}

impl<T: Element> DeviceBuffer<T> {
    /// Allocates `length` elements, at least one.
    pub fn new(ferry: &Ferry, device: i32, length: usize) -> Result<DeviceBuffer<T>> {
        let (size, mut address) = (bytes_of::<T>(length), 0);
        // SAFETY: the call writes an address.
        check(|error| unsafe { sys::ferry_device_alloc(ferry.as_raw(), device, size, &mut address, error) })?;
        Ok(Self::with(Owned::new(ferry, Resource::Memory(address), None), device, address, length))
    }

    /// Allocates from the device's current pool in the order of `stream`, and frees in that order too. Other streams
    /// must wait for an event before they use the memory.
    pub fn new_on(stream: &Stream, length: usize) -> Result<DeviceBuffer<T>> {
        let (ferry, device, size, mut address) = (stream.ferry(), stream.device(), bytes_of::<T>(length), 0);
        // SAFETY: the call writes an address.
        check(|error| unsafe {
            sys::ferry_device_alloc_async(ferry.as_raw(), device, size, stream.as_raw(), &mut address, error)
        })?;
        let memory = Owned::new(ferry, Resource::StreamOrdered(address), Some(stream.clone()));
        Ok(Self::with(memory, device, address, length))
    }

    /// Makes a buffer of the program's own device memory, which is not freed.
    ///
    /// # Safety
    /// `length` elements at `address` on `device` must live as long as the buffer and the copies of it, and must not be
    /// host memory that Rust code uses.
    pub unsafe fn from_raw(ferry: &Ferry, device: i32, address: u64, length: usize) -> DeviceBuffer<T> {
        Self::with(Owned::new(ferry, Resource::Foreign, None), device, address, length)
    }

    fn with(memory: Arc<Owned>, device: i32, address: u64, length: usize) -> DeviceBuffer<T> {
        DeviceBuffer { memory, device, address, length, elements: PhantomData }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device's number.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// The address, for kernels and `ferry_sys`.
    pub fn as_raw(&self) -> u64 {
        self.address
    }

    /// The whole buffer, as an end of copies.
    pub fn view(&self) -> DeviceView<'_, T> {
        DeviceView::line(self.device, self.address, self.length, &self.memory)
    }

    /// Frees the memory without waiting, once `stream` has passed its work so far. That must come after the program's
    /// kernels that use the memory.
    pub fn free_after(self, stream: &Stream) {
        self.memory.free_after(stream);
    }
}

/// A copy of a struct whose size is true: safe code may have changed the field, and ferry reads as many bytes.
macro_rules! sized {
    ($name:ident, $value:expr) => {
        sys::$name { struct_size: size_of::<sys::$name>() as u32, ..*$value }
    };
}

/// A CUDA array. `T` is its element: a texel of all channels, or a block of a compressed format.
pub struct Array<T> {
    memory: Arc<Owned>,
    device: i32,
    handle: *mut sys::CUarray_st,
    size: [usize; 3],
    elements: PhantomData<T>,
}

// SAFETY: ferry takes arrays on any thread.
unsafe impl<T: Element> Send for Array<T> {}
unsafe impl<T: Element> Sync for Array<T> {}

impl<T: Element> Array<T> {
    /// Creates an array. `T` must have the size of its elements.
    pub fn new(ferry: &Ferry, device: i32, desc: &sys::ferry_array_desc) -> Result<Array<T>> {
        let (desc, mut handle) = (sized!(ferry_array_desc, desc), null_mut());
        // SAFETY: the struct has its size; the call writes a handle.
        check(|error| unsafe { sys::ferry_array_create(ferry.as_raw(), device, &desc, &mut handle, error) })?;
        Self::with(ferry, Owned::new(ferry, Resource::Array(handle), None), device, handle)
    }

    /// Wraps an array of the program, such as a level or a plane. It is not destroyed.
    ///
    /// # Safety
    /// The array must live on `device` as long as the result and the copies of it.
    pub unsafe fn from_raw(ferry: &Ferry, device: i32, handle: *mut sys::CUarray_st) -> Result<Array<T>> {
        Self::with(ferry, Owned::new(ferry, Resource::Foreign, None), device, handle)
    }

    fn with(ferry: &Ferry, memory: Arc<Owned>, device: i32, handle: *mut sys::CUarray_st) -> Result<Array<T>> {
        let (mut desc, mut element) = (sys::ferry_array_desc::default(), 0);
        // SAFETY: the handle is an array's.
        check(|error| unsafe { sys::ferry_array_get_info(ferry.as_raw(), handle, &mut desc, &mut element, error) })?;
        if element as usize != size_of::<T>() {
            let (side, field) = (sys::FERRY_SIDE_OPTIONS, sys::FERRY_FIELD_FORMAT);
            let (value, limit) = (size_of::<T>() as u64, element.into());
            return Err(crate::Error::refusal(sys::FERRY_ERROR_ARRAY_FORMAT, side, field, value, limit));
        }
        let has_blocks = (sys::FERRY_FORMAT_BC1_UNORM..=sys::FERRY_FORMAT_BC7_UNORM_SRGB).contains(&desc.format);
        let side = if has_blocks { 4 } else { 1 };
        let rows = |texels: u64| ((texels + side - 1) / side).max(1) as usize;
        let size = [rows(desc.width), rows(desc.height), desc.depth.max(1) as usize];
        Ok(Array { memory, device, handle, size, elements: PhantomData })
    }

    /// The handle, a `CUarray`.
    pub fn as_raw(&self) -> *mut sys::CUarray_st {
        self.handle
    }

    /// The whole array, as an end of copies. Layers and faces are slices.
    pub fn view(&self) -> DeviceView<'_, T> {
        DeviceView::new(Shape::array::<T>(self.device, self.handle, self.size), &self.memory)
    }

    /// Destroys the array without waiting, once `stream` has passed its work so far. A new array of the same
    /// description may reuse it.
    pub fn free_after(self, stream: &Stream) {
        self.memory.free_after(stream);
    }
}

/// Pinned host memory, zero at first. Use it as a slice.
pub struct PinnedBuffer<T> {
    ferry: Ferry,
    address: NonNull<T>,
    length: usize,
    free_after: Option<Stream>,
}

impl<T: Element> PinnedBuffer<T> {
    /// Allocates `length` elements, at least one.
    pub fn new(ferry: &Ferry, length: usize) -> Result<PinnedBuffer<T>> {
        Self::with_options(ferry, length, &Default::default())
    }

    /// Allocates with options: the location of the memory, or that it may be pageable if necessary.
    pub fn with_options(ferry: &Ferry, length: usize, options: &sys::ferry_host_options) -> Result<PinnedBuffer<T>> {
        let (size, options) = (bytes_of::<T>(length), sized!(ferry_host_options, options));
        let mut block = sys::ferry_host_block::default();
        // SAFETY: both structs have their size; the call writes a block.
        check(|error| unsafe { sys::ferry_host_alloc(ferry.as_raw(), size, &options, &mut block, error) })?;
        let address = NonNull::new(block.address.cast()).expect("an allocated block has an address");
        // Less than requested if the options allow this.
        let length = (block.size / size_of::<T>() as u64) as usize;
        // SAFETY: the block is new and at least as large.
        unsafe { std::ptr::write_bytes(address.as_ptr(), 0, length) };
        Ok(PinnedBuffer { ferry: ferry.clone(), address, length, free_after: None })
    }

    /// Frees the memory without waiting, once `stream` has passed its work so far. That must come after the program's
    /// kernels that use the memory.
    pub fn free_after(mut self, stream: &Stream) {
        self.free_after = Some(stream.clone());
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let (ferry, address) = (self.ferry.as_raw(), self.address.as_ptr().cast::<c_void>());
        // SAFETY: nothing of ferry's uses the memory. A deferred free that fails leaves it to the other one.
        unsafe {
            match &self.free_after {
                Some(stream)
                    if sys::ferry_host_free_deferred(ferry, address, stream.as_raw(), null_mut())
                        == sys::FERRY_SUCCESS => {}
                _ => drop(sys::ferry_host_free(ferry, address, null_mut())),
            }
        }
    }
}

struct Pool {
    ferry: Ferry,
    handle: *mut sys::ferry_pinned_pool,
}

// SAFETY: any number of threads may call ferry on one pool. Drop has the last reference.
unsafe impl Send for Pool {}
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: blocks hold the pool, so all of them are free.
        unsafe { sys::ferry_pinned_pool_destroy(self.handle, null_mut()) };
        let _ = &self.ferry; // closes after the pool
    }
}

/// A pool of pinned host memory. Clones are the same pool; it lives as long as its blocks.
#[derive(Clone)]
pub struct PinnedPool(Arc<Pool>);

impl PinnedPool {
    /// Creates a pool. The default options are no limit, on any node.
    pub fn new(ferry: &Ferry, options: &sys::ferry_pinned_pool_options) -> Result<PinnedPool> {
        let (options, mut handle) = (sized!(ferry_pinned_pool_options, options), null_mut());
        // SAFETY: the struct has its size; the call writes a handle.
        check(|error| unsafe { sys::ferry_pinned_pool_create(ferry.as_raw(), &options, &mut handle, error) })?;
        Ok(PinnedPool(Arc::new(Pool { ferry: ferry.clone(), handle })))
    }

    /// Allocates a block and copies `data` into it.
    pub fn block<T: Element>(&self, data: &[T]) -> Result<PoolBlock<T>> {
        let block = self.allocate(data.len())?;
        // SAFETY: the block is new and has the length of the data.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), block.address.as_ptr(), data.len()) };
        Ok(block)
    }

    /// Allocates a block of zeros.
    pub fn zeros<T: Element>(&self, length: usize) -> Result<PoolBlock<T>> {
        let block = self.allocate(length)?;
        // SAFETY: the block is new and has the length.
        unsafe { std::ptr::write_bytes(block.address.as_ptr(), 0, length) };
        Ok(block)
    }

    fn allocate<T: Element>(&self, length: usize) -> Result<PoolBlock<T>> {
        let (size, mut address) = (bytes_of::<T>(length), null_mut());
        // SAFETY: the call writes an address. No stream uses the block any more.
        check(|error| unsafe { sys::ferry_pinned_pool_alloc(self.0.handle, size, &mut address, error) })?;
        let address = NonNull::new(address.cast()).expect("an allocated block has an address");
        Ok(PoolBlock { pool: self.clone(), address, length, free_after: None })
    }

    /// The bytes that the pool holds.
    pub fn stats(&self) -> Result<sys::ferry_pool_stats> {
        // SAFETY: the struct has its size.
        crate::error::filled(|stats, error| unsafe { sys::ferry_pinned_pool_get_stats(self.0.handle, stats, error) })
    }

    /// Resets the high-water marks.
    pub fn reset_stats(&self) -> Result<()> {
        // SAFETY: the pool lives.
        check(|error| unsafe { sys::ferry_pinned_pool_reset_stats(self.0.handle, error) })
    }

    /// Releases free memory until the pool holds at most `keep` bytes.
    pub fn trim(&self, keep: u64) -> Result<()> {
        // SAFETY: blocks that are in use stay.
        check(|error| unsafe { sys::ferry_pinned_pool_trim(self.0.handle, keep, error) })
    }
}

/// A block of a pinned pool. Use it as a slice.
pub struct PoolBlock<T> {
    pool: PinnedPool,
    address: NonNull<T>,
    length: usize,
    free_after: Option<Stream>,
}

impl<T: Element> PoolBlock<T> {
    /// Gives the block back once `stream` has passed its work so far. That must come after the program's kernels that
    /// use the block.
    pub fn free_after(mut self, stream: &Stream) {
        self.free_after = Some(stream.clone());
    }
}

impl<T> Drop for PoolBlock<T> {
    fn drop(&mut self) {
        let (pool, address) = (self.pool.0.handle, self.address.as_ptr().cast::<c_void>());
        // SAFETY: as for PinnedBuffer.
        unsafe {
            match &self.free_after {
                Some(stream)
                    if sys::ferry_pinned_pool_free_async(pool, address, stream.as_raw(), null_mut())
                        == sys::FERRY_SUCCESS => {}
                _ => drop(sys::ferry_pinned_pool_free(pool, address, null_mut())),
            }
        }
    }
}

macro_rules! slices {
    ($($name:ident),*) => { $(
        // SAFETY: an owner of elements, which are Send and Sync. ferry frees them on any thread.
        unsafe impl<T: Element> Send for $name<T> {}
        unsafe impl<T: Element> Sync for $name<T> {}

        impl<T> Deref for $name<T> {
            type Target = [T];
            fn deref(&self) -> &[T] {
                // SAFETY: this many elements, which are set, and which this value owns.
                unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.length) }
            }
        }

        impl<T> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut [T] {
                // SAFETY: as in deref().
                unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.length) }
            }
        }
    )* };
}
slices!(PinnedBuffer, PoolBlock);

/// Host memory that a transfer can own: its address stays when the value is moved.
///
/// # Safety
/// While the value is neither used nor dropped, `pointer` must point to `length` elements that nothing else uses.
pub unsafe trait HostBuffer {
    /// What the buffer consists of.
    type Element: Element;
    /// The first element.
    fn pointer(&mut self) -> *mut Self::Element;
    /// The number of elements.
    fn length(&self) -> usize;
}

macro_rules! host_buffers {
    ($($name:ident),*) => { $(
        // SAFETY: owns memory outside of itself.
        unsafe impl<T: Element> HostBuffer for $name<T> {
            type Element = T;
            fn pointer(&mut self) -> *mut T {
                self.as_mut_ptr()
            }
            fn length(&self) -> usize {
                self.len()
            }
        }
    )* };
}
host_buffers!(Vec, PinnedBuffer, PoolBlock);
