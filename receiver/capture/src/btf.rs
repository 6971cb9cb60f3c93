//! Offsets of fields in structs of the running kernel, read from its BTF (Documentation/bpf/btf.rst).
//!
//! The kernel programs need eight offsets, for which CO-RE relocation would be more code. Only structs and their
//! members are decoded, including members of unnamed structs and unions.

use std::collections::HashMap;

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
/// Maximum number of types; BTF with more is refused.
const TYPES_MAX: usize = 4_000_000;
/// Maximum nesting depth of unnamed structs.
const DEPTH_MAX: u32 = 8;

/// An error in the BTF of the kernel.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("kernel BTF is not readable: {0}")]
pub struct BtfError(&'static str);

/// The structs in the BTF of a kernel.
pub struct Btf<'a> {
    /// Type ids by name, of named structs.
    structs: HashMap<&'a [u8], u32>,
    /// Members by type id, of structs and unions.
    members: HashMap<u32, Vec<Member<'a>>>,
}

struct Member<'a> {
    name: &'a [u8],
    kind: u32,
    bits: u32,
}

fn u32_at(data: &[u8], at: usize) -> Result<u32, BtfError> {
    let bytes = data.get(at..at + 4).ok_or(BtfError("it ends early"))?;
    bytes.try_into().map(u32::from_ne_bytes).map_err(|_| BtfError("it ends early"))
}

fn string(strings: &[u8], at: u32) -> &[u8] {
    let rest = strings.get(at as usize..).unwrap_or_default();
    rest.split(|b| *b == 0).next().unwrap_or_default()
}

impl<'a> Btf<'a> {
    /// Reads the structs of the types section.
    pub fn parse(data: &'a [u8]) -> Result<Btf<'a>, BtfError> {
        if data.get(..2) != Some(&MAGIC.to_ne_bytes()[..]) {
            return Err(BtfError("it does not begin with its magic number"));
        }
        let header = u32_at(data, 4)? as usize;
        let section = |offset, length| -> Result<&'a [u8], BtfError> {
            let from = header + u32_at(data, offset)? as usize;
            data.get(from..from + u32_at(data, length)? as usize)
                .ok_or(BtfError("a section is outside the data"))
        };
        Btf::read_types(section(8, 12)?, section(16, 20)?)
    }

    fn read_types(types: &'a [u8], strings: &'a [u8]) -> Result<Btf<'a>, BtfError> {
        let mut btf = Btf { structs: HashMap::new(), members: HashMap::new() };
        let (mut at, mut id) = (0, 0u32);
        while at < types.len() {
            id += 1;
            if id as usize > TYPES_MAX {
                return Err(BtfError("it has too many types"));
            }
            let (name, info) = (u32_at(types, at)?, u32_at(types, at + 4)?);
            let (kind, count, flag) = (info >> 24 & 0x1f, (info & 0xffff) as usize, info >> 31);
            at += 12;
            if kind == KIND_STRUCT || kind == KIND_UNION {
                let members = (0..count)
                    .map(|n| member(types, strings, at + 12 * n, flag))
                    .collect::<Result<_, _>>()?;
                btf.members.insert(id, members);
                if kind == KIND_STRUCT {
                    btf.structs.insert(string(strings, name), id);
                }
            }
            at += trailer(kind, count)?;
        }
        Ok(btf)
    }

    /// Returns the offset in bytes of `field` in `structure` or its unnamed members; `None` if there is no such field.
    pub fn offset(&self, structure: &str, field: &str) -> Option<u64> {
        self.offset_in(*self.structs.get(structure.as_bytes())?, field.as_bytes(), DEPTH_MAX)
    }

    fn offset_in(&self, id: u32, field: &[u8], depth: u32) -> Option<u64> {
        let members = self.members.get(&id)?;
        if let Some(found) = members.iter().find(|m| m.name == field) {
            return Some(u64::from(found.bits) / 8);
        }
        let deeper = depth.checked_sub(1)?;
        let unnamed = members.iter().filter(|m| m.name.is_empty());
        unnamed.filter_map(|m| Some(u64::from(m.bits) / 8 + self.offset_in(m.kind, field, deeper)?)).next()
    }
}

fn member<'a>(types: &[u8], strings: &'a [u8], at: usize, flag: u32) -> Result<Member<'a>, BtfError> {
    let bits = u32_at(types, at + 8)?;
    // With the flag set, the upper byte holds the size of a bit-field.
    let bits = if flag == 1 { bits & 0x00ff_ffff } else { bits };
    Ok(Member { name: string(strings, u32_at(types, at)?), kind: u32_at(types, at + 4)?, bits })
}

/// Returns the number of bytes that follow a type of this kind.
fn trailer(kind: u32, count: usize) -> Result<usize, BtfError> {
    Ok(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        KIND_STRUCT | KIND_UNION | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return Err(BtfError("it has a type of an unknown kind")),
    })
}

#[cfg(test)]
mod tests {
    use probe_abi::thread_counter::ThreadCounter;

    use super::*;

    #[test]
    fn the_running_kernels_structs_are_found() {
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return println!("skipped: this kernel has no BTF");
        };
        let btf = Btf::parse(&data).unwrap();
        assert!(btf.offset("task_struct", "group_leader").unwrap() > 0);
        assert!(btf.offset("task_struct", "start_boottime").unwrap() > 0);
        for (structure, field) in ThreadCounter::ALL.into_iter().flat_map(ThreadCounter::path) {
            assert!(btf.offset(structure, field).is_some(), "{structure}.{field}");
        }
        assert_eq!(btf.offset("task_struct", "no such field"), None);
    }

    #[test]
    fn malformed_btf_is_refused_without_panic() {
        assert!(Btf::parse(b"").is_err());
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        for length in (0..data.len()).step_by(data.len() / 50) {
            let _ = Btf::parse(&data[..length]);
        }
    }
}
