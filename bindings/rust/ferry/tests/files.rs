//! Files: what is read and written, and how failures are reported.
use ferry::*;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

mod open;
use open::open;

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ferry-fähre-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn noise(size: usize) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn contents<T: Element + Default>(ferry: &Ferry, device: &DeviceBuffer<T>) -> Vec<T> {
    let mut received = vec![T::default(); device.len()];
    ferry.copy(device, &mut received).unwrap();
    received
}

fn to_write() -> sys::ferry_file_options {
    let flags = sys::FERRY_FILE_WRITE | sys::FERRY_FILE_CREATE | sys::FERRY_FILE_TRUNCATE;
    sys::ferry_file_options { flags, ..Default::default() }
}

fn open_to_read(ferry: &Ferry, path: impl AsRef<Path>) -> File {
    File::open(ferry, path, &Default::default()).unwrap()
}

/// A box of a volume on the device into a box of a file, and back, with and without a stream.
#[test]
fn a_box_goes_to_a_file_and_back_and_changes_nothing_around_it() {
    let (ferry, folder) = (open(), Folder::new("box"));
    let stream = Stream::new(&ferry, 0).unwrap();
    let (whole, sent) = ([700, 40, 3], noise(700 * 40 * 3 * 2));
    let sent: Vec<u16> = sent.chunks(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
    let device = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
    ferry.copy(&sent, &device).unwrap();
    let (origin, size) = ([11, 5, 1], [300, 20, 2]);
    for is_async in [false, true] {
        let before = noise(90_000);
        let path = folder.file("boxes", &before);
        let both = sys::FERRY_FILE_READ | sys::FERRY_FILE_WRITE;
        let file = File::open(&ferry, &path, &sys::ferry_file_options { flags: both, ..Default::default() }).unwrap();
        let there = file.view::<u16>(4096, 40_000).strided([500, 24, 3], 500, 24).sub([7, 2, 1], size);
        let received = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
        ferry.fill(&received, 0u16, None).unwrap();
        let here = |buffer| DeviceBuffer::view(buffer).shaped(whole).sub(origin, size);
        let copies = [CopyDesc::new(here(&device), there).unwrap(), CopyDesc::new(there, here(&received)).unwrap()];
        for copy in &copies {
            if is_async {
                let ticket = ferry.scope(|scope| scope.run_copy_with_ticket(&stream, copy, None)).unwrap();
                let info = ticket.info().unwrap();
                assert_eq!((info.done, info.status, info.bytes_done), (1, sys::FERRY_SUCCESS, 2 * 300 * 20 * 2));
                assert_eq!((info.file_error, info.file_offset), (0, 0));
            } else {
                ferry.run(copy, None).unwrap();
            }
        }
        let (mut expected, mut expected_file) = (vec![0; sent.len()], before);
        for (z, y) in (0..2).flat_map(|z| (0..20).map(move |y| (z, y))) {
            let from = ((z + 1) * 40 + y + 5) * 700 + 11;
            let to = 4096 + 2 * (((z + 1) * 24 + y + 2) * 500 + 7);
            expected[from..from + 300].copy_from_slice(&sent[from..from + 300]);
            for (i, element) in sent[from..from + 300].iter().enumerate() {
                expected_file[to + 2 * i..to + 2 * i + 2].copy_from_slice(&element.to_ne_bytes());
            }
        }
        assert!(fs::read(&path).unwrap() == expected_file);
        assert!(contents(&ferry, &received) == expected);
    }
}

#[test]
fn a_file_is_made_and_its_old_bytes_are_removed() {
    let (ferry, folder) = (open(), Folder::new("made"));
    let device = DeviceBuffer::new(&ferry, 0, 1000).unwrap();
    ferry.fill(&device, 7u8, None).unwrap();
    let path = folder.0.join("new");
    for _ in 0..2 {
        let file = File::open(&ferry, &path, &to_write()).unwrap();
        assert_eq!((file.info().unwrap().size, file.info().unwrap().flags), (0, sys::FERRY_FILE_WRITE));
        ferry.copy(&device, file.view(5, 1000)).unwrap();
        assert_eq!(file.info().unwrap().size, 1005);
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), [vec![0; 5], vec![7; 1000]].concat());
        fs::write(&path, [1; 5000]).unwrap();
    }
}

