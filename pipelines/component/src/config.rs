//! Configuration as components see it: a section of a positioned tree, decoded strictly into a type.

/// A section of the configuration that belongs to one component.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    _todo: &'a (),
}

/// All that is wrong with a section, each with its place.
#[derive(Debug, thiserror::Error)]
#[error("invalid configuration")]
pub struct ConfigError;
