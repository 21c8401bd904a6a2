//! Sizes around 2 and 4 GiB, in a process of their own: the first instance decides how much memory a device has.
use ferry::*;

const LARGEST: usize = (1 << 32) + 5;
const SIZES: [usize; 6] = [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, 1 << 32, LARGEST];

/// Only the largest copy is made whole. Its source is hardly written, so it takes no memory.
#[test]
fn sizes_above_32_bits_arrive_or_are_refused() {
    let ferry = Ferry::open(Options::new(Driver::Software).software(1, 5 << 30)).unwrap();
    let stream = Stream::new(&ferry, 0).unwrap();
    let device = DeviceBuffer::<u8>::new(&ferry, 0, LARGEST).unwrap();
    let mut host = vec![0u8; LARGEST];
    let (first, last) = ([1u8, 2, 3, 4, 5, 6, 7, 8], [11u8, 12, 13, 14, 15, 16, 17, 18]);
    let at = |offset: usize| {
        let mut bytes = [0u8; 8];
        ferry.copy(device.view().sub([offset, 0, 0], [8, 1, 1]), &mut bytes).unwrap();
        bytes
    };
    host[..8].copy_from_slice(&first);
    for size in SIZES {
        let there = device.view().sub([0, 0, 0], [size, 1, 1]);
        ferry.explain(&CopyDesc::new(&host[..size], there).unwrap(), None).unwrap();
        let error = ferry.copy(&host[..size - 1], there).unwrap_err();
        assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_SOURCE, sys::FERRY_FIELD_WIDTH));
        assert_eq!((error.value(), error.limit()), (size as u64, size as u64 - 1));

        // The last 8 bytes, and the last row of two that are as far apart as rows can be.
        host[size - 8..size].copy_from_slice(&last);
        ferry.copy(&host[size - 8..size], device.view().sub([size - 8, 0, 0], [8, 1, 1])).unwrap();
        assert_eq!(at(size - 8), last);
        let pitch = size / 2;
        if pitch < 1 << 31 {
            host[2 * pitch - 8..2 * pitch].copy_from_slice(&first);
            let (rows, corner, part) = ([pitch, 2, 1], [pitch - 8, 0, 0], [8, 2, 1]);
            let from = View::of(&host).strided(rows, pitch, 2).sub(corner, part);
            ferry.copy(from, device.view().strided(rows, pitch, 2).sub(corner, part)).unwrap();
            assert_eq!(at(2 * pitch - 8), first);
        }
        let mut pieces = Pieces::new();
        let piece = |first| device.view().sub([first, 0, 0], [4, 1, 1]);
        pieces.push(piece(size - 4), piece(size - 8)).unwrap();
        ferry.scope(|scope| scope.copy_pieces(&stream, &pieces, None)).unwrap();
        assert_eq!(at(size - 8)[..4], at(size - 8)[4..]);
    }
    host[..8].copy_from_slice(&first);
    host[LARGEST - 8..].copy_from_slice(&last);
    let by_driver = CopyOptions::new().route(sys::FERRY_ROUTE_DRIVER);
    ferry.run(&CopyDesc::new(&host, &device).unwrap(), Some(&by_driver)).unwrap();
    assert_eq!((at(0), at(LARGEST - 8)), (first, last));
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let ferry = Ferry::open(Options::new(Driver::Software).software(1, 5 << 30)).unwrap();
    let pool = PinnedPool::new(&ferry, &Default::default()).unwrap();
    for length in [1 << 62, isize::MAX as usize, usize::MAX] {
        assert!(DeviceBuffer::<u8>::new(&ferry, 0, length).is_err());
        assert!(PinnedBuffer::<u8>::new(&ferry, length).is_err());
        assert!(pool.zeros::<u8>(length).is_err());
        // In bytes, the length does not fit.
        assert!(std::panic::catch_unwind(|| DeviceBuffer::<[u64; 4]>::new(&ferry, 0, length)).is_err());
        assert!(std::panic::catch_unwind(|| pool.zeros::<[u64; 4]>(length)).is_err());
    }
    let device = DeviceBuffer::<u64>::new(&ferry, 0, 16).unwrap();
    for (size, pitch, height) in [
        ([1, 2, 1], usize::MAX, 2),
        ([1, 2, 1], (usize::MAX >> 3) + 1, 2),
        ([1, 1, 2], 1 << 33, 1 << 33),
        ([1, usize::MAX, 2], 1, usize::MAX),
        ([2, usize::MAX / 2 + 1, 1], 2, usize::MAX),
    ] {
        let shape = || device.view().strided(size, pitch, height).size();
        assert!(std::panic::catch_unwind(shape).is_err(), "{size:?} {pitch} {height}");
    }
}
