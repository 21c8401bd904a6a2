//! A frame loop with two frames in flight. A transfer owns its pinned buffer and gives it back for a later frame.
//! Textures are destroyed in stream order and reused, so no frame waits for a free.
#![forbid(unsafe_code)]
use ferry::{sys, Array, Driver, Ferry, Options, PinnedBuffer, Result, Stream, Transfer};
use std::collections::VecDeque;

const SIDE: usize = 256;

fn draw(pixels: &mut [u32], frame: u32) {
    pixels.fill(frame);
}

fn main() -> Result<()> {
    let ferry = Ferry::open(Options::new(Driver::Auto))?;
    let stream = Stream::new(&ferry, 0)?;
    let (format, side) = (sys::FERRY_FORMAT_UINT32, SIDE as u64);
    let shape = sys::ferry_array_desc { format, channels: 1, width: side, height: side, ..Default::default() };
    let mut in_flight: VecDeque<Transfer<PinnedBuffer<u32>>> = VecDeque::new();
    let mut checked = vec![0; SIDE * SIDE];

    for frame in 0..60 {
        let mut pixels = if in_flight.len() < 2 {
            PinnedBuffer::new(&ferry, SIDE * SIDE)?
        } else {
            in_flight.pop_front().expect("two are in flight").wait()?
        };
        draw(&mut pixels, frame);
        let texture = Array::new(&ferry, 0, &shape)?; // reused after its work on the stream has completed, or new
        in_flight.push_back(stream.upload(pixels, &texture, None)?);
        if frame % 20 == 19 {
            checked = stream.download(&texture, checked, None)?.wait()?; // kernels that draw would go here
            assert!(checked.iter().all(|pixel| *pixel == frame));
        }
        texture.free_after(&stream); // the transfer keeps the texture while it needs it
    }
    for transfer in in_flight {
        transfer.wait()?;
    }
    println!("60 frames left {} textures to reuse", ferry.deferred_info(Some(0))?.arrays);
    Ok(())
}
