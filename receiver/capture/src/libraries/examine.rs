//! Examination of a library file: opens it and finds its functions.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use event::RefusalReason;
use probe_abi::{Library, attach_points};

use super::FoundLibrary;
use super::open::{OpenError, open_mapped};
use super::refused::{Refusal, RefusedFiles, Version};
use crate::attach::ProbedFile;
use crate::elf::ElfError;
use crate::elf::functions::{self, FoundSymbols, Listed};
use crate::pins::Stamp;

/// A library file and its functions.
pub(super) struct Opened {
    pub file: File,
    /// Path of the open file: unlike one of the process, it leads to this file until it is closed.
    path: PathBuf,
    pub symbols: FoundSymbols,
    pub stamp: Stamp,
    pub version: Version,
}

impl Opened {
    pub fn target(&self) -> ProbedFile<'_> {
        ProbedFile { path: &self.path, points: &self.symbols.points }
    }
}

/// Why a file is not attached.
pub(super) enum Rejection {
    /// It was refused before, with this reason.
    Known(String),
    /// It is refused now.
    New(Refusal, Option<Version>),
}

impl From<OpenError> for Rejection {
    fn from(error: OpenError) -> Rejection {
        Rejection::New(error.into(), None)
    }
}

impl From<std::io::Error> for Rejection {
    fn from(error: std::io::Error) -> Rejection {
        OpenError::from(error).into()
    }
}

/// Opens a file and finds its functions, unless it is known that it has none.
pub(super) fn examine(
    pid: u32,
    found: &FoundLibrary<'_>,
    refused: &mut RefusedFiles,
    now_ns: u64,
) -> Result<Opened, Rejection> {
    if let Some(why) = refused.known(pid, found, now_ns) {
        return Err(Rejection::Known(why.to_owned()));
    }
    let file = open_mapped(pid, found.mapping)?;
    let (stamp, version) = (Stamp::of(&file)?, Version::of(&file)?);
    if let Some(why) = refused.unchanged(pid, found, version, now_ns) {
        return Err(Rejection::Known(why.to_owned()));
    }
    let refuse = |refusal| Rejection::New(refusal, Some(version));
    let symbols =
        functions_of(&file, found.library, found.is_embedded).map_err(|error| refuse(error.into()))?;
    if symbols.points.is_empty() {
        let why = "the file exports none of the probed functions";
        return Err(refuse(Refusal::new(RefusalReason::NoFunctions, why)));
    }
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok(Opened { file, path, symbols, stamp, version })
}

/// Finds the functions of a library in its file, or in the program that contains the library.
pub(super) fn functions_of(
    file: &File,
    library: Library,
    is_embedded: bool,
) -> Result<FoundSymbols, ElfError> {
    let listed = if is_embedded { Listed::Anywhere } else { Listed::Exported };
    functions::find(file, listed, attach_points(library, is_embedded))
}
