//! Views: memory and arrays as ends of copies. A view is a line, an image or a volume of elements of one type.

use crate::memory::{Array, DeviceBuffer, Owned, PinnedBuffer, PoolBlock};
use crate::{sys, Error, Result};
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// A type whose values ferry copies as bytes.
///
/// # Safety
/// Every pattern of bytes must be a value of the type: integers, floating-point numbers, and structs with `repr(C)` of
/// these, but not `bool`, `char`, enums or references.
pub unsafe trait Element: Copy + Send + Sync + 'static {}

macro_rules! elements {
    ($($name:ty)*) => { $(
        // SAFETY: a plain number.
        unsafe impl Element for $name {}
    )* };
}
elements!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: elements without gaps.
unsafe impl<T: Element, const N: usize> Element for [T; N] {}

/// A box of memory or of an array: where it begins, and its size. Widths count elements.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    place: sys::ferry_place,
    size: [usize; 3],
    element: usize,      // bytes
    row_pitch: usize,    // bytes
    slice_height: usize, // rows
}

// SAFETY: the handles of arrays and files may be used on any thread.
unsafe impl Send for Shape {}
unsafe impl Sync for Shape {}

impl Shape {
    fn line<T: Element>(kind: sys::Kind, device: i32, address: u64, length: usize) -> Shape {
        assert!(size_of::<T>() > 0, "an element of a copy has at least one byte");
        let place = sys::ferry_place { kind, device, address, ..Default::default() };
        Shape { place, ..Shape::tight::<T>([length, 1, 1]) }
    }

    pub(crate) fn array<T: Element>(device: i32, array: *mut sys::CUarray_st, size: [usize; 3]) -> Shape {
        let place = sys::ferry_place { kind: sys::FERRY_KIND_ARRAY, device, array, ..Default::default() };
        Shape { place, ..Shape::tight::<T>(size) }
    }

    pub(crate) fn file<T: Element>(file: *mut sys::ferry_file, offset: u64, length: usize) -> Shape {
        let mut shape = Shape::line::<T>(sys::FERRY_KIND_FILE, 0, offset, length);
        assert!(offset.checked_add(shape.row_pitch as u64).is_some(), "a file has at most u64::MAX bytes");
        shape.place.file = file;
        shape
    }

    fn tight<T: Element>(size: [usize; 3]) -> Shape {
        let row_pitch = size[0].checked_mul(size_of::<T>()).expect("a row has at most usize::MAX bytes");
        Shape { place: Default::default(), size, element: size_of::<T>(), row_pitch, slice_height: size[1] }
    }

    fn strided(self, size: [usize; 3], row_pitch: usize, slice_height: usize) -> Shape {
        assert!(self.place.kind != sys::FERRY_KIND_ARRAY, "an array has a shape already");
        assert!(self.size[1] == 1 && self.size[2] == 1, "only a line can be shaped");
        let [width, height, depth] = size;
        assert!(width <= row_pitch && height <= slice_height, "{size:?} does not fit its pitches");
        if !is_empty(size) {
            let reach = (depth - 1).checked_mul(slice_height).and_then(|rows| rows.checked_add(height - 1));
            let reach = reach.and_then(|rows| rows.checked_mul(row_pitch)).and_then(|end| end.checked_add(width));
            assert!(
                reach.map_or(false, |end| end <= self.size[0]),
                "{size:?} is larger than {} elements",
                self.size[0]
            );
        }
        let row_pitch = if is_empty(size) { width } else { row_pitch };
        Shape { size, row_pitch: row_pitch.saturating_mul(self.element), slice_height, ..self }
    }

    fn sub(mut self, origin: [usize; 3], size: [usize; 3]) -> Shape {
        for axis in 0..3 {
            let fits = origin[axis].checked_add(size[axis]).map_or(false, |end| end <= self.size[axis]);
            assert!(fits, "{size:?} at {origin:?} is not within {:?}", self.size);
        }
        let [x, y, z] = origin;
        if self.place.kind == sys::FERRY_KIND_ARRAY {
            self.place.x += (x * self.element) as u64;
            self.place.y += y as u64;
            self.place.z += z as u64;
        } else if !is_empty(size) {
            self.place.address += ((z * self.slice_height + y) * self.row_pitch + x * self.element) as u64;
        }
        self.size = size;
        self
    }

    /// The two parts of the box before and from `at` on.
    fn split(self, axis: usize, at: usize) -> [Shape; 2] {
        let (mut first, mut origin, mut second) = (self.size, [0; 3], self.size);
        assert!(at <= self.size[axis], "{at} is not within {:?}", self.size);
        first[axis] = at;
        origin[axis] = at;
        second[axis] -= at;
        [self.sub([0; 3], first), self.sub(origin, second)]
    }