#[test]
fn pieces_of_a_file_are_one_copy() {
    let (ferry, folder, content) = (open(), Folder::new("pieces"), noise(300_000));
    let stream = Stream::new(&ferry, 0).unwrap();
    let file = open_to_read(&ferry, folder.file("tensors", &content));
    let places = [(299_999, 1), (0, 1000), (1000, 7), (1007, 65_536), (100_000, 12_345)];
    for is_async in [false, true] {
        let tensors = places.map(|(_, size)| DeviceBuffer::<u8>::new(&ferry, 0, size).unwrap());
        let mut pieces = Pieces::new();
        for ((offset, size), tensor) in places.iter().zip(&tensors) {
            pieces.push(file.view(*offset, *size), tensor).unwrap();
        }
        if is_async {
            let ticket = ferry.scope(|scope| scope.copy_pieces_with_ticket(&stream, &pieces, None)).unwrap();
            assert_eq!(ticket.info().unwrap().bytes_done, places.iter().map(|(_, size)| *size as u64).sum());
        } else {
            ferry.copy_pieces(&pieces, None).unwrap();
        }
        for ((offset, size), tensor) in places.iter().zip(&tensors) {
            assert!(contents(&ferry, tensor) == content[*offset as usize..*offset as usize + size]);
        }
    }
}

#[test]
fn pieces_refuse_sources_of_two_files_and_destinations_in_a_file() {
    let (ferry, folder) = (open(), Folder::new("mixed"));
    let path = folder.file("content", &noise(100));
    let (file, other) = (open_to_read(&ferry, &path), open_to_read(&ferry, &path));
    let (device, host) = (DeviceBuffer::<u8>::new(&ferry, 0, 10).unwrap(), [0u8; 10]);
    let mut pieces = Pieces::new();
    pieces.push(file.view(0, 10), &device).unwrap();
    for error in [pieces.push(other.view(0, 10), &device).unwrap_err(), pieces.push(&host, &device).unwrap_err()] {
        assert_eq!((error.status(), error.side()), (sys::FERRY_ERROR_HANDLE, sys::FERRY_SIDE_PIECES), "{error}");
        assert_eq!(error.field(), sys::FERRY_FIELD_SOURCE_FILE);
    }
    let error = pieces.push(&device, file.view(0, 10)).unwrap_err();
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_DESTINATION, sys::FERRY_FIELD_KIND));
    assert_eq!(pieces.len(), 1);
    let stream = Stream::new(&ferry, 0).unwrap();
    let error = stream.prepare_pieces(&pieces, None).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_UNSUPPORTED, sys::FERRY_FIELD_SOURCE_FILE));
}

#[test]
fn a_file_of_the_program_keeps_its_position_and_may_be_closed() {
    let (ferry, folder, content) = (open(), Folder::new("descriptor"), noise(1000));
    let mut own = fs::OpenOptions::new().read(true).write(true).open(folder.file("own", &content)).unwrap();
    own.seek(SeekFrom::Start(50)).unwrap();
    let file = File::open_descriptor(&ferry, &own, &sys::ferry_file_options::default()).unwrap();
    let info = file.info().unwrap();
    assert_eq!((info.size, info.flags), (1000, sys::FERRY_FILE_READ | sys::FERRY_FILE_WRITE));
    let device = DeviceBuffer::<u8>::new(&ferry, 0, 100).unwrap();
    ferry.copy(file.view(3, 100), &device).unwrap();
    assert_eq!(contents(&ferry, &device), content[3..103]);
    assert_eq!(own.stream_position().unwrap(), 50);
    drop(own);
    ferry.copy(&device, file.view(200, 100)).unwrap();
    let mut read = Vec::new();
    fs::File::open(folder.0.join("own")).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read[200..300], content[3..103]);
}

/// The size of every file in sysfs is 4096 bytes, but this file ends earlier.
#[test]
fn a_file_that_ends_early_fails_its_ticket_and_its_copy() {
    let ferry = open();
    let path = "/sys/devices/system/cpu/online";
    let end = fs::read(path).unwrap().len() as u64;
    let (file, stream) = (open_to_read(&ferry, path), Stream::new(&ferry, 0).unwrap());
    let device = DeviceBuffer::<u8>::new(&ferry, 0, 100).unwrap();
    let copy = CopyDesc::new(file.view(1, 100), &device).unwrap();
    let ticket = ferry.scope(|scope| scope.run_copy_with_ticket(&stream, &copy, None)).unwrap();
    let info = ticket.info().unwrap();
    assert_eq!((info.status, info.file_error), (sys::FERRY_ERROR_FILE, sys::FERRY_FILE_ENDED));
    assert_eq!(info.file_offset, end);
    for error in [ticket.wait().unwrap_err(), ferry.run(&copy, None).unwrap_err()] {
        assert_eq!((error.status(), error.numbers()), (sys::FERRY_ERROR_FILE, sys::FERRY_NUMBERS_SYSTEM));
        assert_eq!((error.file_error(), error.limit()), (Some(sys::FERRY_FILE_ENDED), end), "{error}");
    }
    stream.synchronize().unwrap(); // goes on
    ticket.cancel().unwrap(); // it has ended
    let other = DeviceBuffer::<u8>::new(&ferry, 0, 100).unwrap();
    let copy = CopyDesc::new(&other, &device).unwrap();
    let of_memory = ferry.scope(|scope| scope.run_copy_with_ticket(&stream, &copy, None)).unwrap();
    let error = of_memory.cancel().unwrap_err();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_UNSUPPORTED, sys::FERRY_FIELD_TICKET));
}

