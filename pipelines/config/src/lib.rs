//! Configuration for components: a section of a tree with positions, decoded strictly to a type.
//!
//! A problem has the file, line, column and path of the wrong value, and all problems of a section are reported
//! together. The rules are those of the OpenTelemetry Collector: types are not converted, unknown keys are errors,
//! and null keeps the default of lists, maps and sections. The binary parses the tree and merges its sources.
//!
//! A component declares its keys with [`section!`], decodes them with [`Section::read`], which returns a value even
//! if keys are wrong, and adds its own problems to the returned [`Problems`].

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
mod percent;
mod redact;
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
pub use percent::Percent;
pub use redact::{REDACTED, redact_url};
pub use section::{Problems, Section};
pub use seen::{Reading, Seen};
pub use setting::Setting;

#[doc(hidden)]
pub use serde;
