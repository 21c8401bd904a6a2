//! Copies numbers to a GPU and back. Without a GPU, the software driver is used.
#![forbid(unsafe_code)]
use ferry::{sys, DeviceBuffer, Driver, Ferry, Options, Result};

fn main() -> Result<()> {
    let sent: Vec<i32> = (0..1 << 18).collect();
    let mut received = vec![0; sent.len()];

    let ferry = Ferry::open(Options::new(Driver::Auto))?;
    let device = DeviceBuffer::new(&ferry, 0, sent.len())?;
    ferry.copy(&sent, &device)?;
    ferry.copy(&device, &mut received)?;

    assert_eq!(received, sent);
    let is_software = ferry.report()?.driver == sys::FERRY_DRIVER_SOFTWARE;
    let driver = if is_software { "the software driver" } else { "the GPU" };
    println!("{} numbers went there and back on {driver}", sent.len());
    Ok(())
}
