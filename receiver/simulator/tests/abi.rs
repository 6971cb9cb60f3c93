//! Tests of the stub libraries: exported symbols, code at probe sites, argument decoding, control functions.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(unsafe_code, reason = "C functions are called; each block states its requirements")]

use std::path::PathBuf;
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol};
use probe_abi::Library;
use simulator::functions::{Functions, by_symbol};
use simulator::model::call::{Effect, StubFunction};
use simulator::model::order::Order;
use simulator::sentinel::{self, Meaning};
use simulator::{BUILT, Paths};

const ALL: [Library; 3] = [Library::Cuda, Library::Cudart, Library::Amdhip];

fn installed() -> Paths {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("abi");
        simulator::install(&dir).unwrap();
        dir
    });
    Paths::under(dir)
}

fn functions() -> Functions {
    let functions = Functions::load(&installed(), &ALL).unwrap();
    functions.set_lenient(true);
    functions
}

/// Makes a sentinel call; returns the expected arguments and those that the library decoded.
fn expected_and_decoded(functions: &Functions, index: usize, function: StubFunction) -> (Meaning, Meaning) {
    let request = sentinel::request(index, function);
    let made = functions.call(&request, &Order { gpu_ns: 0, ..Order::NONE });
    let seen = functions.seen(function.probe.library).unwrap();
    assert_eq!(seen.index as usize, index, "{}", function.symbol());
    assert_eq!(made.result, 0, "{}", function.symbol());
    let seen = Meaning {
        stream: seen.stream,
        handle: seen.handle,
        graph: seen.graph,
        bytes: seen.bytes,
        threads: seen.threads,
        direction: seen.direction,
    };
    (sentinel::meaning(&request, &made), seen)
}

