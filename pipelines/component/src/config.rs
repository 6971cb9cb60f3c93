//! Configuration as components see it: a section of a positioned tree, decoded strictly into a type.
//!
//! The one idea: a decoding error names the file, line, column and config path of what is wrong, and all
//! that is wrong is told at once. The rules are the OpenTelemetry Collector's: types are not coerced,
//! unknown keys are errors, null keeps the default of what is no plain value. Which format the tree came from, and how several
//! sources were merged into it, is left to the binary.
//!
//! A component derives `Deserialize` on its config type with a container-level `#[serde(default)]`, decodes
//! by [`Section::decode`] and adds its own findings by [`Section::problems`]. `#[serde(flatten)]` is of no
//! use here: it hides the list of keys that the unknown ones are found by.

mod access;
mod decode;
mod decoder;
mod duration;
mod error;
mod failure;
mod headers;
mod nearest;
mod node;
mod optional;
mod section;
mod seen;

pub use duration::{DurationError, GoDuration};
pub use error::{ConfigError, Problem};
pub use headers::{Headers, Secret};
pub use nearest::nearest;
pub use node::{Entry, Node, Position, Value};
pub use optional::{NullIsDefault, NullIsNone, Optional};
pub use section::{Problems, Section};
pub use seen::{Reading, Seen};
