//! Errors, order, threads, and what lives how long.
use ferry::*;
use std::sync::mpsc::channel;
use std::time::Duration;

mod open;
use open::{open, open_with};

fn numbers(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

fn device_with(ferry: &Ferry, contents: &[u32]) -> DeviceBuffer<u32> {
    let device = DeviceBuffer::new(ferry, 0, contents.len()).unwrap();
    ferry.copy(contents, &device).unwrap();
    device
}

fn contents(ferry: &Ferry, device: &DeviceBuffer<u32>) -> Vec<u32> {
    let mut received = vec![0; device.len()];
    ferry.copy(device, &mut received).unwrap();
    received
}

// ---- Errors

#[test]
fn a_size_that_differs_names_the_smaller_side_and_the_field() {
    let ferry = open();
    let device = DeviceBuffer::<u32>::new(&ferry, 0, 12).unwrap();
    let error = ferry.copy(&numbers(10), &device).unwrap_err();
    assert_eq!(error.status(), sys::FERRY_ERROR_OUT_OF_BOUNDS);
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_SOURCE, sys::FERRY_FIELD_WIDTH));
    assert_eq!((error.value(), error.limit()), (48, 40));
    let view = device.view().shaped([4, 3, 1]);
    let error = ferry.copy(view, ViewMut::of(&mut numbers(8)).shaped([4, 2, 1])).unwrap_err();
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_DESTINATION, sys::FERRY_FIELD_HEIGHT));
    assert_eq!((error.value(), error.limit()), (3, 2));
}

#[test]
fn an_error_of_ferry_has_all_its_details_and_one_line() {
    let ferry = open();
    let device = device_with(&ferry, &numbers(8));
    let part = |first| device.view().sub([first, 0, 0], [4, 1, 1]);
    let good = CopyDesc::new(part(0), part(4)).unwrap();
    let overlapping = CopyDesc::new(part(0), part(2)).unwrap();
    let error = ferry.copy_batch(&[good, overlapping], None).unwrap_err();
    assert_eq!((error.status(), error.name()), (sys::FERRY_ERROR_OVERLAP, "FERRY_ERROR_OVERLAP"));
    assert_eq!(error.index(), 1);
    assert!(error.to_string().contains("copy 1") && error.to_string().contains("FERRY_ERROR_OVERLAP"), "{error}");
    assert!(!error.text().is_empty() && !error.can_retry() && !error.context_is_dead());

    let error = ferry.fill(&mut [0u8; 4], 1, None).unwrap_err(); // pageable
    assert_eq!((error.status(), error.side()), (sys::FERRY_ERROR_PAGEABLE, sys::FERRY_SIDE_DESTINATION));
    let error = DeviceBuffer::<u8>::new(&ferry, 99, 4).err().unwrap();
    assert_eq!(error.status(), sys::FERRY_ERROR_DEVICE);
    let error = DeviceBuffer::<u8>::new(&ferry, 0, 1 << 50).err().unwrap();
    assert_eq!(error.status(), Status(-1002));
    assert!(error.can_retry());
    let boxed: Box<dyn std::error::Error> = error.into();
    assert!(boxed.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"));
}

#[test]
fn every_call_has_the_details_of_its_error() {
    let ferry = open();
    let devices = ferry.report().unwrap().device_count as u64;
    for error in [
        ferry.device(99).err(),
        ferry.save_profile(99).err(),
        ferry.synchronize(99).err(),
        ferry.enable_peer(99, 0).err(),
        ferry.trim_deferred(Some(99), 0).err(),
    ] {
        let error = error.unwrap();
        assert_eq!((error.status(), error.field()), (sys::FERRY_ERROR_DEVICE, sys::FERRY_FIELD_DEVICE), "{error}");
        assert_eq!((error.value(), error.limit(), error.numbers()), (99, devices, sys::FERRY_NUMBERS_COUNT));
    }
    let new_event = || Event::new(&ferry, 0, EventFlags::NONE).unwrap();
    let error = new_event().elapsed_ms(&new_event()).unwrap_err(); // neither was recorded
    assert_eq!((error.status(), error.driver_function()), (Status(-1400), Some("cuEventElapsedTime")));
}

#[test]
fn an_array_refuses_elements_of_another_size() {
    let ferry = open();
    let (format, channels, width) = (sys::FERRY_FORMAT_UINT8, 4, 16);
    let desc = sys::ferry_array_desc { format, channels, width, ..Default::default() };
    assert!(Array::<[u8; 4]>::new(&ferry, 0, &desc).is_ok());
    let error = Array::<u8>::new(&ferry, 0, &desc).err().unwrap();
    assert_eq!((error.status(), error.limit()), (sys::FERRY_ERROR_ARRAY_FORMAT, 4));
}

#[test]
fn a_transfer_of_another_size_gives_its_buffer_back() {
    let ferry = open();
    let (stream, device) = (Stream::new(&ferry, 0).unwrap(), device_with(&ferry, &numbers(8)));
    let failed = stream.upload(numbers(9), &device, None).err().unwrap();
    assert_eq!((failed.error.side(), failed.error.field()), (sys::FERRY_SIDE_DESTINATION, sys::FERRY_FIELD_WIDTH));
    assert_eq!(failed.buffer, numbers(9));
    let failed = stream.download(&device, vec![0u32; 7], None).err().unwrap();
    assert_eq!(failed.error.side(), sys::FERRY_SIDE_DESTINATION);
}

#[test]
fn an_options_error_names_its_field() {
    let options = unsafe { Options::new(Driver::Software).with_raw(|raw| raw.checks = sys::Checks(77)) };
    let error = Ferry::open(options).err().unwrap();
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_OPTIONS, sys::FERRY_FIELD_CHECKS));
}

