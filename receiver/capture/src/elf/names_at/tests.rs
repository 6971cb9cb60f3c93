use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use super::*;
use crate::elf::addresses::NAME_BYTES_MAX;
use crate::elf::tests::{Image, file};

/// Sections that are added to an image: type, flags and bytes.
type Added<'a> = (u32, u64, &'a [u8]);
const CODE: (u32, u64) = (1, 6);
/// Addresses of a host function and of names in images with code. Addresses are offsets.
const FUNCTION: u64 = 0x77_0000;
const NAME: u64 = 0x10_0000;
const OTHER: u64 = 0x10_0100;
/// Where the loader writes the address of the function.
const POINTER: u64 = 0x78_0000;

/// Returns an image with further sections, whose code segment is 16 MB long.
fn image(of: &Image<'_>, added: &[Added<'_>]) -> Vec<u8> {
    let mut bytes = of.bytes();
    bytes[0x60..0x70].copy_from_slice(&[(16u64 << 20).to_le_bytes(); 2].concat());
    let mut headers = bytes[Image::section_header(0)..Image::section_header(4)].to_vec();
    for (kind, flags, contents) in added {
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let words = [
            u64::from(*kind) << 32,
            *flags,
            bytes.len() as u64,
            bytes.len() as u64,
            contents.len() as u64,
            0,
            4,
            0,
        ];
        headers.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(*contents);
    }
    let at = bytes.len() as u64;
    bytes[0x28..0x30].copy_from_slice(&at.to_le_bytes());
    bytes[0x3c] = 4 + added.len() as u8;
    bytes.extend(headers);
    bytes
}

/// Returns a file with code, which begins at the returned address for `make`, and two names.
fn coded(machine: u16, make: impl Fn(u64) -> Vec<u8>) -> File {
    let relative = if machine == 62 { 8u64 } else { 1_027 };
    let relocation = [POINTER, relative, FUNCTION].map(u64::to_le_bytes).concat();
    let added = |code| image(&Image::default(), &[(4, 2, &relocation), (CODE.0, CODE.1, code)]);
    let at = added(&[]).len() as u64 - 6 * 64;
    let mut bytes = added(&make(at));
    bytes[0x12..0x14].copy_from_slice(&machine.to_le_bytes());
    let file = file(&bytes);
    for (at, name) in [(NAME, "_Z6kernelPf\0"), (OTHER, "/not/a/symbol\0")] {
        file.write_all_at(name.as_bytes(), at).unwrap();
    }
    file.set_len(16 << 20).unwrap();
    file
}

fn name_of(file: &File) -> Option<String> {
    find_names(file, &[FUNCTION]).unwrap().remove(0).map(|found| {
        assert_eq!(found.source, NameSource::Registration);
        found.symbol
    })
}

/// Instructions of x86-64.
enum X86 {
    /// `lea address(%rip), %register`.
    Lea(u8, u64),
    /// `mov %from, %to`.
    Mov(u8, u8),
    /// `movabs $number, %register`.
    Abs(u8, u64),
    /// `add %by, %to`.
    Add(u8, u8),
    /// `lea (%base, %by), %to`.
    Sum(u8, u8, u8),
    /// `mov $number, %register`, of 32 bits.
    Short(u8, u64),
    /// `mov address(%rip), %register`.
    Load(u8, u64),
    Other(&'static [u8]),
}
use X86::*;

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RSI: u8 = 6;
const RDI: u8 = 7;
const R12: u8 = 12;
/// A call whose target is in the code.
const CALL: X86 = Other(&[0xe8, 0x10, 0, 0, 0]);
const JUMP: X86 = Other(&[0xe9, 0x10, 0, 0, 0]);
/// `call *target(%rip)`, and `call *%rax`.
const CALL_GOT: X86 = Other(&[0xff, 0x15, 0, 0, 0, 0]);
const CALL_RAX: X86 = Other(&[0xff, 0xd0]);
/// What is between the arguments in NVIDIA's libraries: `push $0; xor %r9d, %r9d; mov $-1, %r8d; mov %rax, handle(%rip)`.
const BETWEEN: X86 = Other(&[
    0x6a, 0, 0x45, 0x31, 0xc9, 0x41, 0xb8, 0xff, 0xff, 0xff, 0xff, 0x48, 0x89, 0x05, 0xe8, 0xb8, 0xbe, 0x12,
]);

impl X86 {
    fn bytes(&self, at: u64) -> Vec<u8> {
        let wide = |high: u8, low: u8| 0x48 | (high >> 3) << 2 | low >> 3;
        let pair = |register: u8, rm: u8| 0xc0 | (register & 7) << 3 | rm & 7;
        match *self {
            Lea(to, address) => {
                let distance = address.wrapping_sub(at + 7) as u32;
                [&[wide(to, 0), 0x8d, (to & 7) << 3 | 5][..], &distance.to_le_bytes()].concat()
            }
            Load(to, address) => {
                let mut bytes = Lea(to, address).bytes(at);
                bytes[1] = 0x8b;
                bytes
            }
            Mov(from, to) => vec![wide(from, to), 0x89, pair(from, to)],
            Abs(to, number) => [&[wide(0, to), 0xb8 | to & 7][..], &number.to_le_bytes()].concat(),
            Add(by, to) => vec![wide(by, to), 0x01, pair(by, to)],
            Sum(base, by, to) => {
                vec![wide(to, base) | by >> 3 << 1, 0x8d, (to & 7) << 3 | 4, (by & 7) << 3 | base & 7]
            }
            Short(to, number) => [&[0xb8 | to][..], &(number as u32).to_le_bytes()].concat(),
            Other(bytes) => bytes.to_vec(),
        }
    }