#[test]
fn what_cannot_be_opened_or_copied_is_named() {
    let (ferry, folder) = (open(), Folder::new("refused"));
    let options = Default::default();
    let error = File::open(&ferry, folder.0.join("missing"), &options).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_FILE, sys::FERRY_FIELD_PATH));
    assert_eq!(error.file_error(), Some(2));
    let error = File::open(&ferry, &folder.0, &options).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_HANDLE, sys::FERRY_FIELD_PATH));
    assert_eq!(error.file_error(), None);
    let error = File::open(&ferry, "a\0b", &options).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_INVALID_ARGUMENT, sys::FERRY_FIELD_PATH));
    let (pipe, _) = std::os::unix::net::UnixStream::pair().unwrap();
    let error = File::open_descriptor(&ferry, &pipe, &sys::ferry_file_options::default()).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_HANDLE, sys::FERRY_FIELD_OS_HANDLE));
    let only_create = sys::ferry_file_options { flags: sys::FERRY_FILE_CREATE, ..Default::default() };
    let error = File::open(&ferry, folder.0.join("new"), &only_create).err().unwrap();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_FLAGS, sys::FERRY_FIELD_FLAGS));

    let file = open_to_read(&ferry, folder.file("short", &noise(1000)));
    let (device, stream) = (DeviceBuffer::<u8>::new(&ferry, 0, 100).unwrap(), Stream::new(&ferry, 0).unwrap());
    let error = ferry.copy(file.view(901, 100), &device).unwrap_err();
    assert_eq!((error.status(), error.side()), (sys::FERRY_ERROR_OUT_OF_BOUNDS, sys::FERRY_SIDE_SOURCE));
    assert_eq!((error.field(), error.value(), error.limit()), (sys::FERRY_FIELD_OFFSET, 1001, 1000), "{error}");
    let error = ferry.copy(&device, file.view(0, 100)).unwrap_err();
    assert_eq!((error.status(), error.side()), (sys::FERRY_ERROR_HANDLE, sys::FERRY_SIDE_DESTINATION));
    assert_eq!(error.field(), sys::FERRY_FIELD_FILE);
    let mut here = [0u8; 100];
    ferry.copy(file.view(0, 100), &mut here).unwrap();
    assert_eq!(here[..], noise(1000)[..100]);
    let error = ferry.scope(|scope| scope.copy(&stream, file.view(0, 100), &device)).unwrap_err();
    assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_INVALID_ARGUMENT, sys::FERRY_FIELD_TICKET));
    assert!(std::panic::catch_unwind(|| file.view::<u32>(u64::MAX - 38, 10).size()).is_err());
    assert_eq!(file.view::<u32>(u64::MAX - 40, 10).size(), [10, 1, 1]);
}

#[test]
fn a_struct_size_of_the_program_is_not_used() {
    let (ferry, folder) = (open(), Folder::new("sizes"));
    let path = folder.file("content", &[1]);
    for struct_size in [0, 1, 4, 4096, u32::MAX] {
        let options = (sys::ferry_file_options { struct_size, ..Default::default() }, [1u8; 4096]);
        assert_eq!(File::open(&ferry, &path, &options.0).unwrap().info().unwrap().size, 1);
    }
}

#[test]
fn a_file_may_be_written_and_dropped_by_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<(File, FileView<'_, u8>, Pieces<'_>)>();
    let (ferry, folder) = (open(), Folder::new("threads"));
    let file = File::open(&ferry, folder.0.join("parts"), &to_write()).unwrap();
    std::thread::scope(|threads| {
        for part in 0..4u8 {
            let (ferry, file) = (&ferry, &file);
            threads.spawn(move || {
                let device = DeviceBuffer::new(ferry, 0, 10_000).unwrap();
                ferry.fill(&device, part, None).unwrap();
                ferry.copy(&device, file.view(u64::from(part) * 10_000, 10_000)).unwrap();
            });
        }
    });
    let count = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|link| fs::read_link(link.ok()?.path()).ok());
        links.filter(|target| *target == folder.0.join("parts")).count()
    };
    assert_eq!(count(), 1);
    std::thread::spawn(move || drop(file)).join().unwrap();
    assert_eq!(count(), 0);
    let written = fs::read(folder.0.join("parts")).unwrap();
    assert!(written.iter().enumerate().all(|(i, byte)| *byte as usize == i / 10_000) && written.len() == 40_000);
}