// ---- Scopes and transfers

#[test]
fn a_scope_ends_after_its_copies() {
    let ferry = open();
    let (up, down) = (Stream::new(&ferry, 0).unwrap(), Stream::new(&ferry, 0).unwrap());
    let arrived = Event::new(&ferry, 0, sys::FERRY_EVENT_DISABLE_TIMING).unwrap();
    let sent = numbers(1 << 20);
    let mut received = vec![0; sent.len()];
    let device = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
    ferry
        .scope(|scope| {
            scope.copy(&up, &sent, &device)?;
            arrived.record(&up)?;
            down.wait_for(&arrived)?;
            scope.copy(&down, &device, &mut received)
        })
        .unwrap();
    assert_eq!(received, sent);
    assert!(down.is_done().unwrap() && arrived.is_done().unwrap());
}

#[test]
fn a_scope_waits_when_it_panics_or_fails() {
    let ferry = open();
    let (stream, sent) = (Stream::new(&ferry, 0).unwrap(), numbers(1 << 20));
    let device = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ferry.scope(|scope| -> Result<()> {
            scope.copy(&stream, &sent, &device)?;
            std::panic::resume_unwind(Box::new("a panic"))
        })
    }));
    assert!(panicked.is_err() && stream.is_done().unwrap());
    assert_eq!(contents(&ferry, &device), sent);

    let mut received = vec![0; sent.len()];
    let failed = ferry.scope(|scope| {
        scope.copy(&stream, &device, &mut received)?;
        scope.copy(&stream, &sent[1..], &device)
    });
    assert_eq!(failed.unwrap_err().status(), sys::FERRY_ERROR_OUT_OF_BOUNDS);
    assert!(stream.is_done().unwrap());
    assert_eq!(received, sent);
}

#[test]
fn a_scope_can_be_used_by_several_threads() {
    let ferry = open();
    let sent = numbers(4 << 16);
    let device = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
    let streams: Vec<_> = (0..4).map(|_| Stream::new(&ferry, 0).unwrap()).collect();
    ferry
        .scope(|scope| {
            std::thread::scope(|threads| {
                for (i, stream) in streams.iter().enumerate() {
                    let part = &sent[i << 16..(i + 1) << 16];
                    let place = device.view().sub([i << 16, 0, 0], [1 << 16, 1, 1]);
                    threads.spawn(move || scope.copy(stream, part, place).unwrap());
                }
            });
            Ok(())
        })
        .unwrap();
    assert_eq!(contents(&ferry, &device), sent);
}

