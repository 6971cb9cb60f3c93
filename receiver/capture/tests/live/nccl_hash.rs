//! Names of communicators compared with NCCL's own code: the functions of NVIDIA's library that compute `commHash`.
//!
//! Without a driver no communicator is created: `ncclCommInitRank` queries the device first and fails, so that NCCL
//! never logs a name. But the library has its symbols, and the functions need no device. Their arguments are read from
//! the machine code of `ncclCommInitRankFunc` (2.32): `getHash(commId, 128)`, and for a child `eatHash` of the parent's
//! name (8 bytes), the parent's count of children (4) and the color (4), from (1, 1).

#![expect(unsafe_code, reason = "calls functions of a foreign library")]

use std::path::Path;

use ::nccl::hash::{UniqueId, of_child, of_unique_id};
use libloading::Library;
use object::{Object as _, ObjectSymbol as _};

use crate::nvidia::library;

/// `getHash(void const*, unsigned long)`.
const GET: &str = "_ZL7getHashPKvm";
/// `eatHash(unsigned long*, void const*, unsigned long)`.
const EAT: &str = "_ZL7eatHashPmPKvm";
/// `digestHash(unsigned long const*)`.
const DIGEST: &str = "_ZL10digestHashPKm";
/// An exported function, from which the load address of the library follows.
const ANCHOR: &str = "ncclGetVersion";

/// The functions, in a library that stays loaded.
struct Hashes {
    get: unsafe extern "C" fn(*const u8, usize) -> u64,
    eat: unsafe extern "C" fn(*mut u64, *const u8, usize),
    digest: unsafe extern "C" fn(*const u64) -> u64,
}

impl Hashes {
    /// Finds the functions; `None` if the library has no such symbols.
    fn of(path: &Path) -> Option<Hashes> {
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let place = |name: &str| file.symbols().find(|s| s.name() == Ok(name)).map(|s| s.address() as usize);
        let exported = file.dynamic_symbols().find(|s| s.name() == Ok(ANCHOR)).unwrap().address() as usize;
        // SAFETY: the initialisers of NVIDIA's library have no preconditions.
        let loaded = Box::leak(Box::new(unsafe { Library::new(path) }.unwrap()));
        // SAFETY: only its address is taken.
        let anchor = unsafe { loaded.get::<unsafe extern "C" fn()>(ANCHOR) }.unwrap();
        let base = *anchor as usize - exported;
        let (get, eat, digest) = (base + place(GET)?, base + place(EAT)?, base + place(DIGEST)?);
        // SAFETY: the mangled names say the parameters, and NCCL's header what is returned; the library stays loaded.
        Some(unsafe {
            Hashes {
                get: std::mem::transmute::<usize, unsafe extern "C" fn(*const u8, usize) -> u64>(get),
                eat: std::mem::transmute::<usize, unsafe extern "C" fn(*mut u64, *const u8, usize)>(eat),
                digest: std::mem::transmute::<usize, unsafe extern "C" fn(*const u64) -> u64>(digest),
            }
        })
    }

    fn of_id(&self, id: &UniqueId) -> u64 {
        // SAFETY: as many bytes are there.
        unsafe { (self.get)(id.as_ptr(), id.len()) }
    }

    fn of_child(&self, parent: u64, ordinal: i32, color: i32) -> u64 {
        let mut accumulator = [1_u64, 1];
        let parts: [&[u8]; 3] = [&parent.to_le_bytes(), &ordinal.to_le_bytes(), &color.to_le_bytes()];
        for part in parts {
            // SAFETY: two words to work on, and as many bytes to eat as are there.
            unsafe { (self.eat)(accumulator.as_mut_ptr(), part.as_ptr(), part.len()) };
        }
        // SAFETY: two words.
        unsafe { (self.digest)(accumulator.as_ptr()) }
    }
}

/// Returns a byte that depends on both numbers.
fn byte(turn: usize, at: usize) -> u8 {
    (turn.wrapping_mul(0x9e37_79b1) ^ at.wrapping_mul(0x85eb_ca6b)).to_le_bytes()[2]
}

#[test]
fn names_of_communicators_and_their_children_are_nccl_s_own() {
    let Some(path) = library("nvidia-nccl-cu12", "libnccl.so.2") else { return };
    let Some(hashes) = Hashes::of(&path) else {
        return println!("skipped: {} carries no symbols of its own", path.display());
    };
    for turn in 0..1_000 {
        let id: UniqueId = std::array::from_fn(|at| if turn == 0 { 0 } else { byte(turn, at) });
        let name = of_unique_id(&id);
        assert_eq!(hashes.of_id(&id), name, "{id:02x?}");
        let (ordinal, color) = (turn as i32 % 7, turn as i32 - 500);
        assert_eq!(
            hashes.of_child(name, ordinal, color),
            of_child(name, ordinal, color),
            "{name:x} {ordinal} {color}"
        );
    }
}
