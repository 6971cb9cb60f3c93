//! Examination of a library file: opens it and finds its functions.

use event::RefusalReason;
use probe_abi::{Library, attach_points};
use process_info::NoAnswer;

use super::FoundLibrary;
use super::held::HeldFile;
use super::open::{OpenError, open_mapped};
use super::refused::{Refusal, RefusedFiles, Version};
use crate::attach::ProbedFile;
use crate::elf::functions::{self, FoundSymbols, Listed};
use crate::inspect::{ProcessInspector, Question};
use crate::maps::Mapping;
use crate::pins::Stamp;

/// A library file and its functions.
pub(super) struct Opened {
    pub file: HeldFile,
    pub symbols: FoundSymbols,
    pub stamp: Stamp,
    pub version: Version,
}

impl Opened {
    pub fn target(&self) -> ProbedFile<'_> {
        ProbedFile { path: self.file.path(), points: &self.symbols.points }
    }
}

/// Why a file is not attached.
pub(super) enum Rejection {
    /// It was refused before, with this reason.
    Known(String),
    /// It is refused now.
    New(Refusal, Option<Version>),
    /// It could not be examined.
    Unanswered(NoAnswer),
}

/// Why a search finds nothing.
pub(super) enum Fruitless {
    /// The file is as it was when it was refused.
    Unchanged,
    /// The file is refused.
    Refused(Refusal, Option<Version>),
}

impl From<OpenError> for Fruitless {
    fn from(error: OpenError) -> Fruitless {
        Fruitless::Refused(error.into(), None)
    }
}

impl From<std::io::Error> for Fruitless {
    fn from(error: std::io::Error) -> Fruitless {
        OpenError::from(error).into()
    }
}

/// Opens a file and finds its functions, unless it is known that it has none.
pub(super) fn examine(
    inspector: &mut ProcessInspector,
    (pid, user): (u32, u32),
    found: &FoundLibrary<'_>,
    refused: &mut RefusedFiles,
    now_ns: u64,
) -> Result<Opened, Rejection> {
    if let Some(why) = refused.known(pid, found, now_ns) {
        return Err(Rejection::Known(why.to_owned()));
    }
    let before = refused.version(found, now_ns);
    let searched = inspect(inspector, (pid, user), found, before).map_err(Rejection::Unanswered)?;
    searched.map_err(|fruitless| match fruitless {
        Fruitless::Refused(refusal, version) => Rejection::New(refusal, version),
        Fruitless::Unchanged => Rejection::Known(refused.confirm(pid, found, now_ns)),
    })
}

/// Opens a file and finds its functions, on the thread for inspections.
pub(super) fn inspect(
    inspector: &mut ProcessInspector,
    (pid, user): (u32, u32),
    found: &FoundLibrary<'_>,
    refused: Option<Version>,
) -> Result<Result<Opened, Fruitless>, NoAnswer> {
    let FoundLibrary { mapping, library, is_embedded } = *found;
    let question = Question::Functions(found.key(), is_embedded);
    let mapping = mapping.clone();
    inspector
        .inspect_once((pid, user), question, move || search(pid, &mapping, library, is_embedded, refused))
}

/// Opens a file and finds its functions, unless it is the version that was refused.
fn search(
    pid: u32,
    mapping: &Mapping,
    library: Library,
    is_embedded: bool,
    refused: Option<Version>,
) -> Result<Opened, Fruitless> {
    let file = open_mapped(pid, mapping)?;
    let (stamp, version) = (Stamp::of(&file)?, Version::of(&file)?);
    if refused == Some(version) {
        return Err(Fruitless::Unchanged);
    }
    let refuse = |refusal| Fruitless::Refused(refusal, Some(version));
    let listed = if is_embedded { Listed::Anywhere } else { Listed::Exported };
    let symbols = functions::find(&file, listed, attach_points(library, is_embedded))
        .map_err(|error| refuse(error.into()))?;
    if symbols.points.is_empty() {
        let why = "the file exports none of the probed functions";
        return Err(refuse(Refusal::new(RefusalReason::NoFunctions, why)));
    }
    Ok(Opened { file: HeldFile::new(file), symbols, stamp, version })
}
