//! Plays a profiler trace.

use std::path::{Path, PathBuf};

use table::Library;

use super::PlayError;
use super::options::Options;
use crate::functions::Functions;
use crate::oracle::Log;

/// A trace to play.
pub(super) struct Trace {
    path: PathBuf,
}

impl Trace {
    pub(super) fn read(path: &Path) -> Result<Trace, PlayError> {
        Ok(Trace { path: path.to_path_buf() })
    }

    pub(super) fn libraries(&self) -> Vec<Library> {
        Vec::new()
    }
}

pub(super) fn run(trace: &Trace, _: &Functions, _: &Log, _: &Options) -> Result<u64, PlayError> {
    Err(PlayError::Trace { name: trace.path.display().to_string(), problem: "cannot be played yet".into() })
}
