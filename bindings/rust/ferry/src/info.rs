//! Facts about devices, and explanations of copies. Their fields are the same as in the C structs.

use crate::error::write_line;
use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::ops::Deref;
use std::os::raw::c_char;

macro_rules! facts {
    ($(#[$about:meta] $name:ident: $raw:ident)*) => { $(
        #[$about]
        #[derive(Clone, Copy, Debug)]
        pub struct $name(pub(crate) sys::$raw);

        impl Deref for $name {
            type Target = sys::$raw;
            fn deref(&self) -> &sys::$raw {
                &self.0
            }
        }
    )* };
}

facts! {
    /// The facts of a device.
    DeviceInfo: ferry_device_info
    /// What a copy would do. Displays as one line.
    Explanation: ferry_explanation
    /// What a batch would do. Displays as one line.
    BatchExplanation: ferry_batch_explanation
}

fn text(characters: &[c_char]) -> &str {
    // SAFETY: the library ends its texts with zero, inside the field.
    unsafe { CStr::from_ptr(characters.as_ptr()) }.to_str().unwrap_or("")
}

impl DeviceInfo {
    /// The device's name.
    pub fn name(&self) -> &str {
        text(&self.0.name)
    }

    /// Such as `0000:3B:00.0`.
    pub fn pci_address(&self) -> &str {
        text(&self.0.pci_address)
    }
}

impl Explanation {
    /// Such as `cuMemcpy3DAsync`.
    pub fn driver_call(&self) -> &str {
        text(&self.0.driver_call)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the call writes at most `size` bytes.
        write_line(formatter, |buffer, size| unsafe { sys::ferry_explanation_format(&self.0, buffer, size) })
    }
}

impl fmt::Display for BatchExplanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the call writes at most `size` bytes.
        write_line(formatter, |buffer, size| unsafe { sys::ferry_batch_explanation_format(&self.0, buffer, size) })
    }
}