#[test]
fn a_transfer_gives_its_buffer_back() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let device = DeviceBuffer::new(&ferry, 0, 1 << 18).unwrap();
    let upload = stream.upload(numbers(1 << 18), &device, None).unwrap();
    let mut pinned = PinnedBuffer::<u32>::new(&ferry, 1 << 18).unwrap();
    pinned.fill(9);
    let download = stream.download(&device, pinned, None).unwrap();
    drop(device); // the transfers keep the memory
    assert_eq!(upload.wait().unwrap(), numbers(1 << 18));
    let received = download.wait().unwrap();
    assert_eq!(received[..], numbers(1 << 18));
}

#[test]
fn a_transfer_that_is_dropped_or_forgotten_keeps_its_memory_until_it_is_done() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let device = DeviceBuffer::new(&ferry, 0, 1 << 20).unwrap();
    drop(stream.upload(numbers(1 << 20), &device, None).unwrap());
    assert_eq!(contents(&ferry, &device), numbers(1 << 20));
    std::mem::forget(stream.upload(vec![5u32; 1 << 20], &device, None).unwrap());
    stream.synchronize().unwrap();
    assert_eq!(contents(&ferry, &device), vec![5u32; 1 << 20]);
}

#[test]
fn a_ticket_reports_a_copy_and_a_stream() {
    let ferry = open();
    let (stream, device) = (Stream::new(&ferry, 0).unwrap(), device_with(&ferry, &numbers(1 << 20)));
    let mut received = vec![0u32; 1 << 20];
    ferry
        .scope(|scope| {
            let staged = CopyOptions::new().route(sys::FERRY_ROUTE_STAGED).tag(7);
            let copy = CopyDesc::new(&device, &mut received)?;
            let ticket = scope.run_copy_with_ticket(&stream, &copy, Some(&staged))?;
            let all = stream.ticket()?;
            ticket.wait()?;
            let info = ticket.info()?;
            assert_eq!((info.done, info.status, info.route), (1, sys::FERRY_SUCCESS, sys::FERRY_ROUTE_STAGED));
            assert_eq!((info.bytes_done, info.bytes_total, info.tag), (4 << 20, 4 << 20, 7));
            all.wait()
        })
        .unwrap();
    assert_eq!(received, numbers(1 << 20));
}

#[test]
fn a_notice_comes_when_the_work_has_ended() {
    let ferry = open();
    let (stream, sent) = (Stream::new(&ferry, 0).unwrap(), numbers(1 << 16));
    let device = DeviceBuffer::new(&ferry, 0, sent.len()).unwrap();
    let transfer = stream.upload(sent, &device, None).unwrap();
    let notice = stream.notify().unwrap();
    notice.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    assert!(transfer.is_done().unwrap());
}

// ---- Batches

fn reversed<'a>(from: &'a [u32], to: &'a DeviceBuffer<u32>, length: usize) -> Pieces<'a> {
    let (mut pieces, count) = (Pieces::new(), from.len() / length);
    for i in 0..count {
        let place = to.view().sub([(count - 1 - i) * length, 0, 0], [length, 1, 1]);
        pieces.push(&from[i * length..(i + 1) * length], place).unwrap();
    }
    pieces
}

fn expected(from: &[u32], length: usize) -> Vec<u32> {
    from.chunks(length).rev().flatten().copied().collect()
}

#[test]
fn thousands_of_pieces_arrive_at_once_and_in_order_of_a_stream() {
    let ferry = open();
    let (stream, sent) = (Stream::new(&ferry, 0).unwrap(), numbers(3000 * 17));
    let device = device_with(&ferry, &vec![0; sent.len()]);
    ferry
        .copy_pieces(&reversed(&sent, &device, 17), Some(&CopyOptions::new().flags(sys::FERRY_COPY_CHECK_OVERLAP)))
        .unwrap();
    assert_eq!(contents(&ferry, &device), expected(&sent, 17));
    let later = numbers(3000 * 18)[3000..].to_vec();
    let pieces = reversed(&later, &device, 17);
    ferry.scope(|scope| scope.copy_pieces(&stream, &pieces, None)).unwrap();
    assert_eq!(contents(&ferry, &device), expected(&later, 17));
    let explained = stream.explain_pieces(&pieces, None).unwrap();
    assert!(explained.to_string().contains("3000 copies") && explained.context_device == 0, "{explained}");
}

