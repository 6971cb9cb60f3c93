//! The bpf(2) commands that aya does not support yet: loading a program for uprobe_multi, linking it to many functions
//! of a file at once (Linux 6.6, `union bpf_attr` in include/uapi/linux/bpf.h), and pinning that link. And one for
//! threads that have no access to aya's maps: reading an entry.
//!
//! One link for a library attaches in milliseconds and, unlike two hundred perf events, detaches equally fast.

#![expect(unsafe_code, reason = "system calls that no crate wraps")]

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya_obj::generated::bpf_insn;

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
const BPF_TRACE_UPROBE_SESSION: u32 = 57;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;
const BPF_F_SLEEPABLE: u32 = 16;
const LOG_BYTES: usize = 1 << 20;
/// How often a program is given to the verifier while signals interrupt it.
const VERIFICATIONS_MAX: u32 = 5;

/// Where in a function a program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Before its first instruction.
    Entry,
    /// After it returned.
    Return,
}

/// How a program is linked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// At one end of functions.
    Multi,
    /// At both ends of functions: its result 1 at the entry refuses the return (Linux 6.13).
    Session,
}

impl Kind {
    fn attach_type(self) -> u32 {
        match self {
            Kind::Multi => BPF_TRACE_UPROBE_MULTI,
            Kind::Session => BPF_TRACE_UPROBE_SESSION,
        }
    }
}