    pub(crate) fn place(&self) -> sys::ferry_place {
        let mut place = self.place;
        let has_slices = self.size[2] > 1;
        let has_rows = has_slices || self.size[1] > 1;
        if place.kind != sys::FERRY_KIND_ARRAY {
            if has_rows && self.row_pitch != self.size[0] * self.element {
                place.row_pitch = self.row_pitch as u64;
            }
            if has_slices && self.slice_height != self.size[1] {
                place.slice_height = self.slice_height as u64;
            }
        }
        place
    }

    /// The extent in bytes, rows and slices. C counts a height or depth of 0 as 1, so width 0 means empty.
    pub(crate) fn extent(&self) -> [u64; 3] {
        let width = if is_empty(self.size) { 0 } else { self.size[0] * self.element };
        [width as u64, self.size[1] as u64, self.size[2] as u64]
    }

    pub(crate) fn count(&self) -> usize {
        self.size.iter().product()
    }

    /// Whether the elements follow each other without gaps.
    pub(crate) fn is_tight(&self) -> bool {
        let [_, height, depth] = self.size;
        (height <= 1 && depth <= 1 || self.row_pitch == self.size[0] * self.element)
            && (depth <= 1 || self.slice_height == height)
    }

    /// A tight box of the same size in host memory.
    pub(crate) fn in_host(&self, address: u64) -> Shape {
        let place = sys::ferry_place { kind: sys::FERRY_KIND_HOST, address, ..Default::default() };
        Shape { place, row_pitch: self.size[0] * self.element, slice_height: self.size[1], ..*self }
    }
}

fn is_empty(size: [usize; 3]) -> bool {
    size.contains(&0)
}

/// A copy's source: memory, an array or bytes of a file, borrowed while the copy may read it.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pub(crate) shape: Shape,
    memory: PhantomData<&'a [T]>,
}

/// A copy's destination: host memory, borrowed exclusively while the copy may write it; or device memory, an array or
/// bytes of a file.
pub struct ViewMut<'a, T> {
    pub(crate) shape: Shape,
    memory: PhantomData<&'a mut [T]>,
}

/// Device memory or an array. Rust code cannot reach its bytes, so a shared borrow is enough to write it: ferry orders
/// copies by their streams.
#[derive(Clone, Copy)]
pub struct DeviceView<'a, T> {
    pub(crate) shape: Shape,
    pub(crate) owner: &'a Arc<Owned>,
    memory: PhantomData<&'a [T]>,
}

/// Bytes of a file: see [`File`]. ferry orders its accesses by their streams, so a shared borrow is enough to write the
/// file.
///
/// [`File`]: crate::File
#[derive(Clone, Copy)]
pub struct FileView<'a, T> {
    shape: Shape,
    memory: PhantomData<&'a [T]>,
}

macro_rules! boxes {
    ($name:ident) => {
        impl<'a, T: Element> $name<'a, T> {
            /// Width in elements, height in rows, depth in slices.
            pub fn size(&self) -> [usize; 3] {
                self.shape.size
            }

            /// The first elements of a line as rows and slices without gaps.
            ///
            /// # Panics
            /// If the line has fewer elements, or is no line of memory.
            pub fn shaped(self, size: [usize; 3]) -> Self {
                self.strided(size, size[0], size[1])
            }

            /// A line as rows of `row_pitch` elements and slices of `slice_height` rows, of which the box takes a part.
            ///
            /// # Panics
            /// As [`Self::shaped`]; and if a pitch is less than the box needs.
            pub fn strided(self, size: [usize; 3], row_pitch: usize, slice_height: usize) -> Self {
                Self { shape: self.shape.strided(size, row_pitch, slice_height), ..self }
            }

            /// A box inside the view.
            ///
            /// # Panics
            /// If it is not inside.
            pub fn sub(self, origin: [usize; 3], size: [usize; 3]) -> Self {
                Self { shape: self.shape.sub(origin, size), ..self }
            }
        }
    };
}
boxes!(View);
boxes!(ViewMut);
boxes!(DeviceView);
boxes!(FileView);

