//! Every kind of memory to every other, in one, two and three dimensions, against a copy in plain Rust. All bytes of
//! both ends are compared, so also those around the box.
use ferry::*;

mod open;
use open::{open, open_with};

const SOURCE: [usize; 3] = [23, 9, 5]; // elements, rows and slices of the whole source
const DESTINATION: [usize; 3] = [31, 11, 6];

/// Boxes: the origin in the source, in the destination, and the size.
const BOXES: [[[usize; 3]; 3]; 8] = [
    [[0, 0, 0], [0, 0, 0], [23, 1, 1]],
    [[3, 0, 0], [7, 0, 0], [1, 1, 1]],
    [[0, 0, 0], [0, 0, 0], [23, 9, 1]],
    [[2, 1, 0], [5, 2, 0], [17, 6, 1]],
    [[0, 0, 0], [0, 0, 0], [23, 9, 5]],
    [[4, 2, 1], [9, 3, 2], [16, 5, 3]],
    [[22, 8, 4], [30, 10, 5], [1, 1, 1]],
    [[1, 1, 1], [1, 1, 1], [0, 3, 2]],
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Host,
    Pinned,
    Device,
    Array,
}
const KINDS: [Kind; 4] = [Kind::Host, Kind::Pinned, Kind::Device, Kind::Array];

enum Memory {
    Host(Vec<u32>),
    Pinned(PinnedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Array(Array<u32>),
}

impl Memory {
    fn new(ferry: &Ferry, kind: Kind, size: [usize; 3]) -> Memory {
        let count = size.iter().product();
        match kind {
            Kind::Host => Memory::Host(vec![0; count]),
            Kind::Pinned => Memory::Pinned(PinnedBuffer::new(ferry, count).unwrap()),
            Kind::Device => Memory::Device(DeviceBuffer::new(ferry, 0, count).unwrap()),
            Kind::Array => Memory::Array(Array::new(ferry, 0, &description(size)).unwrap()),
        }
    }

    fn with(ferry: &Ferry, kind: Kind, size: [usize; 3], contents: &[u32]) -> Memory {
        let mut memory = Memory::new(ferry, kind, size);
        ferry.copy(View::of(contents).shaped(size), memory.destination(size)).unwrap();
        memory
    }

    fn source(&self, size: [usize; 3]) -> View<'_, u32> {
        match self {
            Memory::Host(memory) => View::of(memory).shaped(size),
            Memory::Pinned(memory) => View::of(memory).shaped(size),
            Memory::Device(memory) => View::of(memory).shaped(size),
            Memory::Array(memory) => memory.into(),
        }
    }

    fn destination(&mut self, size: [usize; 3]) -> ViewMut<'_, u32> {
        match self {
            Memory::Host(memory) => ViewMut::of(memory).shaped(size),
            Memory::Pinned(memory) => ViewMut::of(memory).shaped(size),
            Memory::Device(memory) => ViewMut::of(&*memory).shaped(size),
            Memory::Array(memory) => (&*memory).into(),
        }
    }

    fn contents(&self, ferry: &Ferry, size: [usize; 3]) -> Vec<u32> {
        let mut contents = vec![0; size.iter().product()];
        ferry.copy(self.source(size), ViewMut::of(&mut contents).shaped(size)).unwrap();
        contents
    }
}

fn description(size: [usize; 3]) -> sys::ferry_array_desc {
    let [width, height, depth] = size.map(|side| side as u64);
    let format = sys::FERRY_FORMAT_UINT32;
    sys::ferry_array_desc { format, channels: 1, width, height, depth, ..Default::default() }
}

fn numbers(seed: u32, size: [usize; 3]) -> Vec<u32> {
    (0..size.iter().product::<usize>() as u32).map(|i| (i + seed).wrapping_mul(2_654_435_761)).collect()
}

fn copied_in_rust(source: &[u32], destination: &mut [u32], [from, to, size]: [[usize; 3]; 3]) {
    let index = |of: [usize; 3], x: usize, y: usize, z: usize| (z * of[1] + y) * of[0] + x;
    for z in 0..size[2] {
        for y in 0..size[1] {
            for x in 0..size[0] {
                destination[index(DESTINATION, to[0] + x, to[1] + y, to[2] + z)] =
                    source[index(SOURCE, from[0] + x, from[1] + y, from[2] + z)];
            }
        }
    }
}