#[test]
fn every_function_decodes_arguments_by_its_prototype() {
    let functions = functions();
    let mut wrong = Vec::new();
    for (index, function) in StubFunction::all() {
        assert!(functions.has(index), "{} is exported by no stub", function.symbol());
        let (expected, decoded) = expected_and_decoded(&functions, index, function);
        if expected != decoded {
            wrong.push(format!("{}: expected {expected:x?}, decoded {decoded:x?}", function.symbol()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn runtime_calls_make_driver_calls_unless_disabled() {
    let functions = functions();
    let launch = by_symbol("cudaLaunchKernel").unwrap();
    functions.seen(Library::Cuda);
    let (outer, _) = expected_and_decoded(&functions, launch.0, launch.1);
    let below = functions.seen(Library::Cuda).unwrap();
    let expected = by_symbol("cuLaunchKernel").unwrap();
    assert_eq!(
        (below.index as usize, below.threads, below.stream),
        (expected.0, outer.threads, outer.stream)
    );
    let twin = by_symbol("cudaLaunchKernel_ptsz").unwrap();
    expected_and_decoded(&functions, twin.0, twin.1);
    assert_eq!(functions.seen(Library::Cuda).unwrap().index as usize, expected.0 + 1, "a twin calls a twin");
    functions.set_nested(false);
    expected_and_decoded(&functions, launch.0, launch.1);
    assert_eq!(functions.seen(Library::Cuda), None);
    functions.set_nested(true);
}

/// A `dim3`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3(u32, u32, u32);

#[test]
fn structs_by_value_are_decoded() {
    type Launch = unsafe extern "C" fn(u64, Dim3, Dim3, u64, usize, u64) -> i32;
    type Ext = unsafe extern "C" fn(u64, Dim3, Dim3, u64, usize, u64, u64, u64, i32) -> i32;
    let functions = functions();
    let (grid, block) = (Dim3(2, 3, 5), Dim3(7, 11, 13));
    for (library, path, symbol) in [
        (Library::Cudart, installed().cudart, "cudaLaunchKernel"),
        (Library::Amdhip, installed().amdhip, "hipExtLaunchKernel"),
    ] {
        // SAFETY: the libraries are the stubs, the symbols have these prototypes, and no pointer is followed.
        let result = unsafe {
            let handle = libloading::Library::new(&path).unwrap();
            match symbol {
                "cudaLaunchKernel" => handle.get::<Launch>(symbol).unwrap()(1, grid, block, 2, 3, 0x77),
                _ => handle.get::<Ext>(symbol).unwrap()(1, grid, block, 2, 3, 0x77, 4, 5, 6),
            }
        };
        let seen = functions.seen(library).unwrap();
        assert_eq!((result, seen.threads, seen.stream), (0, 2 * 3 * 5 * 7 * 11 * 13, 0x77), "{symbol}");
    }
}

#[test]
fn nested_calls_reach_the_ordered_depth() {
    let functions = functions();
    let outer = by_symbol("cudaMemcpyAsync").unwrap();
    let inner = by_symbol("cudaStreamSynchronize").unwrap();
    let request = sentinel::request(outer.0, outer.1);
    let order = Order { gpu_ns: 0, ..functions.nest(inner.0, 3) };
    functions.call(&request, &order);
    let seen = functions.seen(Library::Cudart).unwrap();
    assert_eq!(
        (seen.index as usize, seen.stream),
        (inner.0, request.stream),
        "the innermost call is decoded last"
    );
    functions.call(&request, &Order { gpu_ns: 0, ..Order::NONE });
    assert_eq!(
        functions.seen(Library::Cudart).unwrap().index as usize,
        outer.0,
        "an order applies to one call"
    );
}

#[test]
fn ordered_failure_has_no_other_effect() {
    let functions = functions();
    for symbol in ["cudaMalloc", "cuMemAlloc_v2", "hipMalloc"] {
        let (index, function) = by_symbol(symbol).unwrap();
        let mut request = sentinel::request(index, function);
        request.bytes = [4096, 1];
        let failed = functions.call(&request, &Order { result: 2, ..Order::NONE });
        assert_eq!((failed.result, failed.written), (2, 0), "{symbol}");
        let made = functions.call(&request, &Order::NONE);
        assert!(made.result == 0 && made.written != 0, "{symbol}");
    }
}

#[test]
fn sync_calls_last_as_long_as_the_work_before_them() {
    let functions = functions();
    let call = |symbol: &str, gpu_ns: u64, handle: u64| {
        let (index, function) = by_symbol(symbol).unwrap();
        let request = simulator::invoke::Request {
            handle,
            stream: 0x99,
            ..simulator::invoke::Request::new(index, function)
        };
        functions.call(&request, &Order { gpu_ns, ..Order::NONE })
    };
    let launched = call("cudaLaunchKernel", 2_000_000, 0);
    call("cudaEventRecord", 0, 0x1234);
    call("cudaLaunchKernel", 3_000_000, 0);
    let not_yet = call("cudaEventQuery", 0, 0x1234);
    let event = call("cudaEventSynchronize", 0, 0x1234);
    let stream = call("cudaStreamSynchronize", 0, 0);
    assert_eq!((not_yet.result, event.result, stream.result), (600, 0, 0));
    assert!(event.exit_ns >= launched.entry_ns + 2_000_000);
    assert!(event.exit_ns < launched.entry_ns + 5_000_000 || event.exit_ns <= stream.exit_ns);
    assert!(stream.exit_ns >= launched.entry_ns + 5_000_000);
}

/// Returns the functions that a library exports.
fn symbols(library: Library) -> Vec<&'static str> {
    match library {
        Library::Nccl => {
            probe_abi::PROBES.iter().filter(|p| p.library == library).map(|p| p.symbol).collect()
        }
        _ => {
            StubFunction::all().filter(|(_, f)| f.probe.library == library).map(|(_, f)| f.symbol()).collect()
        }
    }
}

/// A probe on another instruction than `push %rbp`, such as `endbr64`, is single-stepped and costs twenty times as much.
#[test]
fn every_exported_function_begins_with_a_frame() {
    for built in BUILT {
        let file = object::File::parse(built.bytes).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let (base, code) = (text.address(), text.data().unwrap());
        let first = |symbol: &str| {
            let symbol = file.dynamic_symbols().find(|s| s.name() == Ok(symbol));
            let symbol = symbol.unwrap_or_else(|| panic!("{} lacks a function", built.file_name));
            assert_eq!(symbol.kind(), object::SymbolKind::Text);
            let at = (symbol.address() - base) as usize;
            <[u8; 4]>::try_from(&code[at..at + 4]).unwrap()
        };
        for symbol in symbols(built.library) {
            let expected = match std::env::consts::ARCH {
                "x86_64" => [0x55, 0x48, 0x89, 0xe5],
                _ if built.library == Library::Nccl => continue, // its frames are made by the compiler
                _ => [0xfd, 0x7b, 0xbb, 0xa9],
            };
            assert_eq!(first(symbol), expected, "{symbol}");
        }
    }
}

#[test]
fn libraries_export_only_rows_and_control_functions() {
    for built in BUILT {
        let file = object::File::parse(built.bytes).unwrap();
        let known = |name: &str| name.starts_with("warptap_stub_") || symbols(built.library).contains(&name);
        let stray: Vec<_> = file
            .dynamic_symbols()
            .filter(|s| s.is_definition())
            .filter_map(|s| s.name().ok())
            .filter(|name| !known(name))
            .collect();
        assert_eq!(stray, Vec::<&str>::new(), "{}", built.file_name);
    }
}

#[test]
fn every_effect_belongs_to_a_function() {
    let reached: Vec<Effect> = StubFunction::all().map(|(_, f)| Effect::of(f.probe)).collect();
    for effect in [
        Effect::Launch,
        Effect::GraphLaunch,
        Effect::Copy,
        Effect::Fill,
        Effect::Alloc,
        Effect::Free,
        Effect::HostAlloc,
        Effect::HostFree,
        Effect::StreamSync,
        Effect::EventSync,
        Effect::DeviceSync,
        Effect::EventRecord,
        Effect::StreamQuery,
        Effect::EventQuery,
        Effect::StreamWaitEvent,
        Effect::StreamCreate,
        Effect::StreamDestroy,
        Effect::EventCreate,
        Effect::EventDestroy,
        Effect::CaptureBegin,
        Effect::CaptureEnd,
        Effect::Instantiate,
        Effect::ExecDestroy,
        Effect::SetDevice,
    ] {
        assert!(reached.contains(&effect), "{effect:?}");
    }
}