impl<'a, T: Element> View<'a, T> {
    /// The whole of a slice, a buffer or an array.
    pub fn of(memory: impl Into<View<'a, T>>) -> View<'a, T> {
        memory.into()
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// The whole of a slice, a buffer or an array.
    pub fn of(memory: impl Into<ViewMut<'a, T>>) -> ViewMut<'a, T> {
        memory.into()
    }

    /// Two boxes that can be written independently: before `at` and from `at` on, in columns (axis 0), rows (1) or
    /// slices (2).
    ///
    /// # Panics
    /// If `at` is outside.
    pub fn split(self, axis: usize, at: usize) -> (ViewMut<'a, T>, ViewMut<'a, T>) {
        let [first, second] = self.shape.split(axis, at);
        (ViewMut { shape: first, memory: PhantomData }, ViewMut { shape: second, memory: PhantomData })
    }
}

impl<'a, T: Element> DeviceView<'a, T> {
    pub(crate) fn new(shape: Shape, owner: &'a Arc<Owned>) -> Self {
        DeviceView { shape, owner, memory: PhantomData }
    }

    pub(crate) fn line(device: i32, address: u64, length: usize, owner: &'a Arc<Owned>) -> Self {
        Self::new(Shape::line::<T>(sys::FERRY_KIND_DEVICE, device, address, length), owner)
    }
}

impl<T: Element> FileView<'_, T> {
    pub(crate) fn new(shape: Shape) -> Self {
        FileView { shape, memory: PhantomData }
    }
}

impl<'a, T: Element> From<&'a [T]> for View<'a, T> {
    fn from(memory: &'a [T]) -> Self {
        let address = memory.as_ptr() as usize as u64;
        let shape = Shape::line::<T>(sys::FERRY_KIND_HOST, 0, address, memory.len());
        View { shape, memory: PhantomData }
    }
}

impl<'a, T: Element> From<&'a mut [T]> for ViewMut<'a, T> {
    fn from(memory: &'a mut [T]) -> Self {
        let address = memory.as_mut_ptr() as usize as u64;
        let shape = Shape::line::<T>(sys::FERRY_KIND_HOST, 0, address, memory.len());
        ViewMut { shape, memory: PhantomData }
    }
}

macro_rules! host_memory {
    ($($name:ty),*) => { $(
        impl<'a, T: Element> From<&'a $name> for View<'a, T> {
            fn from(memory: &'a $name) -> Self {
                (&memory[..]).into()
            }
        }
        impl<'a, T: Element> From<&'a mut $name> for ViewMut<'a, T> {
            fn from(memory: &'a mut $name) -> Self {
                (&mut memory[..]).into()
            }
        }
    )* };
}
host_memory!(Vec<T>, PinnedBuffer<T>, PoolBlock<T>);

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for View<'a, T> {
    fn from(memory: &'a [T; N]) -> Self {
        (&memory[..]).into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a mut [T; N]> for ViewMut<'a, T> {
    fn from(memory: &'a mut [T; N]) -> Self {
        (&mut memory[..]).into()
    }
}

macro_rules! ends {
    ($($end:ident),*) => { $(
        impl<'a, T: Element> From<DeviceView<'a, T>> for $end<'a, T> {
            fn from(view: DeviceView<'a, T>) -> Self {
                $end { shape: view.shape, memory: PhantomData }
            }
        }
        impl<'a, T: Element> From<FileView<'a, T>> for $end<'a, T> {
            fn from(view: FileView<'a, T>) -> Self {
                $end { shape: view.shape, memory: PhantomData }
            }
        }
        impl<'a, T: Element> From<&'a DeviceBuffer<T>> for $end<'a, T> {
            fn from(buffer: &'a DeviceBuffer<T>) -> Self {
                buffer.view().into()
            }
        }
        impl<'a, T: Element> From<&'a Array<T>> for $end<'a, T> {
            fn from(array: &'a Array<T>) -> Self {
                array.view().into()
            }
        }
    )* };
}
ends!(View, ViewMut);

impl<'a, T: Element> From<&'a DeviceBuffer<T>> for DeviceView<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.view()
    }
}

impl<'a, T: Element> From<&'a Array<T>> for DeviceView<'a, T> {
    fn from(array: &'a Array<T>) -> Self {
        array.view()
    }
}

/// One copy: its ends, borrowed.
#[repr(transparent)]
pub struct CopyDesc<'a> {
    pub(crate) raw: sys::ferry_copy_desc,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: the handles of arrays and files may be used on any thread, and the memory is of elements, which are Send and
// Sync.
unsafe impl Send for CopyDesc<'_> {}
unsafe impl Sync for CopyDesc<'_> {}