#[test]
fn every_box_arrives_between_all_kinds_of_memory() {
    let ferry = open_with(Options::new(Driver::Software).full_checks());
    let stream = Stream::new(&ferry, 0).unwrap();
    let (sent, before) = (numbers(1, SOURCE), numbers(7777, DESTINATION));
    for (from, to) in KINDS.iter().flat_map(|from| KINDS.iter().map(move |to| (*from, *to))) {
        let source = Memory::with(&ferry, from, SOURCE, &sent);
        for shape in BOXES {
            for is_async in [false, true] {
                let mut destination = Memory::with(&ferry, to, DESTINATION, &before);
                let view = source.source(SOURCE).sub(shape[0], shape[2]);
                let place = destination.destination(DESTINATION).sub(shape[1], shape[2]);
                if is_async {
                    ferry.scope(|scope| scope.copy(&stream, view, place)).unwrap();
                } else {
                    ferry.copy(view, place).unwrap();
                }
                let mut expected = before.clone();
                copied_in_rust(&sent, &mut expected, shape);
                assert_eq!(destination.contents(&ferry, DESTINATION), expected, "{from:?} to {to:?}, {shape:?}");
                assert_eq!(source.contents(&ferry, SOURCE), sent, "{from:?} to {to:?}, {shape:?}: the source");
            }
        }
    }
}

#[test]
fn a_fill_writes_its_box_alone() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let before = numbers(5, DESTINATION);
    for kind in [Kind::Pinned, Kind::Device] {
        for [_, origin, size] in BOXES {
            let mut memory = Memory::with(&ferry, kind, DESTINATION, &before);
            ferry.fill(memory.destination(DESTINATION).sub(origin, size), 0xabcd_ef01, None).unwrap();
            let filled = memory.contents(&ferry, DESTINATION);
            ferry
                .scope(|scope| scope.fill(&stream, memory.destination(DESTINATION).sub(origin, size), 7, None))
                .unwrap();
            let again = memory.contents(&ferry, DESTINATION);
            for (i, value) in before.iter().enumerate() {
                let [width, height, _] = DESTINATION;
                let at = [i % width, i / width % height, i / width / height];
                let is_inside = (0..3).all(|axis| (origin[axis]..origin[axis] + size[axis]).contains(&at[axis]));
                assert_eq!(filled[i], if is_inside { 0xabcd_ef01 } else { *value }, "{kind:?} {at:?}");
                assert_eq!(again[i], if is_inside { 7 } else { *value }, "{kind:?} {at:?}");
            }
        }
    }
}

#[test]
fn strided_boxes_of_one_image_can_be_written_at_once() {
    let ferry = open();
    let device = DeviceBuffer::new(&ferry, 0, 64).unwrap();
    ferry.copy(&(0..64u16).collect::<Vec<_>>(), &device).unwrap();
    let mut image = [0xffffu16; 100];
    // Rows of 8 in an image whose rows are 10 apart; the columns are written by two copies.
    let (left, right) = ViewMut::of(&mut image[1..]).strided([8, 8, 1], 10, 8).split(0, 3);
    let rows = device.view().shaped([8, 8, 1]);
    let copies = [
        CopyDesc::new(rows.sub([0, 0, 0], [3, 8, 1]), left).unwrap(),
        CopyDesc::new(rows.sub([3, 0, 0], [5, 8, 1]), right).unwrap(),
    ];
    let check_overlap = CopyOptions::new().flags(sys::FERRY_COPY_CHECK_OVERLAP);
    ferry.copy_batch(&copies, Some(&check_overlap)).unwrap();
    for (i, value) in image.iter().enumerate() {
        let (x, y) = (i % 10, i / 10);
        let is_inside = (1..9).contains(&x) && y < 8;
        assert_eq!(*value, if is_inside { (y * 8 + x - 1) as u16 } else { 0xffff });
    }
}

#[test]
fn an_empty_box_writes_nothing_in_any_dimension() {
    let ferry = open();
    let device = DeviceBuffer::new(&ferry, 0, 8).unwrap();
    ferry.copy(&[1u8; 8], &device).unwrap();
    for size in [[0, 1, 1], [8, 0, 1], [8, 1, 0], [usize::MAX, 0, 1], [0, 0, 0]] {
        let mut received = [9u8; 8];
        ferry.copy(device.view().shaped(size), ViewMut::of(&mut received).shaped(size)).unwrap();
        assert_eq!(received, [9; 8], "{size:?}");
    }
}

#[test]
fn views_refuse_boxes_that_do_not_fit() {
    let data = [0u8; 24];
    let line = View::of(&data);
    let refused: [&(dyn Fn() -> [usize; 3] + std::panic::RefUnwindSafe); 8] = [
        &|| line.shaped([5, 5, 1]).size(),
        &|| line.shaped([usize::MAX, 2, 1]).size(),
        &|| line.strided([4, 2, 1], 3, 2).size(),
        &|| line.strided([4, 2, 2], 5, 4).size(),
        &|| line.strided([4, 2, 2], usize::MAX, usize::MAX).size(),
        &|| line.shaped([4, 6, 1]).sub([1, 0, 0], [4, 6, 1]).size(),
        &|| line.shaped([4, 6, 1]).sub([usize::MAX, 0, 0], [2, 1, 1]).size(),
        &|| line.shaped([4, 6, 1]).shaped([4, 6, 1]).size(),
    ];
    for (i, call) in refused.iter().enumerate() {
        assert!(std::panic::catch_unwind(*call).is_err(), "call {i}");
    }
    assert_eq!(line.strided([4, 2, 2], 5, 2).size(), [4, 2, 2]); // the last element is the 19th
}
