//! The whole C interface of ferry, with the comments of the C headers. The crate `ferry` makes most of it safe.
//!
//! `Default` sets a struct to zero and its `struct_size` to its size: the defaults of options, and what a call fills.
#![allow(non_camel_case_types, non_upper_case_globals)]

/// The type of a group of constants of which a value is one. A number that this version does not know is a value too.
macro_rules! choice {
    ($name:ident, $kind:ty, $about:expr) => {
        #[doc = $about]
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $kind);
    };
}

/// The type of a group of flags.
macro_rules! flags {
    ($name:ident, $kind:ty, $about:expr) => {
        choice!($name, $kind, $about);

        impl $name {
            /// No flag.
            pub const NONE: $name = $name(0);

            /// Whether all of `flags` are set.
            pub const fn contains(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }
    };
}

mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
pub use generated::*;
