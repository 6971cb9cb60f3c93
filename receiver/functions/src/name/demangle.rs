//! Demangling of hostile symbols, within bounds of time and memory.

use std::borrow::Cow;
use std::fmt;
use std::panic::catch_unwind;

use cpp_demangle::{DemangleNodeType, DemangleOptions, DemangleWrite, ParseOptions, Symbol};

use super::text;

/// Depth of nested names; those of CUTLASS kernels have some tens.
const DEPTH_MAX: u32 = 96;
/// Bytes of a demangled name: what is behind is mostly parameters.
const OUTPUT_BYTES_MAX: usize = 32 << 10;
/// Parts of a name that are visited, since a part may refer to an earlier one, which again does.
const NODES_MAX: usize = 64 << 10;

/// Returns the demangled text of a C++ symbol; `None` if the name is not one. The text is cut where a bound is reached.
pub(super) fn demangle(name: &str) -> Option<String> {
    let symbol = name.starts_with("_Z").then(|| name.split('.').next().unwrap_or_default())?;
    // The demangler is not written for hostile input only: what it panics on is demangled like what it does not know.
    let full = catch_unwind(|| full(symbol)).ok().flatten();
    Some(full.unwrap_or_else(|| nested_names(symbol))).filter(|name| !name.is_empty())
}

fn full(symbol: &str) -> Option<String> {
    let options = ParseOptions::default().recursion_limit(DEPTH_MAX);
    let parsed = Symbol::new_with_options(symbol, &options).ok()?;
    let mut output = Output::default();
    let cut = parsed.structured_demangle(&mut output, &DemangleOptions::new().recursion_limit(DEPTH_MAX));
    // An error that is not of a bound is one of the name.
    (cut.is_ok() || output.is_full()).then_some(output.text)
}

/// Text up to a limit.
#[derive(Default)]
struct Output {
    text: String,
    nodes: usize,
}

impl Output {
    fn is_full(&self) -> bool {
        self.text.len() >= OUTPUT_BYTES_MAX || self.nodes >= NODES_MAX
    }
}

impl DemangleWrite for Output {
    fn push_demangle_node(&mut self, _: DemangleNodeType) {
        self.nodes += 1;
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        self.nodes += 1;
        let left = OUTPUT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(text::cut(text, left));
        if self.is_full() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Returns the nested names at the begin of a symbol, with the last of those of its first template argument:
/// `ns::kernel<Type>` of `_ZN2ns6kernelIN5other4TypeI…`.
fn nested_names(symbol: &str) -> String {
    let rest = symbol.trim_start_matches("_Z");
    let (names, rest) = names(rest.trim_start_matches(['N', 'K', 'L', 'V', 'r']));
    let (of_argument, _) = rest.strip_prefix('I').map(argument).unwrap_or_default();
    let path = names.join("::");
    match of_argument.last() {
        Some(label) if !path.is_empty() => format!("{path}<{label}>"),
        _ => path,
    }
}

/// Returns the names of a template argument, after a reference to a namespace (`S_`, `S1_`, `St`).
fn argument(text: &str) -> (Vec<&str>, &str) {
    let text = text.trim_start_matches(['N', 'K', 'L', 'Z']);
    let is_reference = text.strip_prefix('S').and_then(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        rest.strip_prefix(['_', 't'])
    });
    names(is_reference.unwrap_or(text))
}

/// Returns names that are preceded by their lengths, and what follows.
fn names(mut text: &str) -> (Vec<&str>, &str) {
    let mut names = Vec::new();
    loop {
        let of = text.strip_prefix('L').unwrap_or(text);
        let digits = of.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = of[..digits].parse::<usize>() else { return (names, text) };
        let Some(name) = of[digits..].get(..length).filter(|name| !name.is_empty()) else {
            return (names, text);
        };
        names.push(name);
        text = &of[digits + length..];
    }
}

/// Removes what compilers add to the name of a kernel: to that of the host function that launches it, to that of a kernel that is
/// local to its file, and to that of its descriptor.
pub(super) fn without_additions(name: &str) -> Cow<'_, str> {
    let name = name.split(" [clone").next().unwrap_or_default().trim_end();
    let name = of_static(name).unwrap_or(name);
    if let Some(symbol) = name.strip_prefix("__device_stub__Z") {
        return Cow::Owned(format!("_Z{symbol}"));
    }
    Cow::Borrowed(of_stub(name))
}

/// Removes what is added to the name of the host function that launches a kernel.
pub(super) fn of_stub(name: &str) -> &str {
    let of_wrapper = name.strip_prefix("__wrapper__device_stub_");
    of_wrapper.or_else(|| name.strip_prefix("__device_stub__")).unwrap_or(name)
}

/// Returns the name in `__nv_static_<bytes>_<that many bytes of file and hash>_<name>`.
fn of_static(name: &str) -> Option<&str> {
    let (bytes, rest) = name.strip_prefix("__nv_static_")?.split_once('_')?;
    rest.get(bytes.parse().ok()?..)?.strip_prefix('_').filter(|name| !name.is_empty())
}
