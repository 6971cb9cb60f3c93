//! The probe programs for uprobe_multi, which aya does not load: they use the maps that aya created, and frequent calls
//! have a program for each cookie.
//!
//! For launches and collectives, the helper call for the cookie is a large part of the cost of a hit. Their cookies fit
//! into an instruction, and the verifier then removes branches that the row does not need. This takes one small program
//! and one link for each entry and return of such a function.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::generated::bpf_func_id::BPF_FUNC_get_attach_cookie;
use aya_obj::generated::bpf_insn;
use probe_abi::{Action, Cookie, Library, attach_points};

use crate::CaptureError;
use crate::attach::{Point, ProbedFile, Stage, in_stages};
use crate::budget::{ClassSet, ProbeClass};
use crate::kernel::chain;
use crate::objects::OBJECT;
use crate::sys::{self, End};

/// The probe programs, loaded for uprobe_multi.
pub struct Multi {
    enter: Arc<OwnedFd>,
    leave: Arc<OwnedFd>,
    args_enter: Arc<OwnedFd>,
    args_leave: Arc<OwnedFd>,
    /// Relocated instructions of the programs for frequent calls; they refer to maps by file descriptor.
    frequent: [Vec<bpf_insn>; 3],
    /// The file descriptors of the maps, which programs that are loaded later refer to.
    maps: HashMap<String, OwnedFd>,
    /// The programs loaded for frequent calls, by cookie; at most one for each such row and its per-thread twin.
    loaded: BTreeMap<(Frequent, u64), Arc<OwnedFd>>,
    /// Programs that are still to be loaded before they are needed.
    pending: Vec<Program>,
}

/// A program into which the cookie is embedded.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Frequent {
    Launch,
    ArgsEnter,
    ArgsLeave,
}

impl Frequent {
    const ALL: [Frequent; 3] = [Frequent::Launch, Frequent::ArgsEnter, Frequent::ArgsLeave];

    fn name(self) -> &'static str {
        match self {
            Frequent::Launch => "launch",
            Frequent::ArgsEnter => "args_enter",
            Frequent::ArgsLeave => "args_leave",
        }
    }
}

/// A program at one end of functions.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Program {
    Enter,
    Leave,
    ArgsEnter,
    ArgsLeave,
    /// A program with this cookie embedded.
    Embedded(Frequent, u64),
}

impl Program {
    /// Returns the program for a function's probe of a stage.
    fn of(stage: Stage, cookie: Cookie) -> Program {
        let (is_args, is_return) = (cookie.is(Action::RecordArgs), stage == Stage::Return);
        match (is_args && cookie.as_constant().is_some(), is_args, is_return) {
            (true, _, true) => Program::Embedded(Frequent::ArgsLeave, cookie.0),
            (true, _, false) => Program::Embedded(Frequent::ArgsEnter, cookie.0),
            (_, true, true) => Program::ArgsLeave,
            (_, true, false) => Program::ArgsEnter,
            (_, _, true) => Program::Leave,
            _ if cookie.is_timed() => Program::Enter,
            _ => Program::Embedded(Frequent::Launch, cookie.0),
        }
    }
}

/// Returns the programs of a stage, each with the offset and cookie of its functions, which are of one class.
fn programs(stage: Stage, points: &[Point]) -> BTreeMap<(ProbeClass, Program), Vec<(u64, u64)>> {
    let mut programs: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
    for point in stage.points(points) {
        let key = (ProbeClass::of_row(point.cookie.id()), Program::of(stage, point.cookie));
        programs.entry(key).or_default().push((point.offset, point.cookie.0));
    }
    programs
}

fn failed(reason: String) -> CaptureError {
    CaptureError::Load { what: "uprobe_multi", reason }
}

impl Multi {
    /// Loads the programs over the maps that `ebpf` made.
    pub fn load(ebpf: &Ebpf) -> Result<Multi, CaptureError> {
        let descriptors: HashMap<&str, OwnedFd> =
            ebpf.maps().filter_map(|(name, map)| Some((name, fd(map)?))).collect();
        let object = relocated(&descriptors)?;
        let mut frequent = <[Vec<bpf_insn>; 3]>::default();
        for (program, into) in Frequent::ALL.into_iter().zip(&mut frequent) {
            *into = instructions(&object, program.name())?.to_vec();
        }
        let (enter, leave) = load_both(&object, ["enter", "leave"])?;
        let (args_enter, args_leave) = load_both(&object, ["args_enter", "args_leave"])?;
        let maps = descriptors.into_iter().map(|(name, fd)| (name.to_owned(), fd)).collect();
        let (loaded, pending) = (BTreeMap::new(), Vec::new());
        Ok(Multi { enter, leave, args_enter, args_leave, frequent, maps, loaded, pending })
    }

