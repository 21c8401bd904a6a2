//! Copies a box of a large host image into a box of a 2D array (a texture), and back. Views count texels, not bytes.
#![forbid(unsafe_code)]
use ferry::{sys, Array, Driver, Ferry, Options, Result, View, ViewMut};

fn main() -> Result<()> {
    let (width, height) = (640, 480);
    let texel = |i: usize| [i as u8, (i / width) as u8, 7, 255];
    let image: Vec<[u8; 4]> = (0..width * height).map(texel).collect();
    let mut received = vec![[0u8; 4]; 64 * 32];

    let ferry = Ferry::open(Options::new(Driver::Auto))?;
    let (format, channels) = (sys::FERRY_FORMAT_UINT8, 4);
    let shape = sys::ferry_array_desc { format, channels, width: 256, height: 256, ..Default::default() };
    let texture = Array::new(&ferry, 0, &shape)?;

    let source = View::of(&image).shaped([width, height, 1]).sub([100, 50, 0], [64, 32, 1]);
    let place = texture.view().sub([16, 8, 0], [64, 32, 1]);
    ferry.copy(source, place)?;
    ferry.copy(place, ViewMut::of(&mut received).shaped([64, 32, 1]))?;

    for (y, row) in received.chunks(64).enumerate() {
        let first = (50 + y) * width + 100;
        assert_eq!(row, &image[first..first + 64]);
    }
    println!("a box of 64 by 32 texels went through the array");
    Ok(())
}
