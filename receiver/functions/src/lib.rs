//! GPU functions by name: what a symbol is called, and which family of kernels it belongs to.
//!
//! Pure: text in, text and rows out. [`name`] demangles and shortens symbols; [`family`] says what a kernel does.

pub mod family;
pub mod name;