#[test]
fn a_piece_must_be_a_line_of_memory() {
    let ferry = open();
    let device = device_with(&ferry, &numbers(64));
    let (mut pieces, mut host, mut other) = (Pieces::new(), numbers(16), numbers(16));
    let gaps = device.view().shaped([8, 8, 1]).sub([0, 0, 0], [4, 4, 1]);
    let error = pieces.push(gaps, ViewMut::of(&mut other).shaped([4, 4, 1])).unwrap_err();
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_SOURCE, sys::FERRY_FIELD_ROW_PITCH));
    let rows = device.view().shaped([8, 8, 1]).sub([0, 2, 0], [8, 2, 1]);
    pieces.push(rows, ViewMut::of(&mut host).shaped([8, 2, 1])).unwrap();
    ferry.copy_pieces(&pieces, None).unwrap();
    assert_eq!((pieces.len(), pieces.is_empty()), (1, false));
    assert_eq!(host, numbers(32)[16..]);
}

#[test]
fn a_prepared_batch_is_launched_often_and_gets_other_sources() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let mut frames: Vec<_> = (0..2).map(|_| PinnedBuffer::<u32>::new(&ferry, 1600).unwrap()).collect();
    frames[0].copy_from_slice(&numbers(1600));
    frames[1].copy_from_slice(&numbers(3200)[1600..]);
    let device = device_with(&ferry, &vec![0; 1600]);
    let pieces: Vec<_> = frames.iter().map(|frame| reversed(frame, &device, 16)).collect();
    let updatable = CopyOptions::new().flags(sys::FERRY_COPY_UPDATABLE);
    let mut prepared = stream.prepare_pieces(&pieces[0], Some(&updatable)).unwrap();
    for (frame, pieces) in frames.iter().zip(&pieces) {
        prepared.set_addresses(pieces).unwrap();
        ferry.scope(|scope| scope.launch(&prepared, None)).unwrap();
        assert_eq!(contents(&ferry, &device), expected(frame, 16));
    }
    let error = prepared.set_addresses(&reversed(&frames[0], &device, 32)).unwrap_err();
    assert_eq!(error.status(), sys::FERRY_ERROR_INVALID_ARGUMENT);
    let boxes = [CopyDesc::new(&frames[0], &device).unwrap()];
    let prepared = stream.prepare(&boxes, None).unwrap();
    ferry.scope(|scope| scope.launch(&prepared, None).and_then(|()| scope.launch(&prepared, None))).unwrap();
    assert_eq!(contents(&ferry, &device)[..], frames[0][..]);
    ferry.scope(|scope| scope.copy_batch(&stream, &[CopyDesc::new(&frames[1], &device)?], None)).unwrap();
    assert_eq!(contents(&ferry, &device)[..], frames[1][..]);
}

// ---- Options