    fn all(instructions: &[X86], at: u64) -> Vec<u8> {
        let mut code = Vec::new();
        for instruction in instructions {
            code.extend(instruction.bytes(at + code.len() as u64));
        }
        code
    }
}

/// The forms in which compilers register a function, as seen in NVIDIA's and AMD's libraries and in programs.
#[test]
fn registered_functions_have_their_names_in_all_forms_of_x86_64() {
    let forms: [&[X86]; 11] = [
        &[Lea(RCX, NAME), BETWEEN, Lea(RSI, FUNCTION), Mov(RCX, RDX), CALL],
        &[Lea(RSI, FUNCTION), Lea(RDX, NAME), Mov(RDX, RCX), BETWEEN, CALL_GOT],
        &[Lea(RSI, FUNCTION), Lea(RCX, NAME), JUMP],
        &[Lea(RAX, FUNCTION), Mov(RAX, RSI), Lea(RAX, NAME), Mov(RAX, RDX), Mov(RAX, RCX), CALL],
        &[Lea(R12, NAME), Lea(RSI, OTHER), CALL, Lea(RSI, FUNCTION), Mov(R12, RCX), CALL],
        &[
            Lea(RBX, 0x1000),
            Abs(RSI, FUNCTION - 0x1000),
            Abs(RCX, NAME - 0x1000),
            Add(RBX, RSI),
            Add(RBX, RCX),
            CALL_RAX,
        ],
        &[Lea(RBX, 0x1000), Abs(RAX, FUNCTION - 0x1000), Sum(RBX, RAX, RSI), Lea(RCX, NAME), CALL],
        &[
            Lea(RBX, 0x1000),
            Abs(RAX, FUNCTION.wrapping_sub(0x1000)),
            Abs(RCX, 1),
            Sum(RBX, RAX, RSI),
            Lea(RCX, NAME),
            CALL,
        ],
        &[Short(RSI, FUNCTION), BETWEEN, Short(RDX, NAME), Short(RCX, NAME), CALL],
        &[Load(RSI, POINTER), Lea(RCX, NAME), Mov(RCX, RDX), BETWEEN, CALL],
        // The name is the third argument only.
        &[Lea(RSI, FUNCTION), Lea(RCX, OTHER), Lea(RDX, NAME), CALL],
    ];
    for (form, instructions) in forms.iter().enumerate() {
        assert_eq!(
            name_of(&coded(62, |at| X86::all(instructions, at))).as_deref(),
            Some("_Z6kernelPf"),
            "form {form}"
        );
    }
}

#[test]
fn other_calls_register_nothing() {
    let forms: [&[X86]; 7] = [
        &[Lea(RSI, FUNCTION), Lea(RCX, OTHER), CALL],
        &[Lea(RSI, FUNCTION), CALL, Lea(RCX, NAME), CALL],
        &[Lea(RDI, FUNCTION), Lea(RCX, NAME), CALL],
        &[Lea(RSI, FUNCTION + 1), Lea(RCX, NAME), CALL],
        &[Lea(RSI, FUNCTION), Lea(RCX, NAME)],
        &[Lea(RSI, FUNCTION), Lea(RCX, u64::MAX), Lea(RDX, 1 << 40), CALL],
        &[Lea(RSI, FUNCTION), Lea(RCX, (16 << 20) - 1), CALL],
    ];
    for (form, instructions) in forms.iter().enumerate() {
        assert_eq!(name_of(&coded(62, |at| X86::all(instructions, at))), None, "form {form}");
    }
}

/// Registrations on both sides of the ends of the windows in which code is read.
#[test]
fn registrations_are_found_wherever_they_are_in_the_code() {
    for before in (65_490..65_540).chain([0, 131_050, 1_000_000]) {
        let found = name_of(&coded(62, |at| {
            let mut code = vec![0x90; before];
            code.extend(X86::all(
                &[Lea(RCX, NAME), BETWEEN, Lea(RSI, FUNCTION), Mov(RCX, RDX), CALL],
                at + before as u64,
            ));
            code
        }));
        assert_eq!(found.as_deref(), Some("_Z6kernelPf"), "{before} bytes before");
    }
}

/// `adrp`, `add`, `mov` and `bl`, as gcc and clang pass the addresses.
#[test]
fn registered_functions_have_their_names_in_aarch64() {
    let adrp = |to: u32, address: u64, at: u64| {
        let pages = ((address >> 12).wrapping_sub(at >> 12) & 0x1f_ffff) as u32;
        0x9000_0000 | (pages & 3) << 29 | pages >> 2 << 5 | to
    };
    let add = |to: u32, address: u64| 0x9100_0000 | ((address & 0xfff) as u32) << 10 | to << 5 | to;
    let load = |to: u32, address: u64| 0xf940_0000 | ((address & 0xfff) as u32 / 8) << 10 | to << 5 | to;
    let loading = |at: u64| {
        // As in NVIDIA's libraries.
        let words = [
            adrp(1, POINTER, at),
            adrp(3, NAME, at),
            load(1, POINTER),
            add(3, NAME),
            0xaa03_03e2,
            0x9400_0040,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    assert_eq!(name_of(&coded(183, loading)).as_deref(), Some("_Z6kernelPf"));
    let code = |at: u64| {
        let words = [
            adrp(1, FUNCTION + 8, at),
            adrp(2, NAME, at + 4),
            0xf940_0013, // ldr x19, [x0]
            add(1, FUNCTION),
            add(2, NAME),
            0xaa02_03e3, // mov x3, x2
            0x9400_0040, // bl
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    assert_eq!(name_of(&coded(183, code)).as_deref(), Some("_Z6kernelPf"));
    let without_call = |at| code(at)[..24].to_vec();
    assert_eq!(name_of(&coded(183, without_call)), None);
}

#[test]
fn names_are_those_of_symbols_at_the_exact_address() {
    let strings = b"\0_Z1av\0_Z1bv@@V2\0\0";
    let image = Image {
        strings,
        exported: &[(1, 0x30), (7, 0x20), (17, 0x50)],
        others: &[(7, 0x30)],
        ..Image::default()
    };
    let found = find_names(&file(&image.bytes()), &[0x20, 0x30, 0x40, 0x50, 0x30, u64::MAX]).unwrap();
    let named = |symbol: &str, source| Some(FoundName { symbol: symbol.to_owned(), source });
    let (b, exported_b) = (named("_Z1bv", NameSource::Symbols), named("_Z1bv", NameSource::Exports));
    assert_eq!(found, [exported_b, b.clone(), None, None, b, None]);
}

/// hipcc passes the address of a variable that has the name of the kernel.
#[test]
fn names_are_those_of_variables_too_and_not_of_sections_and_undefined_symbols() {
    let of = |symbol_kind, address| {
        let image =
            Image { strings: b"\0_Z1av\0", exported: &[(1, address)], symbol_kind, ..Image::default() };
        find_names(&file(&image.bytes()), &[address]).unwrap().remove(0).is_some()
    };
    assert_eq!(
        (of(1, 0x30), of(2, 0x30), of(10, 0x30), of(3, 0x30), of(2, 0)),
        (true, true, true, false, false)
    );
}

#[test]
fn symbols_of_the_debug_file_of_the_same_build_are_used() {
    let note =
        |id: &[u8]| [&[4u32, id.len() as u32, 3].map(u32::to_le_bytes).concat()[..], b"GNU\0", id].concat();
    let (id, other_id) = (note(&[0xab, 1, 2, 3]), note(&[0xab, 1, 2, 4]));
    let library = file(&image(&Image::default(), &[(7, 2, &id)]));
    let symbols = Image { strings: b"\0_Z1av\0", others: &[(1, 0x30)], ..Image::default() };
    let root = std::env::temp_dir().join(format!("warptap-debug-{}", std::process::id()));
    let path = root.join(".build-id/ab/010203.debug");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let elf = Elf::read(&library).unwrap();
    let (owner, open) =
        (library.metadata().unwrap().uid(), |owner| debug_file::open_below(&root, owner, &elf).is_some());
    assert!(!open(owner), "there is none");
    std::fs::write(&path, image(&symbols, &[(7, 2, &id)])).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(open(owner) && !open(owner + 1), "only that of root is used");
    let debug = debug_file::open_below(&root, owner, &elf).unwrap();
    let mut wanted = Wanted::new([0x30].into_iter());
    add_symbols(&Elf::read(&debug).unwrap(), SHT_SYMTAB, NameSource::DebugFile, &mut wanted).unwrap();
    assert_eq!(wanted.found[&0x30].symbol, "_Z1av");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(!open(owner), "others can write to it");
    std::fs::write(&path, image(&symbols, &[(7, 2, &other_id)])).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!open(owner), "it is of another build");
    std::fs::remove_dir_all(root).unwrap();
}

/// Every byte of the code begins a registration of the function, with a text that is no name.
#[test]
fn code_full_of_wrong_registrations_is_read_in_time() {
    let file = coded(62, |at| {
        let mut code = Vec::new();
        while code.len() < 8 << 20 {
            let at = at + code.len() as u64;
            code.extend(X86::all(&[Lea(RSI, FUNCTION), Lea(RCX, OTHER), Lea(RDX, OTHER), CALL], at));
        }
        code
    });
    let started = Instant::now();
    let all: Vec<u64> = (0..WANTED_MAX as u64).map(|n| FUNCTION + n).collect();
    let found = find_names(&file, &all).unwrap();
    assert!(found.iter().all(Option::is_none));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// A sparse file with a terabyte of code: at most as much is read as of tables.
#[test]
fn terabyte_of_code_is_not_read_to_its_end() {
    let mut bytes = image(&Image::default(), &[(CODE.0, CODE.1, &[0xc3])]);
    let header = bytes.len() - 64;
    bytes[header + 32..header + 40].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let file = file(&bytes);
    file.set_len(2 << 40).unwrap();
    let started = Instant::now();
    assert_eq!(find_names(&file, &[FUNCTION]).unwrap(), [None]);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

/// Every symbol has another name, each of megabytes, all in one string.
#[test]
fn long_names_are_cut_and_further_functions_have_none() {
    let count = WANTED_MAX as u32 + 100;
    let strings = [vec![b'x'; 4 << 20], b"\0".to_vec()].concat();
    let exported: Vec<_> = (0..count).map(|n| (n * 40, u64::from(n) + 1)).collect();
    let offsets: Vec<u64> = (0..u64::from(count)).map(|n| n + 1).collect();
    let image = Image { strings: &strings, exported: &exported, ..Image::default() };
    let file = file(&image.bytes());
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap() * 4096
    };
    let before = resident();
    let found = find_names(&file, &offsets).unwrap();
    // Other tests run meanwhile.
    assert!(resident().saturating_sub(before) < 64 << 20, "{} bytes more", resident() - before);
    assert_eq!((found.len(), found.iter().flatten().count()), (offsets.len(), WANTED_MAX));
    assert!(found.iter().flatten().all(|name| name.symbol.len() == NAME_BYTES_MAX));
}

#[test]
fn oversized_tables_are_refused_and_cut_files_are_errors() {
    let image = Image { strings: b"\0_Z1av\0", exported: &[(1, 0x10)], ..Image::default() }.bytes();
    let mut large = image.clone();
    let size_at = Image::section_header(1) + 32;
    large[size_at..size_at + 8].copy_from_slice(&(24u64 << 34).to_le_bytes());
    let large = file(&large);
    large.set_len(1 << 40).unwrap();
    assert!(matches!(find_names(&large, &[0x10]), Err(ElfError::TooLarge { .. })));
    for length in 0..image.len() {
        let _ = find_names(&file(&image[..length]), &[0x10]);
    }
}

proptest::proptest! {
    /// Whatever bytes of a file with code and symbols are changed: no name is longer than the limit, and none panics.
    #[test]
    fn changed_files_have_names_or_errors(changes in proptest::collection::vec((0usize..2_000, proptest::prelude::any::<u8>()), 1..20)) {
        let symbols = Image { strings: b"\0_Z1av\0", exported: &[(1, 0x30)], others: &[(1, 0x20)], ..Image::default() };
        let code = X86::all(&[Lea(RCX, 1), BETWEEN, Lea(RSI, 0x30), Mov(RCX, RDX), CALL], 0x400);
        let mut bytes = image(&symbols, &[(CODE.0, CODE.1, &code), (7, 2, b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0abcd")]);
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(names) = find_names(&file(&bytes), &[0x20, 0x30]) {
            proptest::prop_assert_eq!(names.len(), 2);
        }
    }
}
