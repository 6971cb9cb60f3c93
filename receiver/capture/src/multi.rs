//! The probe programs for uprobe_multi, which aya does not load: over the maps that aya made, and a launch program for
//! each cookie.
//!
//! Launches are so many that asking the kernel for the cookie is a good part of what they cost. Their cookies fit an
//! instruction, and the verifier drops what a row does not need: the price is one small program, and one link, a
//! launch function.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::generated::bpf_func_id::BPF_FUNC_get_attach_cookie;
use aya_obj::generated::bpf_insn;
use table::Cookie;

use crate::CaptureError;
use crate::attach::{Point, timed, told, untimed};
use crate::kernel::chain;
use crate::objects::OBJECT;
use crate::sys::{self, End};

/// The probe programs, loaded for uprobe_multi.
pub struct Multi {
    enter: OwnedFd,
    leave: OwnedFd,
    told_enter: OwnedFd,
    told_leave: OwnedFd,
    /// What runs at entries of launches, all but loaded: it names maps by their descriptors.
    launch: Vec<bpf_insn>,
    /// Those descriptors.
    #[expect(dead_code, reason = "held for as long as launches may be loaded")]
    maps: Vec<OwnedFd>,
    /// The same loaded, by cookie: at most as many as there are launch rows and twins.
    launches: BTreeMap<u64, OwnedFd>,
}

fn failed(reason: String) -> CaptureError {
    CaptureError::Load { what: "uprobe_multi", reason }
}

impl Multi {
    /// Loads the programs over the maps that `ebpf` made.
    pub fn load(ebpf: &Ebpf) -> Result<Multi, CaptureError> {
        let mut object = aya_obj::Object::parse(OBJECT).map_err(|e| failed(chain(&e)))?;
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let held: HashMap<&str, OwnedFd> =
            ebpf.maps().filter_map(|(name, map)| Some((name, fd(map)?))).collect();
        let maps = object.maps.clone();
        let bound =
            maps.iter().filter_map(|(name, map)| Some((name.as_str(), raw(held.get(name.as_str())?), map)));
        object.relocate_maps(bound, &text).map_err(|e| failed(chain(&e)))?;
        object.relocate_calls(&text).map_err(|e| failed(chain(&e)))?;
        let load = |name: &str| -> Result<OwnedFd, CaptureError> {
            sys::load(name, instructions(&object, name)?).map_err(|e| failed(e.to_string()))
        };
        let launch = instructions(&object, "launch")?.to_vec();
        let (enter, leave) = (load("enter")?, load("leave")?);
        let (told_enter, told_leave) = (load("told_enter")?, load("told_leave")?);
        let maps = held.into_values().collect();
        Ok(Multi { enter, leave, told_enter, told_leave, launch, maps, launches: BTreeMap::new() })
    }

    /// Attaches to functions of the file at `path`; dropping what comes back takes the probes away.
    pub fn link(&mut self, path: &Path, points: &[Point]) -> io::Result<Links> {
        let pair = |p: &Point| (p.offset, p.cookie.0);
        let mut links = Links::default();
        let timed: Vec<_> = timed(points).map(pair).collect();
        let told: Vec<_> = told(points).map(pair).collect();
        for (all, enter, leave) in
            [(timed, &self.enter, &self.leave), (told, &self.told_enter, &self.told_leave)]
        {
            if !all.is_empty() {
                // Returns first: a call that is seen to begin is then seen to end.
                links.returns.push(sys::link(leave, path, &all, End::Return)?);
                links.entries.push(sys::link(enter, path, &all, End::Entry)?);
            }
        }
        for point in untimed(points) {
            links.entries.push(sys::link(self.launch(point.cookie)?, path, &[pair(point)], End::Entry)?);
        }
        Ok(links)
    }

    /// The program for a launch with this cookie.
    fn launch(&mut self, cookie: Cookie) -> io::Result<&OwnedFd> {
        if !self.launches.contains_key(&cookie.0) {
            let mut instructions = self.launch.clone();
            if let Some(constant) = cookie.as_constant() {
                hold_cookie(&mut instructions, constant);
            }
            self.launches.insert(cookie.0, sys::load("launch", &instructions)?);
        }
        self.launches.get(&cookie.0).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The links of one file. Dropped, entries go first, so that a call that is seen to begin is seen to end.
#[derive(Default)]
pub struct Links {
    entries: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
}

impl Drop for Links {
    fn drop(&mut self) {
        // Side by side: closing a link waits tens of milliseconds until no CPU runs its program, and they wait alike.
        std::thread::scope(|scope| {
            for link in self.entries.drain(..) {
                // Where there is no thread to be had, the link is closed here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(link));
            }
        });
        self.returns.clear();
    }
}

/// Replaces calls of `bpf_get_attach_cookie` by a move of `cookie` to where the call would have put it.
fn hold_cookie(instructions: &mut [bpf_insn], cookie: i32) {
    const CALL: u8 = 0x85;
    const MOVE_32: u8 = 0xb4;
    let asks =
        |i: &&mut bpf_insn| i.code == CALL && i.src_reg() == 0 && i.imm == BPF_FUNC_get_attach_cookie as i32;
    for instruction in instructions.iter_mut().filter(asks) {
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
    fn a_launch_holds_its_cookie_instead_of_asking_for_it() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        let asked = instructions(&object, "launch").unwrap();
        let mut held = asked.to_vec();
        hold_cookie(&mut held, 77);
        let changed: Vec<_> = asked.iter().zip(&held).filter(|(a, h)| a.code != h.code).collect();
        assert_eq!(changed.len(), 1, "the program asks once");
        assert_eq!((changed[0].1.code, changed[0].1.dst_reg(), changed[0].1.imm), (0xb4, 0, 77));
    }
}