/// `union bpf_attr`, the part of BPF_MAP_LOOKUP_ELEM.
#[repr(C)]
struct MapLookup {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr`, the part of BPF_PROG_LOAD that is used.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// `union bpf_attr`, the part of BPF_LINK_CREATE for uprobe_multi.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    multi_flags: u32,
    pid: u32,
    pad: u32,
}

/// `union bpf_attr`, the part of BPF_OBJ_PIN.
#[repr(C)]
struct ObjPin {
    path: u64,
    fd: u32,
    flags: u32,
}

/// Runs a command. Returns its result, which is a file descriptor for some commands.
fn command<T>(command: libc::c_long, attr: &T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is a live struct of the given size whose pointers are valid for the call, which all callers
    // below ensure; the kernel copies it and does not retain its pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn bpf<T>(number: libc::c_long, attr: &T) -> io::Result<OwnedFd> {
    let fd = command(number, attr)?;
    // SAFETY: on success BPF_PROG_LOAD and BPF_LINK_CREATE, the commands of the callers, return a new file descriptor
    // that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Reads the entry of a map for `key` into `value`, which must have the sizes of the map. Returns whether there is one.
pub fn lookup<const KEY: usize, const WORDS: usize>(
    map: &OwnedFd,
    key: [u8; KEY],
    value: &mut [u64; WORDS],
) -> bool {
    let attr = MapLookup {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: `attr` is a live struct of the given size; the kernel reads and writes as many bytes as the map's keys and
    // values have, which the caller ensures are `KEY` and `8 * WORDS`.
    unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_ELEM, &raw const attr, size_of::<MapLookup>()) == 0 }
}

/// Loads a program that can be linked by [`link`]. The error contains the end of the verifier log.
///
/// The program is loaded as sleepable although it never sleeps: the kernel needs two more calls per hit for others.
pub fn load(name: &str, instructions: &[bpf_insn]) -> io::Result<OwnedFd> {
    load_as(name, instructions, Kind::Multi, BPF_F_SLEEPABLE)
}

/// Loads a program as [`load`] does, of any kind and with other flags.
pub fn load_as(name: &str, instructions: &[bpf_insn], kind: Kind, prog_flags: u32) -> io::Result<OwnedFd> {
    let mut attr = ProgLoad {
        prog_type: BPF_PROG_TYPE_KPROBE,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        prog_flags,
        expected_attach_type: kind.attach_type(),
        ..ProgLoad::default()
    };
    let name = &name.as_bytes()[..name.len().min(15)];
    attr.prog_name[..name.len()].copy_from_slice(name);
    verify(&attr).or_else(|first| {
        let mut log = vec![0u8; LOG_BYTES];
        attr.log_level = 1;
        attr.log_size = LOG_BYTES as u32;
        attr.log_buf = log.as_mut_ptr() as u64;
        verify(&attr).map_err(|_| io::Error::new(first.kind(), format!("{first}: {}", tail(&log))))
    })
}

/// Loads a program. The verifier gives up when a signal is pending, and is then started again, as by libbpf.
fn verify(attr: &ProgLoad) -> io::Result<OwnedFd> {
    let mut loaded = bpf(BPF_PROG_LOAD, attr);
    for _ in 1..VERIFICATIONS_MAX {
        match loaded {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => loaded = bpf(BPF_PROG_LOAD, attr),
            loaded => return loaded,
        }
    }
    loaded
}

/// Returns the number of instructions that the verifier follows to load a program, as the last line of its log has it.
#[cfg(test)]
pub fn followed_instructions(instructions: &[bpf_insn]) -> io::Result<u64> {
    const LOG_STATISTICS: u32 = 4;
    let mut log = vec![0u8; LOG_BYTES];
    let attr = ProgLoad {
        prog_type: BPF_PROG_TYPE_KPROBE,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: LOG_STATISTICS,
        log_size: LOG_BYTES as u32,
        log_buf: log.as_mut_ptr() as u64,
        prog_flags: BPF_F_SLEEPABLE,
        expected_attach_type: BPF_TRACE_UPROBE_MULTI,
        ..ProgLoad::default()
    };
    bpf(BPF_PROG_LOAD, &attr)?;
    let text = tail(&log);
    let count = text.split("processed ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    count.ok_or_else(|| io::Error::other(text))
}

fn tail(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("; ")
}

/// Links `program` to the functions of the file at `path` that begin at the given offsets, each with a cookie. The link is
/// of one process, or of every process that maps the file if `pid` is 0: no other process has a breakpoint for it.
pub fn link(
    program: &OwnedFd,
    path: &Path,
    points: &[(u64, u64)],
    end: End,
    pid: u32,
) -> io::Result<OwnedFd> {
    let path = c_string(path.as_os_str())?;
    let offsets: Vec<u64> = points.iter().map(|(offset, _)| *offset).collect();
    let cookies: Vec<u64> = points.iter().map(|(_, cookie)| *cookie).collect();
    let attr = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        attach_type: BPF_TRACE_UPROBE_MULTI,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        cnt: points.len() as u32,
        multi_flags: if end == End::Return { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
        pid,
        ..LinkCreate::default()
    };
    bpf(BPF_LINK_CREATE, &attr)
}

/// Links a program of [`Kind::Session`] to the function at an offset, for every process that maps the file.
pub fn link_session(program: &OwnedFd, path: &Path, offset: u64) -> io::Result<OwnedFd> {
    let path = c_string(path.as_os_str())?;
    let attr = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        attach_type: BPF_TRACE_UPROBE_SESSION,
        path: path.as_ptr() as u64,
        offsets: (&raw const offset) as u64,
        cnt: 1,
        ..LinkCreate::default()
    };
    bpf(BPF_LINK_CREATE, &attr)
}

/// Pins a link: it stays attached for as long as the file at `path`, which must be on a bpf file system, exists.
pub fn pin(link: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_string(path.as_os_str())?;
    let attr = ObjPin { path: path.as_ptr() as u64, fd: link.as_raw_fd() as u32, flags: 0 };
    command(BPF_OBJ_PIN, &attr).map(drop)
}

/// Returns true if `path` is on a bpf file system.
pub fn is_bpf_fs(path: &Path) -> io::Result<bool> {
    let path = c_string(path.as_os_str())?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends with a NUL, and the kernel fills `found`, which has the size of the struct, on success.
    let found = unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        found.assume_init()
    };
    Ok(found.f_type as u64 == BPF_FS_MAGIC)
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}
