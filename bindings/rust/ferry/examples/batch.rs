//! Many copies in one call: pieces, boxes, and a batch that is prepared once and launched with two sources.
#![forbid(unsafe_code)]
use ferry::{
    sys, CopyDesc, CopyOptions, DeviceBuffer, Driver, Ferry, Options, Pieces, PinnedBuffer, Result, Stream, ViewMut,
};

const COUNT: usize = 1000; // pieces per frame
const LENGTH: usize = 64; // numbers per piece

/// Each piece of the frame goes to a slot of the device memory, in reverse order.
fn pieces_of<'a>(frame: &'a [i32], device: &'a DeviceBuffer<i32>) -> Result<Pieces<'a>> {
    let mut pieces = Pieces::new();
    for (i, piece) in frame.chunks(LENGTH).enumerate() {
        let slot = (COUNT - 1 - i) * LENGTH;
        pieces.push(piece, device.view().sub([slot, 0, 0], [LENGTH, 1, 1]))?;
    }
    Ok(pieces)
}

fn has_arrived(received: &[i32], frame: &[i32]) -> bool {
    received.chunks(LENGTH).rev().flatten().eq(frame)
}

fn main() -> Result<()> {
    let ferry = Ferry::open(Options::new(Driver::Auto))?;
    let stream = Stream::new(&ferry, 0)?;
    let mut host = PinnedBuffer::new(&ferry, 2 * COUNT * LENGTH)?; // two frames
    host.iter_mut().zip(0..).for_each(|(number, i)| *number = i);
    let frames: Vec<&[i32]> = host.chunks(COUNT * LENGTH).collect();
    let device = DeviceBuffer::new(&ferry, 0, COUNT * LENGTH)?;
    let mut received = vec![0; COUNT * LENGTH];

    let check_overlap = CopyOptions::new().flags(sys::FERRY_COPY_CHECK_OVERLAP);
    ferry.copy_pieces(&pieces_of(frames[0], &device)?, Some(&check_overlap))?;
    let rows = device.view().shaped([LENGTH, COUNT, 1]);
    let (left, right) = ViewMut::of(&mut received).shaped([LENGTH, COUNT, 1]).split(0, 20);
    let halves = [
        CopyDesc::new(rows.sub([0, 0, 0], [20, COUNT, 1]), left)?,
        CopyDesc::new(rows.sub([20, 0, 0], [LENGTH - 20, COUNT, 1]), right)?,
    ];
    ferry.copy_batch(&halves, None)?;
    assert!(has_arrived(&received, frames[0]));

    let pieces = [pieces_of(frames[0], &device)?, pieces_of(frames[1], &device)?];
    let updatable = CopyOptions::new().flags(sys::FERRY_COPY_UPDATABLE);
    let mut prepared = stream.prepare_pieces(&pieces[0], Some(&updatable))?;
    for (pieces, frame) in pieces.iter().zip(frames) {
        prepared.set_addresses(pieces)?; // other sources, the same slots
        ferry.scope(|scope| scope.launch(&prepared, None))?;
        ferry.copy(&device, &mut received)?;
        assert!(has_arrived(&received, frame));
    }
    println!("the pieces of both frames arrived");
    Ok(())
}
