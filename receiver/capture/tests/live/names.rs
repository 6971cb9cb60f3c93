//! Names of GPU functions in NVIDIA's own libraries, compared with what the libraries register when they are loaded.
//!
//! A process loads a copy of the library in which the function that registers GPU functions, the library's own or its import
//! of cudart's, is replaced by one that writes its arguments down. So host functions and names are those of the running
//! code, and the look-up in the file knows nothing of them. No root, driver or probe is needed.

#![expect(unsafe_code, reason = "loads a foreign library, which calls a function of this program")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use capture::{NAME_SOURCES, NameSource, find_names, find_names_in};
use functions::name::short;
use object::{Object as _, ObjectSection as _};

use crate::nvidia::library;

/// Environment variable with the library to load, and the position of its registering function in the file.
pub const CALLER: &str = "WARPTAP_TEST_REGISTRATIONS";
/// Environment variable that allows to download gigabytes.
const BIG: &str = "WARPTAP_BIG_LIBRARIES";
/// Functions that are looked up at a time.
const CHUNK: usize = 1_024;
/// Bytes of a name that are read.
const NAME_BYTES_MAX: usize = 4_096;

static REGISTERED: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

extern "C" fn register(_handle: usize, host: usize, _device: usize, name: *const c_char) {
    // SAFETY: `__cudaRegisterFunction` gets a string that ends with zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    REGISTERED.lock().unwrap().push((host, name));
}

/// Loads a copy of a library in which `register` replaces the function at a position, and prints what was registered: offset in the
/// file, and name.
pub fn record(library: &Path, function: &str) {
    // As maps files show it.
    let copy = library.canonicalize().unwrap().with_extension(format!("copy-{}", std::process::id()));
    let mut bytes = std::fs::read(library).unwrap();
    let function: usize = function.parse().unwrap();
    // movabs $register, %rax; jmp *%rax
    let jump = [&[0x48, 0xb8][..], &(register as *const () as usize).to_le_bytes(), &[0xff, 0xe0]].concat();
    bytes[function..function + jump.len()].copy_from_slice(&jump);
    std::fs::write(&copy, bytes).unwrap();
    // SAFETY: the initialisers of NVIDIA's library have no preconditions.
    let loaded = unsafe { libloading::Library::new(&copy) };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    std::fs::remove_file(&copy).unwrap();
    if let Err(why) = loaded.map(std::mem::forget) {
        return println!("@error {why}");
    }
    let name = copy.to_str().unwrap();
    let mappings: Vec<_> = maps.lines().filter(|line| line.ends_with(name)).filter_map(mapping).collect();
    let mut out = std::io::stdout().lock();
    for (host, name) in std::mem::take(&mut *REGISTERED.lock().unwrap()) {
        let of = mappings.iter().find(|(start, end, _)| (*start..*end).contains(&host)).unwrap();
        writeln!(out, "@registered {} {name}", host - of.0 + of.2).unwrap();
    }
    out.flush().unwrap();
    std::process::exit(0);
}

/// Returns start, end and offset of a line of a maps file.
fn mapping(line: &str) -> Option<(usize, usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?, hex(fields.nth(1)?)?))
}

/// Returns the position of the function that registers GPU functions: the most frequent target of calls whose fifth
/// argument is -1, as the limit of threads in a registration is.
fn registering_function(library: &Path) -> Option<usize> {
    const LIMIT: [u8; 6] = [0x41, 0xb8, 0xff, 0xff, 0xff, 0xff];
    let bytes = std::fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".text")?;
    let (address, text) = (section.address() as usize, section.data().unwrap());
    let mut calls: BTreeMap<usize, usize> = BTreeMap::new();
    let limits = text.windows(LIMIT.len()).enumerate().filter(|(_, bytes)| *bytes == LIMIT);
    for (at, _) in limits {
        let call = text[at..].iter().take(60).position(|byte| *byte == 0xe8).map(|call| at + call);
        if let Some((call, bytes)) = call.and_then(|call| Some((call, text.get(call + 1..)?.first_chunk()?)))
        {
            let target = (address + call + 5).wrapping_add_signed(i32::from_le_bytes(*bytes) as isize);
            *calls.entry(target).or_default() += 1;
        }
    }
    let (target, _) = calls.into_iter().max_by_key(|(_, count)| *count)?;
    let (offset, size) = section.file_range()?;
    let plt = file.section_by_name(".plt");
    let plt_offset =
        plt.and_then(|plt| Some(plt.file_range()?.0 as usize + target.checked_sub(plt.address() as usize)?));
    match target.checked_sub(address).filter(|distance| *distance < size as usize) {
        Some(distance) => Some(offset as usize + distance),
        None => plt_offset,
    }
}

/// Returns what a library registers: offset of the host function in the file, and name.
fn registered(library: &Path, directories: &[PathBuf]) -> Result<BTreeMap<u64, String>, String> {
    let function = registering_function(library).ok_or("no code registers functions")?;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command.env(CALLER, format!("{}\n{function}", library.display()));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(directories).unwrap());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let (offset, name) = line.strip_prefix("@registered ")?.split_once(' ')?;
        Some((offset.parse().ok()?, name.to_owned()))
    };
    // Some host functions are registered with several names: linkers fold equal code. The first counts.
    let mut all = BTreeMap::new();
    for (offset, name) in text.lines().filter_map(line) {
        all.entry(offset).or_insert(name);
    }
    let why = || text.lines().find(|line| line.starts_with("@error")).unwrap_or("it ended").to_owned();
    if output.status.success() && !all.is_empty() { Ok(all) } else { Err(why()) }
}