#[test]
fn the_tag_of_every_call_arrives_in_its_ticket() {
    let ferry = open();
    let (stream, sent, mut received) = (Stream::new(&ferry, 0).unwrap(), numbers(1600), numbers(1600));
    let (device, other) = (device_with(&ferry, &[0; 1600]), device_with(&ferry, &[0; 1600]));
    let tagged = |tag| CopyOptions::new().tag(tag);
    let boxes = [CopyDesc::new(&sent, &device).unwrap()];
    let pieces = reversed(&sent, &device, 16);
    let prepared = stream.prepare(&boxes, Some(&tagged(u64::MAX))).unwrap();
    let upload = stream.upload(numbers(1600), &device, Some(&tagged(1))).unwrap();
    let tickets = ferry
        .scope(|scope| {
            Ok([
                scope.run_copy_with_ticket(&stream, &boxes[0], Some(&tagged(2)))?,
                scope.copy_batch_with_ticket(&stream, &boxes, Some(&tagged(3)))?,
                scope.copy_pieces_with_ticket(&stream, &pieces, Some(&tagged(4)))?,
                scope.fill_with_ticket(&stream, &other, 9u32, Some(&tagged(5)))?,
                scope.launch_with_ticket(&prepared, Some(&tagged(6)))?,
                scope.launch_with_ticket(&prepared, None)?,
                scope.run_copy_with_ticket(&stream, &CopyDesc::new(&other, &mut received)?, None)?,
            ])
        })
        .unwrap();
    let info = |ticket: &Ticket| ticket.info().map(|info| (info.done, info.tag, info.bytes_total)).unwrap();
    assert_eq!(info(upload.ticket()), (1, 1, 6400));
    let expected = [(2, 6400), (3, 6400), (4, 6400), (5, 6400), (6, 6400), (u64::MAX, 6400), (0, 6400)];
    for (ticket, (tag, bytes)) in tickets.iter().zip(expected) {
        assert_eq!(info(ticket), (1, tag, bytes));
    }
    assert_eq!(received, [9; 1600]);
    assert_eq!(contents(&ferry, &device), sent);
}

#[test]
fn every_call_names_the_field_of_the_options_that_it_refuses() {
    let ferry = open();
    let (stream, sent) = (Stream::new(&ferry, 0).unwrap(), numbers(16));
    let (device, other) = (device_with(&ferry, &sent), device_with(&ferry, &sent));
    let (boxes, pieces) = ([CopyDesc::new(&sent, &device).unwrap()], reversed(&sent, &device, 16));
    let prepared = stream.prepare(&boxes, None).unwrap();
    let new = CopyOptions::new;
    let (argument, unsupported) = (sys::FERRY_ERROR_INVALID_ARGUMENT, sys::FERRY_ERROR_UNSUPPORTED);
    for (options, status, field) in [
        (new().route(Route(99)), argument, sys::FERRY_FIELD_ROUTE),
        (new().route(sys::FERRY_ROUTE_BUFFERED), unsupported, sys::FERRY_FIELD_ROUTE),
        (new().priority(Priority(-1)), argument, sys::FERRY_FIELD_PRIORITY),
        (new().priority(sys::FERRY_PRIORITY_BACKGROUND), unsupported, sys::FERRY_FIELD_PRIORITY),
        (new().source_order(SourceOrder(3)), argument, sys::FERRY_FIELD_SOURCE_ORDER),
        (new().flags(CopyFlags(1 << 20)), sys::FERRY_ERROR_FLAGS, sys::FERRY_FIELD_FLAGS),
        (new().max_sms(1 << 16), argument, sys::FERRY_FIELD_MAX_SMS),
    ] {
        let given = Some(&options);
        for result in [
            ferry.run(&boxes[0], given),
            ferry.copy_batch(&boxes, given),
            ferry.copy_pieces(&pieces, given),
            ferry.fill(&other, 7u32, given),
            ferry.explain(&boxes[0], given).map(drop),
            ferry.explain_fill(&other, 7u32, given).map(drop),
            stream.explain(&boxes[0], given).map(drop),
            stream.explain_fill(&other, 7u32, given).map(drop),
            stream.explain_batch(&boxes, given).map(drop),
            stream.explain_pieces(&pieces, given).map(drop),
            stream.prepare(&boxes, given).map(drop),
            stream.prepare_pieces(&pieces, given).map(drop),
            stream.upload(numbers(16), &device, given).map(drop).map_err(Error::from),
            stream.download(&device, numbers(16), given).map(drop).map_err(Error::from),
            ferry.scope(|scope| scope.run_copy(&stream, &boxes[0], given)),
            ferry.scope(|scope| scope.copy_batch(&stream, &boxes, given)),
            ferry.scope(|scope| scope.copy_pieces(&stream, &pieces, given)),
            ferry.scope(|scope| scope.fill(&stream, &other, 7u32, given)),
            ferry.scope(|scope| scope.launch(&prepared, given)),
        ] {
            let error = result.unwrap_err();
            assert_eq!(
                (error.status(), error.side(), error.field()),
                (status, sys::FERRY_SIDE_OPTIONS, field),
                "{error}"
            );
        }
    }
}

