//! The probe programs for uprobe_multi, which aya does not load: they use the maps that aya created, and frequent calls
//! have a program for each cookie.
//!
//! For launches and collectives, the helper call for the cookie is a large part of the cost of a hit. Their cookies fit
//! into an instruction, and the verifier then removes branches that the row does not need. This takes one small program
//! and one link for each entry and return of such a function.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::generated::bpf_func_id::BPF_FUNC_get_attach_cookie;
use aya_obj::generated::bpf_insn;
use probe_abi::Cookie;

use crate::CaptureError;
use crate::attach::{Point, timed, untimed, with_args};
use crate::kernel::chain;
use crate::objects::OBJECT;
use crate::sys::{self, End};

/// The probe programs, loaded for uprobe_multi.
pub struct Multi {
    enter: OwnedFd,
    leave: OwnedFd,
    args_enter: OwnedFd,
    args_leave: OwnedFd,
    /// Relocated instructions of the programs for frequent calls; they refer to maps by file descriptor.
    frequent: [Vec<bpf_insn>; 3],
    /// The file descriptors of the maps.
    #[expect(dead_code, reason = "kept open for as long as programs may be loaded")]
    maps: Vec<OwnedFd>,
    /// The programs loaded for frequent calls, by cookie; at most one for each such row and its per-thread twin.
    loaded: BTreeMap<(Frequent, u64), OwnedFd>,
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

fn failed(reason: String) -> CaptureError {
    CaptureError::Load { what: "uprobe_multi", reason }
}

impl Multi {
    /// Loads the programs over the maps that `ebpf` made.
    pub fn load(ebpf: &Ebpf) -> Result<Multi, CaptureError> {
        let mut object = aya_obj::Object::parse(OBJECT).map_err(|e| failed(chain(&e)))?;
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let descriptors: HashMap<&str, OwnedFd> =
            ebpf.maps().filter_map(|(name, map)| Some((name, fd(map)?))).collect();
        let maps = object.maps.clone();
        let bound = maps
            .iter()
            .filter_map(|(name, map)| Some((name.as_str(), raw(descriptors.get(name.as_str())?), map)));
        object.relocate_maps(bound, &text).map_err(|e| failed(chain(&e)))?;
        object.relocate_calls(&text).map_err(|e| failed(chain(&e)))?;
        let load = |name: &str| -> Result<OwnedFd, CaptureError> {
            sys::load(name, instructions(&object, name)?).map_err(|e| failed(e.to_string()))
        };
        let mut frequent = <[Vec<bpf_insn>; 3]>::default();
        for (program, into) in Frequent::ALL.into_iter().zip(&mut frequent) {
            *into = instructions(&object, program.name())?.to_vec();
        }
        let (enter, leave) = (load("enter")?, load("leave")?);
        let (args_enter, args_leave) = (load("args_enter")?, load("args_leave")?);
        let maps = descriptors.into_values().collect();
        Ok(Multi { enter, leave, args_enter, args_leave, frequent, maps, loaded: BTreeMap::new() })
    }

    /// Attaches to functions of the file at `path`. Dropping the links detaches the probes.
    pub fn link(&mut self, path: &Path, points: &[Point]) -> io::Result<Links> {
        let pair = |p: &Point| (p.offset, p.cookie.0);
        let mut links = Links::default();
        let timed: Vec<_> = timed(points).map(pair).collect();
        let (embedded, args): (Vec<_>, Vec<_>) =
            with_args(points).partition(|p| p.cookie.as_constant().is_some());
        let args: Vec<_> = args.into_iter().map(pair).collect();
        for (all, enter, leave) in
            [(timed, &self.enter, &self.leave), (args, &self.args_enter, &self.args_leave)]
        {
            if !all.is_empty() {
                // Returns first, so that every entry that is probed has a probed return.
                links.returns.push(sys::link(leave, path, &all, End::Return)?);
                links.entries.push(sys::link(enter, path, &all, End::Entry)?);
            }
        }
        for point in embedded {
            let (enter, leave) = (Frequent::ArgsEnter, Frequent::ArgsLeave);
            links.returns.push(sys::link(
                self.with_cookie(leave, point.cookie)?,
                path,
                &[pair(point)],
                End::Return,
            )?);
            links.entries.push(sys::link(
                self.with_cookie(enter, point.cookie)?,
                path,
                &[pair(point)],
                End::Entry,
            )?);
        }
        for point in untimed(points) {
            let program = self.with_cookie(Frequent::Launch, point.cookie)?;
            links.entries.push(sys::link(program, path, &[pair(point)], End::Entry)?);
        }
        Ok(links)
    }

    /// Returns the program with this cookie embedded, and loads it on first use.
    fn with_cookie(&mut self, program: Frequent, cookie: Cookie) -> io::Result<&OwnedFd> {
        let key = (program, cookie.0);
        if !self.loaded.contains_key(&key) {
            let mut instructions = self.frequent[program as usize].clone();
            if let Some(constant) = cookie.as_constant() {
                embed_cookie(&mut instructions, constant);
            }
            self.loaded.insert(key, sys::load(program.name(), &instructions)?);
        }
        self.loaded.get(&key).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The links of one file. Entries are detached first, so that every entry that is probed has a probed return.
#[derive(Default)]
pub struct Links {
    entries: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
}

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