impl<'a> CopyDesc<'a> {
    /// A copy between two views of one size. Otherwise the error names the smaller side.
    pub fn new<T: Element>(
        source: impl Into<View<'a, T>>,
        destination: impl Into<ViewMut<'a, T>>,
    ) -> Result<CopyDesc<'a>> {
        CopyDesc::between(&source.into().shape, &destination.into().shape)
    }

    pub(crate) fn between(source: &Shape, destination: &Shape) -> Result<CopyDesc<'a>> {
        let fields = [sys::FERRY_FIELD_WIDTH, sys::FERRY_FIELD_HEIGHT, sys::FERRY_FIELD_DEPTH];
        let (from, to) = (source.extent(), destination.extent());
        for ((from, to), field) in from.into_iter().zip(to).zip(fields) {
            let side = if from < to { sys::FERRY_SIDE_SOURCE } else { sys::FERRY_SIDE_DESTINATION };
            if from != to {
                let (value, limit) = (from.max(to), from.min(to));
                return Err(Error::refusal(sys::FERRY_ERROR_OUT_OF_BOUNDS, side, field, value, limit));
            }
        }
        let [width, height, depth] = from;
        let (source, destination) = (source.place(), destination.place());
        let raw = sys::ferry_copy_desc { source, destination, width, height, depth, ..Default::default() };
        Ok(CopyDesc { raw, memory: PhantomData })
    }

    pub(crate) fn devices(&self) -> [i32; 2] {
        let device_of = |place: &sys::ferry_place| match place.kind {
            sys::FERRY_KIND_DEVICE | sys::FERRY_KIND_ARRAY => place.device,
            _ => sys::FERRY_DEVICE_UNKNOWN,
        };
        [device_of(&self.raw.source), device_of(&self.raw.destination)]
    }
}

/// Many small copies of lines, each from anywhere to anywhere: the fastest form for thousands. Either no source is in a
/// file, or all sources are in one file. Pieces of a file fill device memory, such as all tensors of a model.
#[derive(Default)]
pub struct Pieces<'a> {
    pub(crate) all: Vec<sys::ferry_piece>,
    pub(crate) devices: Vec<i32>,
    source_file: Option<NonNull<sys::ferry_file>>,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: as for CopyDesc.
unsafe impl Send for Pieces<'_> {}
unsafe impl Sync for Pieces<'_> {}

impl<'a> Pieces<'a> {
    /// No pieces yet.
    pub fn new() -> Pieces<'a> {
        Pieces::default()
    }

    /// Adds a copy between two views of one size, whose elements follow each other without gaps. The error of a source
    /// that is not in the file of the sources before it names `FERRY_FIELD_SOURCE_FILE`.
    pub fn push<T: Element>(
        &mut self,
        source: impl Into<View<'a, T>>,
        destination: impl Into<ViewMut<'a, T>>,
    ) -> Result<()> {
        let (source, destination) = (source.into().shape, destination.into().shape);
        let copy = CopyDesc::between(&source, &destination)?;
        let sides = [(source, sys::FERRY_SIDE_SOURCE), (destination, sys::FERRY_SIDE_DESTINATION)];
        for (shape, side) in sides {
            let kind = shape.place.kind;
            let is_written_file = kind == sys::FERRY_KIND_FILE && side == sys::FERRY_SIDE_DESTINATION;
            if kind == sys::FERRY_KIND_ARRAY || is_written_file {
                let (status, field) = (sys::FERRY_ERROR_OTHER_KIND, sys::FERRY_FIELD_KIND);
                return Err(Error::refusal(status, side, field, kind.0 as u64, 0));
            }
            if !shape.is_tight() {
                let pitch = shape.row_pitch as u64;
                return Err(Error::refusal(sys::FERRY_ERROR_PITCH, side, sys::FERRY_FIELD_ROW_PITCH, pitch, 0));
            }
        }
        let file = NonNull::new(source.place.file);
        if !self.is_empty() && file != self.source_file {
            let (side, field) = (sys::FERRY_SIDE_PIECES, sys::FERRY_FIELD_SOURCE_FILE);
            return Err(Error::refusal(sys::FERRY_ERROR_HANDLE, side, field, 0, 0));
        }
        self.source_file = file;
        let size = copy.raw.width * copy.raw.height.max(1) * copy.raw.depth.max(1);
        let (source, destination) = (copy.raw.source.address, copy.raw.destination.address);
        self.all.push(sys::ferry_piece { destination, source, size });
        for device in copy.devices() {
            if !self.devices.contains(&device) {
                self.devices.push(device);
            }
        }
        Ok(())
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The list that calls read.
    pub(crate) fn list(&self) -> sys::ferry_piece_list {
        let mut list = sys::ferry_piece_list::default();
        // SAFETY: the list refers to the pieces, which outlive it in every call.
        unsafe { sys::ferry_piece_list_set(&mut list, self.all.as_ptr(), self.len() as u64) };
        list.source_file = self.source_file.map_or(null_mut(), NonNull::as_ptr);
        list
    }

    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.iter().map(|piece| piece.size)
    }
}