#[test]
fn options_of_the_instance_apply_to_calls_that_have_none() {
    let staged = CopyOptions::new().route(sys::FERRY_ROUTE_STAGED).tag(7);
    let ferry = open_with(Options::new(Driver::Software).copy_options(staged));
    let (stream, sent) = (Stream::new(&ferry, 0).unwrap(), numbers(16));
    let device = DeviceBuffer::new(&ferry, 0, 16).unwrap();
    let copy = CopyDesc::new(&sent, &device).unwrap();
    let by_driver = CopyOptions::new().route(sys::FERRY_ROUTE_DRIVER);
    let tickets = ferry
        .scope(|scope| {
            let own = scope.run_copy_with_ticket(&stream, &copy, None)?;
            Ok([own, scope.run_copy_with_ticket(&stream, &copy, Some(&by_driver))?])
        })
        .unwrap();
    let infos = tickets.map(|ticket| ticket.info().map(|info| (info.route, info.tag)).unwrap());
    assert_eq!(infos, [(sys::FERRY_ROUTE_STAGED, 7), (sys::FERRY_ROUTE_DRIVER, 0)]);
    assert_eq!(ferry.explain(&copy, None).unwrap().route, sys::FERRY_ROUTE_STAGED);
    assert_eq!(ferry.explain(&copy, Some(&CopyOptions::new())).unwrap().route, sys::FERRY_ROUTE_DRIVER);
    let options = Options::new(Driver::Software).copy_options(CopyOptions::new().max_sms(1 << 16));
    let error = Ferry::open(options).err().unwrap();
    assert_eq!((error.side(), error.field()), (sys::FERRY_SIDE_OPTIONS, sys::FERRY_FIELD_MAX_SMS));
}

// ---- Lifetimes

#[test]
fn everything_may_be_dropped_in_any_order() {
    for first in 0..5 {
        let ferry = open();
        let stream = Stream::new(&ferry, 0).unwrap();
        let device = device_with(&ferry, &numbers(1024));
        let pool = PinnedPool::new(&ferry, &Default::default()).unwrap();
        let block = pool.block(&numbers(1024)).unwrap();
        let transfer = stream.upload(block, &device, None).unwrap();
        let mut objects: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(ferry), Box::new(stream), Box::new(device), Box::new(pool), Box::new(transfer)];
        objects.rotate_left(first);
        for object in objects {
            drop(object);
        }
    }
}

#[test]
fn memory_is_freed_when_it_is_dropped_or_in_stream_order() {
    let ferry = Ferry::open(Options::new(Driver::Software)).unwrap();
    let stream = Stream::new(&ferry, 0).unwrap();
    let kind = |address| ferry.address_info(address).unwrap().memory;
    let device = DeviceBuffer::<u8>::new(&ferry, 0, 4096).unwrap();
    let address = device.as_raw();
    assert_eq!(kind(address), sys::FERRY_MEMORY_DEVICE);
    drop(device);
    assert_eq!(kind(address), sys::FERRY_MEMORY_PAGEABLE);

    let before = ferry.deferred_info(None).unwrap().allocations;
    DeviceBuffer::<u8>::new(&ferry, 0, 4096).unwrap().free_after(&stream);
    PinnedBuffer::<u8>::new(&ferry, 4096).unwrap().free_after(&stream);
    assert_eq!(ferry.deferred_info(None).unwrap().allocations, before + 2);
    let (format, channels, width) = (sys::FERRY_FORMAT_UINT8, 1, 64);
    let desc = sys::ferry_array_desc { format, channels, width, ..Default::default() };
    let array = Array::<u8>::new(&ferry, 0, &desc).unwrap();
    let handle = array.as_raw();
    array.free_after(&stream);
    stream.synchronize().unwrap();
    assert_eq!(Array::<u8>::new(&ferry, 0, &desc).unwrap().as_raw(), handle); // reused
    ferry.trim_deferred(None, 0).unwrap();
    assert_eq!(ferry.deferred_info(None).unwrap().allocations, 0);
}