    /// Notes the programs of these libraries as needed soon.
    pub fn expect(&mut self, libraries: &[Library]) {
        let points = libraries.iter().flat_map(|library| attach_points(*library, false));
        let points: Vec<Point> = points.map(|(_, cookie)| Point { offset: 0, cookie }).collect();
        self.pending = Stage::ALL
            .into_iter()
            .flat_map(|stage| programs(stage, &points).into_keys())
            .map(|(_, program)| program)
            .collect();
    }

    /// Loads one of the programs that are needed soon, which takes the verifier some milliseconds. Returns false if there
    /// is none.
    pub fn preload(&mut self) -> bool {
        // A program that cannot be loaded is refused again when it is linked, with the file that needs it.
        self.pending.pop().is_some_and(|program| self.program(program).is_ok() || !self.pending.is_empty())
    }

    /// Attaches to functions of files, in stages. Dropping the links detaches the probes. Programs are loaded before,
    /// so that little time passes between two stages.
    pub fn link_all(&mut self, files: &[ProbedFile<'_>]) -> Vec<io::Result<FileLinks>> {
        let needed = |stage: Stage| files.iter().flat_map(move |f| programs(stage, f.points).into_keys());
        // A program that cannot be loaded is refused again when it is linked, with the file that needs it.
        Stage::ALL.into_iter().flat_map(needed).for_each(|(_, program)| drop(self.program(program)));
        in_stages(files, |stage, file, links: &mut FileLinks| {
            for ((class, program), points) in programs(stage, file.points) {
                let link = sys::link(self.program(program)?, file.path, &points, stage.end(), ALL_PROCESSES)?;
                links.of(class).add(stage.end(), link);
            }
            Ok(())
        })
    }

    /// Returns another file descriptor of a map.
    pub fn map(&self, name: &str) -> Option<OwnedFd> {
        self.maps.get(name)?.try_clone().ok()
    }

    /// Returns how the functions of the classes that can be thinned are linked, in the order of the stages.
    pub fn thinnable(&mut self, points: &[Point]) -> io::Result<Vec<LinkPlan>> {
        let mut plans = Vec::new();
        for stage in Stage::ALL {
            for ((class, program), points) in programs(stage, points) {
                if class != ProbeClass::Essential {
                    let program = Arc::clone(self.program(program)?);
                    plans.push(LinkPlan { class, program, points, end: stage.end() });
                }
            }
        }
        Ok(plans)
    }

    fn program(&mut self, program: Program) -> io::Result<&Arc<OwnedFd>> {
        match program {
            Program::Enter => Ok(&self.enter),
            Program::Leave => Ok(&self.leave),
            Program::ArgsEnter => Ok(&self.args_enter),
            Program::ArgsLeave => Ok(&self.args_leave),
            Program::Embedded(program, cookie) => self.with_cookie(program, Cookie(cookie)),
        }
    }

    /// Returns the program with this cookie embedded, and loads it on first use.
    fn with_cookie(&mut self, program: Frequent, cookie: Cookie) -> io::Result<&Arc<OwnedFd>> {
        let key = (program, cookie.0);
        if !self.loaded.contains_key(&key) {
            let mut instructions = self.frequent[program as usize].clone();
            if let Some(constant) = cookie.as_constant() {
                embed_cookie(&mut instructions, constant);
            }
            self.loaded.insert(key, Arc::new(sys::load(program.name(), &instructions)?));
        }
        self.loaded.get(&key).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The `pid` of a link for every process that maps the file.
pub const ALL_PROCESSES: u32 = 0;

/// A link that can be made at any time: a program and its functions, of one class.
pub struct LinkPlan {
    class: ProbeClass,
    program: Arc<OwnedFd>,
    points: Vec<(u64, u64)>,
    end: End,
}

impl LinkPlan {
    /// Links the functions of these classes in a file, for one process or [`ALL_PROCESSES`].
    pub fn link(plans: &[LinkPlan], classes: ClassSet, path: &Path, pid: u32) -> io::Result<Links> {
        let mut links = Links::default();
        for plan in plans.iter().filter(|plan| classes.contains(plan.class)) {
            links.add(plan.end, sys::link(&plan.program, path, &plan.points, plan.end, pid)?);
        }
        Ok(links)
    }
}

/// The links of one file: those that stay as long as the file is attached, and those of the classes that can be thinned.
#[derive(Default)]
pub struct FileLinks {
    /// The links that stay.
    pub essential: Links,
    /// The links of the other classes, unless links of single processes replace them.
    pub thinnable: Option<Links>,
}

impl FileLinks {
    fn of(&mut self, class: ProbeClass) -> &mut Links {
        match class {
            ProbeClass::Essential => &mut self.essential,
            _ => self.thinnable.get_or_insert_default(),
        }
    }

    /// Pins all links in a directory: entries as `e0`, `e1`, …, returns as `r0`, `r1`, …, and thinnable ones as `te0`, ….
    pub fn pin(&self, dir: &Path) -> io::Result<()> {
        self.essential.pin(dir, "")?;
        self.thinnable.iter().try_for_each(|links| links.pin(dir, THINNABLE))
    }
}

/// Links of functions. Entries are detached first, so that every entry that is probed has a probed return.
#[derive(Default)]
pub struct Links {
    entries: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
    /// Where the links are pinned.
    pins: Vec<(End, PathBuf)>,
}

/// The beginning of the names of pinned links that can be thinned.
const THINNABLE: &str = "t";

impl Links {
    /// Returns the thinnable links that an earlier agent pinned in a directory, if there are any.
    pub fn pinned(dir: &Path) -> Option<Links> {
        let mut links = Links::default();
        links.set_pins(dir);
        (!links.pins.is_empty()).then_some(links)
    }

    /// Sets the directory in which the links are pinned.
    pub fn set_pins(&mut self, dir: &Path) {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        self.pins = names.filter_map(|path| Some((thinnable_end(&path)?, path))).collect();
    }

    /// Pins thinnable links in a directory.
    pub fn pin_thinnable(&self, dir: &Path) -> io::Result<()> {
        self.pin(dir, THINNABLE)
    }

    fn pin(&self, dir: &Path, prefix: &str) -> io::Result<()> {
        for (kind, links) in [("e", &self.entries), ("r", &self.returns)] {
            for (at, link) in links.iter().enumerate() {
                sys::pin(link, &dir.join(format!("{prefix}{kind}{at}")))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, end: End, link: OwnedFd) {
        match end {
            End::Entry => self.entries.push(link),
            End::Return => self.returns.push(link),
        }
    }

    /// Adds the links of `other`.
    pub fn append(&mut self, mut other: Links) {
        self.entries.append(&mut other.entries);
        self.returns.append(&mut other.returns);
        self.pins.append(&mut other.pins);
    }

    /// Detaches the probes, also those that are pinned.
    pub fn detach(mut self) {
        for (end, links) in [(End::Entry, &mut self.entries), (End::Return, &mut self.returns)] {
            for (_, pin) in self.pins.iter().filter(|(of, _)| *of == end) {
                // A pin that is gone was removed with its directory.
                let _ = std::fs::remove_file(pin);
            }
            close_in_parallel(links);
        }
    }
}

fn thinnable_end(pin: &Path) -> Option<End> {
    let name = pin.file_name()?.to_str()?.strip_prefix(THINNABLE)?;
    Some(if name.starts_with('r') { End::Return } else { End::Entry })
}

/// Closes the links, whose probes stay attached if they are pinned.
impl Drop for Links {
    fn drop(&mut self) {
        close_in_parallel(&mut self.entries);
        close_in_parallel(&mut self.returns);
    }
}

/// Closes links in parallel: each waits tens of milliseconds until no CPU runs its program.
fn close_in_parallel(links: &mut Vec<OwnedFd>) {
    std::thread::scope(|scope| {
        for link in links.drain(..) {
            // If no thread can be started, the closure is dropped and the link is closed here.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(link));
        }
    });
}

/// Replaces calls of `bpf_get_attach_cookie` by a move of `cookie` into the register of the result.
fn embed_cookie(instructions: &mut [bpf_insn], cookie: i32) {
    const CALL: u8 = 0x85;
    const MOVE_32: u8 = 0xb4;
    let is_call =
        |i: &&mut bpf_insn| i.code == CALL && i.src_reg() == 0 && i.imm == BPF_FUNC_get_attach_cookie as i32;
    for instruction in instructions.iter_mut().filter(is_call) {
        (instruction.code, instruction.imm) = (MOVE_32, cookie);
    }
}

/// Returns the object with references to these maps.
fn relocated(descriptors: &HashMap<&str, OwnedFd>) -> Result<aya_obj::Object, CaptureError> {
    let mut object = aya_obj::Object::parse(OBJECT).map_err(|e| failed(chain(&e)))?;
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let maps = object.maps.clone();
    let bound = maps
        .iter()
        .filter_map(|(name, map)| Some((name.as_str(), raw(descriptors.get(name.as_str())?), map)));
    object.relocate_maps(bound, &text).map_err(|e| failed(chain(&e)))?;
    object.relocate_calls(&text).map_err(|e| failed(chain(&e)))?;
    Ok(object)
}

fn load(object: &aya_obj::Object, name: &str) -> Result<Arc<OwnedFd>, CaptureError> {
    let program = sys::load(name, instructions(object, name)?);
    program.map(Arc::new).map_err(|e| failed(e.to_string()))
}

/// Loads two programs at the same time, since the verifier takes long.
fn load_both(
    object: &aya_obj::Object,
    [first, second]: [&str; 2],
) -> Result<(Arc<OwnedFd>, Arc<OwnedFd>), CaptureError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || load(object, first));
        let second = load(object, second)?;
        let first = match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(loaded)) => loaded?,
            // No thread could be started.
            _ => load(object, first)?,
        };
        Ok((first, second))
    })
}

