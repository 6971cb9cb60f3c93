//! Creation and destruction of a rank's communicators: ids that ranks exchange in a file, splits, and handles that are
//! written at the end of a group.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::super::nccl_sentinels::hex;
use super::{Member, Rank};
use crate::model::clock;
use crate::nccl::abi::{NO_COLOR, NcclId};
use crate::oracle::{Line, NcclLine};
use crate::ranks::Color;

/// How often a rank polls for an id, ns.
const POLL_NS: u64 = 200_000;

impl Rank<'_> {
    /// Returns the id of a communicator, which its first rank creates and the others read.
    fn id(&mut self, name: &str, is_first: bool) -> NcclId {
        let generation = self.generations.entry(name.to_owned()).or_default();
        *generation += 1;
        let generation = *generation;
        if is_first {
            let mut id = NcclId([0; 128]);
            let mut line = self.words("ncclGetUniqueId", &[&raw mut id as u64]);
            line.exit = hex(&id.0);
            self.lines.push(Line::Nccl(line));
            if let Err(error) = self.ids.put(name, generation, &id) {
                let _ = writeln!(std::io::stderr(), "player: rank {} cannot store an id: {error}", self.rank);
            }
        }
        loop {
            match self.ids.get(name, generation) {
                Some(id) => return id,
                None => clock::sleep_until(clock::now_ns() + POLL_NS),
            }
        }
    }

    #[allow(unsafe_code, reason = "calls a C library")]
    pub(super) fn make(&mut self, name: &str, of: Option<&[usize]>) {
        let of: Vec<usize> = of.map_or_else(|| (0..self.script.ranks).collect(), <[usize]>::to_vec);
        let Some(rank) = of.iter().position(|rank| *rank == self.rank) else { return };
        let id = self.id(name, rank == 0);
        // Leaked because the end of a group writes to it.
        let handle_out: &'static AtomicU64 = Box::leak(Box::default());
        let (symbol, out) = ("ncclCommInitRankConfig", handle_out.as_ptr() as u64);
        // SAFETY: the address is valid forever, and the stub ignores the configuration.
        let made = unsafe { self.nccl.init(symbol, out, of.len() as i32, &id, rank as i32, 0) };
        let handle = handle_out.load(Relaxed);
        self.add_member(name, name.into(), handle, rank, of.len());
        if handle == 0 {
            self.unwritten.push((name.into(), handle_out));
        }
        let line = self.line(symbol, vec![out, of.len() as u64, 0, rank as u64, 0], made);
        let line = NcclLine { entry: hex(&id.0), exit: hex(&handle.to_le_bytes()), ..line };
        let line = self.of_member(line, name);
        self.lines.push(Line::Nccl(line));
    }

    fn add_member(&mut self, name: &str, label: String, handle: u64, rank: usize, nranks: usize) {
        let member = Member { label, handle, rank, nranks, next_seq: 0 };
        self.members.insert(name.into(), member);
    }

    pub(super) fn split(&mut self, name: &str, parent: &str, color: Color) {
        let Some(member) = self.members.get(parent) else { return };
        let of = |rank: usize| match color {
            Color::None => NO_COLOR,
            Color::Number(color) => color,
            Color::Divided(by) => (rank / by) as i32,
            Color::Remainder(by) => (rank % by) as i32,
        };
        let (own, handle) = (of(member.rank), member.handle);
        let mine: Vec<usize> = (0..member.nranks).filter(|rank| of(*rank) == own).collect();
        let rank = mine.iter().position(|rank| *rank == member.rank).unwrap_or(0);
        let (key, mut child) = (member.rank as u64, 0u64);
        let words = [handle, u64::from(own as u32), key, &raw mut child as u64, 0];
        let line = self.words("ncclCommSplit", &words);
        if child != 0 {
            self.add_member(name, format!("{name}.{own}"), child, rank, mine.len());
        }
        let line = self.of_member(NcclLine { exit: hex(&child.to_le_bytes()), ..line }, name);
        self.lines.push(Line::Nccl(line));
    }

    pub(super) fn query(&mut self, name: &str) {
        let Some(handle) = self.members.get(name).map(|m| m.handle) else { return };
        for symbol in ["ncclCommCount", "ncclCommUserRank"] {
            let mut value = 0i32;
            let line = self.words(symbol, &[handle, &raw mut value as u64]);
            let line = self.of_member(NcclLine { exit: hex(&value.to_le_bytes()), ..line }, name);
            self.lines.push(Line::Nccl(line));
        }
    }

    pub(super) fn end(&mut self, symbol: &'static str, name: &str) {
        let Some(handle) = self.members.get(name).map(|m| m.handle) else { return };
        let line = self.words(symbol, &[handle]);
        let line = self.of_member(line, name);
        self.lines.push(Line::Nccl(line));
        if symbol != "ncclCommFinalize" {
            self.members.remove(name);
        }
    }

    /// Returns the handles that the end of a group wrote: address and handle of each, as hexadecimal digits.
    pub(super) fn take_written(&mut self) -> String {
        let mut written = String::new();
        for (name, handle_out) in std::mem::take(&mut self.unwritten) {
            let handle = handle_out.load(Relaxed);
            written += &hex(&[handle_out.as_ptr() as u64, handle].map(u64::to_le_bytes).concat());
            if let Some(member) = self.members.get_mut(&name) {
                member.handle = handle;
            }
        }
        written
    }
}