#[test]
fn stream_ordered_memory_and_pool_blocks_work_like_other_memory() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let device = DeviceBuffer::new_on(&stream, 1000).unwrap();
    let pool = PinnedPool::new(&ferry, &Default::default()).unwrap();
    let (sent, mut received) = (pool.block(&numbers(1000)).unwrap(), pool.zeros(1000).unwrap());
    assert_eq!(received[..], [0; 1000]);
    ferry
        .scope(|scope| {
            scope.copy(&stream, &sent, &device)?;
            scope.copy(&stream, &device, &mut received)
        })
        .unwrap();
    assert_eq!(received[..], sent[..]);
    assert!(pool.stats().unwrap().used_current >= 8000);
    sent.free_after(&stream);
    drop(received);
    stream.synchronize().unwrap();
    assert_eq!(pool.stats().unwrap().used_current, 0);
    pool.reset_stats().unwrap();
    pool.trim(0).unwrap();
    assert_eq!(pool.stats().unwrap().reserved_current, 0);
}

#[test]
fn new_pinned_memory_is_zero() {
    let ferry = open();
    for _ in 0..2 {
        let mut pinned = PinnedBuffer::<u64>::new(&ferry, 5000).unwrap();
        assert!(pinned.iter().all(|value| *value == 0));
        pinned.fill(1);
    }
}

// ---- Instances and threads