/// What a look-up found of the registered functions, in one source or in all.
#[derive(Debug, Default)]
struct Found {
    /// Functions with the registered name.
    equal: usize,
    /// Functions with a name whose short form is that of the registered one, those of `equal` included.
    equal_short: usize,
    /// Functions with any name.
    named: usize,
    /// The longest look-up of [`CHUNK`] functions.
    longest: Duration,
}

fn look_up(file: &File, all: &BTreeMap<u64, String>, sources: &[NameSource]) -> Found {
    let mut found = Found::default();
    let offsets: Vec<u64> = all.keys().copied().collect();
    for chunk in offsets.chunks(CHUNK) {
        let started = Instant::now();
        let names = find_names_in(file, chunk, sources).unwrap();
        found.longest = found.longest.max(started.elapsed());
        for (offset, name) in chunk.iter().zip(names) {
            let Some(name) = name else { continue };
            let expected = &all[offset][..all[offset].len().min(NAME_BYTES_MAX)];
            found.named += 1;
            found.equal += usize::from(name.symbol == expected);
            found.equal_short +=
                usize::from(name.symbol == expected || short(&name.symbol) == short(expected));
        }
    }
    found
}

/// Prints how many registered functions get their names, in all sources and in each, and asserts that all do.
fn check(library: &Path, directories: &[PathBuf]) {
    let name = library.file_name().unwrap().display();
    let all = match registered(library, directories) {
        Ok(all) => all,
        Err(why) => return println!("skipped: {name} registers no functions here: {why}"),
    };
    let file = File::open(library).unwrap();
    let found = look_up(&file, &all, &NAME_SOURCES);
    let count = all.len();
    let shorts: BTreeSet<String> = all.values().map(|name| short(name)).collect();
    println!("{name}: {count} registered functions, {} short names, all sources {found:?}", shorts.len());
    for source in NAME_SOURCES {
        println!("  {source:?}: {:?}", look_up(&file, &all, &[source]));
    }
    let started = Instant::now();
    let nothing = find_names(&file, &[*all.keys().next().unwrap() + 1]).unwrap();
    println!("  a function without a name: {:.2} s", started.elapsed().as_secs_f64());
    assert_eq!((found.equal, found.equal_short, nothing), (count, count, vec![None]), "{name}");
}

/// Downloads the libraries of a row, and checks the first.
fn check_row(row: &[(&str, &str)]) {
    let Some(all) = row.iter().map(|(package, file)| library(package, file)).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let directories: Vec<_> = all.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    check(&all[0], &directories);
}

/// Libraries with the packages that have them, each with those that it needs.
const SMALL: [&[(&str, &str)]; 2] =
    [&[("nvidia-nvjpeg-cu12", "libnvjpeg.so.12")], &[("nvidia-nccl-cu12", "libnccl.so.2")]];

/// Libraries of hundreds of megabytes, in the same form.
const LARGE: [&[(&str, &str)]; 10] = [
    &[("nvidia-cublas-cu12", "libcublas.so.12")],
    &[("nvidia-cublas-cu12", "libcublasLt.so.12")],
    &[("nvidia-cufft-cu12", "libcufft.so.11")],
    &[("nvidia-curand-cu12", "libcurand.so.10")],
    &[("nvidia-cusparse-cu12", "libcusparse.so.12"), ("nvidia-nvjitlink-cu12", "libnvJitLink.so.12")],
    &[("nvidia-cudnn-cu12", "libcudnn_ops.so.9")],
    &[("nvidia-cudnn-cu12", "libcudnn_adv.so.9")],
    &[("nvidia-cudnn-cu12", "libcudnn_engines_precompiled.so.9")],
    &[
        ("nvidia-cusolver", "libcusolver.so.12"),
        ("nvidia-cublas", "libcublas.so.13"),
        ("nvidia-cusparse", "libcusparse.so.12"),
        ("nvidia-nvjitlink", "libnvJitLink.so.13"),
    ],
    &[
        ("torch", "libtorch_cuda.so"),
        ("nvidia-cublas", "libcublas.so.13"),
        ("nvidia-cuda-cupti", "libcupti.so.13"),
        ("nvidia-cuda-nvrtc", "libnvrtc.so.13"),
        ("nvidia-cuda-runtime", "libcudart.so.13"),
        ("nvidia-cudnn-cu13", "libcudnn.so.9"),
        ("nvidia-cufft", "libcufft.so.12"),
        ("nvidia-cufile", "libcufile.so.0"),
        ("nvidia-cusparse", "libcusparse.so.12"),
        ("nvidia-cusparselt-cu13", "libcusparseLt.so.0"),
        ("nvidia-nccl-cu13", "libnccl.so.2"),
        ("nvidia-nvjitlink", "libnvJitLink.so.13"),
        ("nvidia-nvshmem-cu13", "libnvshmem_host.so.3"),
    ],
];

#[test]
fn registered_functions_of_nvidia_have_their_names() {
    if cfg!(not(target_arch = "x86_64")) {
        return println!("skipped: the function that registers is replaced by code of x86-64");
    }
    SMALL.iter().for_each(|row| check_row(row));
    match std::env::var_os(BIG) {
        Some(_) => LARGE.iter().for_each(|row| check_row(row)),
        None => println!("skipped: libraries of gigabytes, without {BIG}"),
    }
}
