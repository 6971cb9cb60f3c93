//! The pins of an agent with other objects, until this agent's programs have replaced its programs.

use std::path::{Path, PathBuf};

use event::ProcessId;
use probe_abi::record::ProcessFold;
use zerocopy::transmute;

use super::NEW;
use super::carried::CarriedTotals;
use super::root::Root;
use super::state::{Progress, Stored};
use crate::CaptureError;
use crate::kernel::{Kernel, PROCESS_WORDS, Words};

/// The pins of a former agent.
pub(crate) struct Former {
    /// Its directory.
    pub(super) dir: PathBuf,
    /// Its maps, if their values have the layout of this agent's.
    pub(crate) maps: Option<FormerMaps>,
}

/// The maps of a former agent.
pub(crate) struct FormerMaps {
    pub(crate) kernel: Kernel,
    pub(super) stored: Stored,
    pub(crate) progress: Progress,
    /// Totals that still older programs counted.
    pub(crate) carried: CarriedTotals,
}

impl FormerMaps {
    fn open(dir: &Path) -> Result<FormerMaps, CaptureError> {
        let kernel = Kernel::open(dir)?;
        let stored = Stored::open(&dir.join("agent")).map_err(super::failed)?;
        let (progress, carried) = (stored.progress(), stored.carried());
        Ok(FormerMaps { kernel, stored, progress, carried })
    }

    /// Takes over from an older agent, which the agent of these maps did not complete.
    fn take_over(&mut self, older: &FormerMaps) {
        for process in older.kernel.processes.iter().flatten().map(process_id) {
            for (row, carried, _) in older.carried.read(&older.kernel, &self.kernel, process) {
                self.stored.carry(process.pid, row, &carried);
                self.carried.insert(process.pid, row, carried);
            }
        }
        self.stored.add_processes_of(&older.stored);
    }
}

/// Returns the identity of a counted process.
pub(crate) fn process_id((pid, fold): (u32, Words<PROCESS_WORDS>)) -> ProcessId {
    let fold: ProcessFold = transmute!(fold);
    ProcessId { pid, start_ns: fold.start_ns.into_inner() }
}

/// Opens the pins of the agent that was last to begin. What it had not taken over from older ones is taken over here.
/// `adopted_unix_ns` is when the adopted agent began, if there is one: later agents had not completed to take over from it,
/// so that their counts are among its counts.
pub(super) fn open(root: &Root, own: &str, adopted_unix_ns: Option<u64>) -> Option<Former> {
    let mut last: Option<Former> = None;
    for mut former in open_all(root, own) {
        let is_later = former
            .maps
            .as_ref()
            .is_some_and(|m| adopted_unix_ns.is_some_and(|ns| m.progress.since_unix_ns > ns));
        if is_later {
            release(root, &former);
            continue;
        }
        if let (Some(maps), Some(Former { maps: Some(older), .. })) = (&mut former.maps, &last) {
            maps.take_over(older);
        }
        last.replace(former).iter().for_each(|older| release(root, older));
    }
    last
}

/// Opens the pins of all other agents, in the order in which they began.
fn open_all(root: &Root, own: &str) -> Vec<Former> {
    let others = root.ids().into_iter().filter(|name| name != own && name != NEW);
    let open = |name: String| {
        let dir = root.path().join(name);
        let different =
            |reason: &_| tracing::info!(%reason, "counts of an agent with other objects begin again");
        let maps = FormerMaps::open(&dir).inspect_err(different).ok();
        Former { dir, maps }
    };
    let mut all: Vec<Former> = others.map(open).collect();
    all.sort_by_key(|former| former.maps.as_ref().map(|maps| maps.progress.since_unix_ns));
    all
}

/// Removes the pins of a former agent, whose programs are then detached.
pub(super) fn release(root: &Root, former: &Former) {
    let name = former.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Renamed first: of a directory that is removed in part, a later agent would take the counts for current ones.
    if let Err(e) = root.rename(name, NEW).and_then(|()| root.remove(NEW)) {
        tracing::warn!(dir = %former.dir.display(), %e, "probes of a former agent cannot be removed");
    }
}
