//! Configuration as components see it: a section of a positioned tree, decoded strictly into a type.
//!
//! A decoding error names the file, line, column and config path of the wrong value, and all problems of a
//! section are reported together. The rules are the OpenTelemetry Collector's: types are not coerced,
//! unknown keys are errors, and null keeps the default of lists, maps and sections. The format of the tree
//! and the merging of several sources into it are left to the binary.
//!
//! A component declares its keys with [`section!`], reads them by [`Section::read`], which returns a value even
//! where keys are wrong, and adds its own findings to the [`Problems`] that come with it.

mod access;
mod decode;
mod decoder;
mod duration;
mod error;
mod failure;
mod headers;
mod keys;
mod nearest;
mod node;
mod optional;
mod section;
mod seen;
mod setting;
mod unused;

pub use duration::{DurationError, GoDuration};
pub use error::{ConfigError, Problem};
pub use headers::{Headers, Secret};
pub use keys::{
    Choice, Decoded, Key, Keys, POSITIVE, choices, choose, deserialize, key_name, key_path, keys, require_in,
    shared,
};
pub use nearest::nearest;
pub use node::{Entry, Node, Position, Value};
pub use optional::{NullIsDefault, NullIsNone, Optional};
pub use section::{Problems, Section};
pub use seen::{Reading, Seen};
pub use setting::Setting;

#[doc(hidden)]
pub use serde;