#[test]
fn all_types_may_be_used_by_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<(Ferry, Stream, Event, Ticket, DeviceBuffer<u8>, Array<u8>, PinnedBuffer<u8>)>();
    check::<(Transfer<Vec<u8>>, PinnedPool, PoolBlock<u8>, Prepared<'_>, CopyDesc<'_>, Pieces<'_>)>();
    check::<(Scope<'_, '_>, View<'_, u8>, ViewMut<'_, u8>, DeviceView<'_, u8>, Error)>();
}

#[test]
fn threads_copy_on_one_instance() {
    let ferry = open();
    std::thread::scope(|threads| {
        for i in 0..4usize {
            let ferry = ferry.clone();
            threads.spawn(move || {
                let (stream, sent) = (Stream::new(&ferry, (i % 2) as i32).unwrap(), vec![i as u32; 5000]);
                for _ in 0..20 {
                    let device = DeviceBuffer::new(&ferry, (i % 2) as i32, sent.len()).unwrap();
                    let mut received = vec![0; sent.len()];
                    ferry
                        .scope(|scope| {
                            scope.copy(&stream, &sent, &device)?;
                            scope.copy(&stream, &device, &mut received)
                        })
                        .unwrap();
                    assert_eq!(received, sent);
                }
            });
        }
    });
}

#[test]
fn copies_between_devices_arrive_with_and_without_access() {
    let ferry = open();
    let (first, second) = (device_with(&ferry, &numbers(5000)), DeviceBuffer::new(&ferry, 1, 5000).unwrap());
    ferry.copy(&first, &second).unwrap();
    assert_eq!(contents(&ferry, &second), numbers(5000));
    if ferry.peer_info(0, 1).unwrap().driver_can_access != 0 {
        ferry.probe_peer(0, 1).unwrap();
        ferry.enable_peer(0, 1).unwrap();
        ferry.fill(&second, 3, None).unwrap();
        ferry.copy(&second, &first).unwrap();
        assert_eq!(contents(&ferry, &first), vec![3; 5000]);
        ferry.disable_peer(0, 1).unwrap();
    }
}

#[test]
fn the_report_the_device_and_explanations_can_be_read() {
    let ferry = open();
    assert_eq!(ferry.report().unwrap().driver, sys::FERRY_DRIVER_SOFTWARE);
    assert!(ferry.missing_entry_points().iter().all(|name| name.starts_with("cu")));
    assert_eq!(version() / 100, sys::FERRY_VERSION_MAJOR * 100 + sys::FERRY_VERSION_MINOR);
    let info = ferry.device(1).unwrap();
    assert!(!info.name().is_empty() && info.pci_address().contains(':'));
    assert_eq!((info.device, info.is_software), (1, 1));
    assert_eq!(ferry.find_device(&info.uuid).unwrap(), 1);
    let (stream, device) = (Stream::new(&ferry, 0).unwrap(), device_with(&ferry, &numbers(100)));
    let (sent, copies) = (numbers(100), |data| CopyDesc::new::<u32>(data, &device).unwrap());
    let copy = copies(&sent);
    for explained in [ferry.explain(&copy, None).unwrap(), stream.explain(&copy, None).unwrap()] {
        assert_eq!((explained.width, explained.destination_device), (400, 0));
        assert!(explained.to_string().contains("400 B"), "{explained}");
        assert!(explained.driver_call().starts_with("cu"));
    }
    let filled = device_with(&ferry, &numbers(100));
    let at_once = ferry.explain_fill(&filled, 7u32, None).unwrap();
    let enqueued = stream.explain_fill(&filled, 7u32, None).unwrap();
    assert_eq!((at_once.width, at_once.driver_call()), (400, "cuMemsetD32Async"));
    assert_eq!((at_once.blocks, enqueued.blocks), (sys::FERRY_BLOCKS_UNTIL_DONE, sys::FERRY_BLOCKS_NO));
    assert!(!stream.explain_batch(&[copy], None).unwrap().to_string().is_empty());
    assert_eq!(obstacle_text(sys::FERRY_OBSTACLE_PAGEABLE), "pageable memory");
}

#[test]
fn profiles_and_staging_can_be_managed() {
    let ferry = open();
    let profile = ferry.save_profile(0).unwrap();
    assert!(profile.is_ascii() && profile.ends_with('\n'));
    ferry.load_profile(&profile).unwrap();
    let error = ferry.load_profile("nonsense").unwrap_err();
    assert_eq!(error.status(), sys::FERRY_ERROR_PROFILE);
    ferry.prepare_staging(0).unwrap();
    assert!(ferry.staging_info().unwrap().staging_bytes > 0);
    ferry.synchronize(0).unwrap();
    ferry.trim_staging().unwrap();
}

#[test]
fn the_log_goes_to_a_channel() {
    let (lines, log) = channel();
    drop(Ferry::open(Options::new(Driver::Software).log(lines)).unwrap());
    let lines: Vec<_> = log.iter().collect(); // until the instance is closed
    assert!(lines.iter().all(|line| line.level <= sys::FERRY_LOG_INFO && !line.text.is_empty()), "{lines:?}");
    println!("{lines:?}");
}

#[test]
fn events_measure_time() {
    let ferry = open();
    let stream = Stream::new(&ferry, 0).unwrap();
    let [start, end] = [0, 1].map(|_| Event::new(&ferry, 0, EventFlags::NONE).unwrap());
    start.record(&stream).unwrap();
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
}

// ---- Soundness

/// Structs at the end of a page, behind which there is none: a call that reads more than a struct does not return.
#[test]
fn a_struct_size_of_the_program_is_not_used() {
    let ferry = open();
    let flags = Default::default();
    for struct_size in [0, 1, 8, 12, 64, 4096, u32::MAX] {
        let options = sys::ferry_host_options { struct_size, ..Default::default() };
        let pool = sys::ferry_pinned_pool_options { struct_size, ..Default::default() };
        let desc = sys::ferry_array_desc {
            struct_size,
            format: sys::FERRY_FORMAT_UINT8,
            channels: 1,
            width: 16,
            flags,
            ..Default::default()
        };
        // What follows the structs is not zero, so a call that reads it fails.
        let (options, pool, desc) = ((options, [1u8; 4096]), (pool, [1u8; 4096]), (desc, [1u8; 4096]));
        assert_eq!(PinnedBuffer::<u8>::with_options(&ferry, 16, &options.0).unwrap().len(), 16);
        assert_eq!(PinnedPool::new(&ferry, &pool.0).unwrap().block(&[7u8; 5]).unwrap()[..], [7; 5]);
        assert_eq!(Array::<u8>::new(&ferry, 0, &desc.0).unwrap().view().size(), [16, 1, 1]);
    }
}
