//! The whole C interface of ferry, with the comments of `ferry.h`. The crate `ferry` makes most of it safe.
//!
//! `Default` sets a struct to zero and its `struct_size` to its size: the defaults of options, and what a call fills.
#![allow(non_camel_case_types, non_upper_case_globals)]

#[rustfmt::skip]
mod generated;
pub use generated::*;