fn instructions<'a>(object: &'a aya_obj::Object, name: &str) -> Result<&'a [bpf_insn], CaptureError> {
    let program = object.programs.get(name);
    let function = program.and_then(|program| object.functions.get(&program.function_key()));
    function.map(|f| f.instructions.as_slice()).ok_or_else(|| failed(format!("there is no {name}")))
}

fn raw(fd: &OwnedFd) -> RawFd {
    fd.as_raw_fd()
}

fn fd(map: &Map) -> Option<OwnedFd> {
    let (Map::Array(data)
    | Map::HashMap(data)
    | Map::LruHashMap(data)
    | Map::PerCpuArray(data)
    | Map::RingBuf(data)) = map
    else {
        return None;
    };
    data.fd().as_fd().try_clone_to_owned().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `leave` took the verifier 650,534 instructions and 0.8 s; a million is the kernel's limit. Constants that took
    /// different paths to the same code were followed one by one. `enter` takes 360,000 since steps have signatures, each word
    /// of which is added where it is not 0; 205,000 before.
    #[test]
    fn programs_are_verified_in_few_instructions() {
        let Ok(kernel) = crate::kernel::Kernel::load(&crate::kernel::MapSizes::default(), true) else {
            return println!("skipped: no programs can be loaded");
        };
        let Some(multi) = kernel.multi else { return println!("skipped: there is no uprobe_multi") };
        let maps: HashMap<&str, OwnedFd> =
            multi.maps.keys().map(|n| (n.as_str(), multi.map(n).unwrap())).collect();
        let object = relocated(&maps).unwrap();
        for (name, at_most) in [("enter", 400_000), ("leave", 150_000), ("args_enter", 20_000)] {
            let followed = sys::followed_instructions(instructions(&object, name).unwrap()).unwrap();
            assert!(followed <= at_most, "{name}: {followed} instructions");
        }
    }

    #[test]
    fn cookie_replaces_the_helper_call_in_frequent_programs() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        for program in Frequent::ALL {
            let original = instructions(&object, program.name()).unwrap();
            let mut embedded = original.to_vec();
            embed_cookie(&mut embedded, 77);
            let changed: Vec<_> = original.iter().zip(&embedded).filter(|(a, b)| a.code != b.code).collect();
            assert_eq!(changed.len(), 1, "{} calls it once", program.name());
            assert_eq!((changed[0].1.code, changed[0].1.dst_reg(), changed[0].1.imm), (0xb4, 0, 77));
        }
    }
}
