//! Short forms of demangled C++ names.

use super::demangle::of_stub;
use super::labels::{is_data, is_lambda, is_wrapper};
use super::text::{inside, outside, split};
use super::{LABELS_MAX, LENGTH_MAX, cut_with_hash, generated};

/// Depth of template arguments in which labels are looked for.
const DEPTH_MAX: usize = 12;
/// Parts of names and arguments, in all, that are looked at for labels.
const ARGUMENTS_MAX: usize = 256;

/// Returns the path of a function and the labels of its template arguments; `None` for a name without brackets and namespaces.
pub(super) fn short(name: &str) -> Option<String> {
    if !name.contains(['<', '(']) && !name.contains("::") {
        return None;
    }
    let name = name
        .replace("(anonymous namespace)::", "")
        .replace("<unnamed>::", "")
        .replace("operator ()", "operator()")
        .replace(") const::", ")::");
    let parts = parts(&name);
    let (last, namespaces) = parts.split_last()?;
    let mut labels = Labels { found: Vec::new(), arguments_left: ARGUMENTS_MAX };
    parts.iter().filter_map(|part| part.arguments).for_each(|arguments| labels.add(arguments, 0));
    // The name of a stub contains the symbol of the kernel.
    if let Some(symbol) = last.name.strip_prefix("__device_stub__Z") {
        return Some(super::pass(&format!("_Z{symbol}")));
    }
    let path = namespaces.iter().map(|part| format!("{}::", part.name)).collect::<String>();
    let path = path + &generated::short(of_stub(last.name));
    Some(labelled(&path, &labels.found))
}

/// Returns a path with as many of its labels as fit. A path that does not fit itself is cut.
fn labelled(path: &str, labels: &[String]) -> String {
    let with = |count: usize| match &labels[..count] {
        [] => path.to_owned(),
        some => format!("{path}<{}>", some.join(", ")),
    };
    let fits = (0..=labels.len()).rev().map(with).find(|name| name.len() <= LENGTH_MAX);
    fits.unwrap_or_else(|| cut_with_hash(path, &with(labels.len())))
}

/// A part of a name, between `::`.
struct Part<'n> {
    name: &'n str,
    arguments: Option<&'n str>,
}

/// Returns the parts of the name in a declaration of a function or in a type, without those that are not named.
fn parts(declaration: &str) -> Vec<Part<'_>> {
    let mut words = split(declaration.trim(), " ");
    words.retain(|word| !word.is_empty() && !is_qualifier(word));
    let Some(path) = words.last() else { return Vec::new() };
    split(path, "::").into_iter().filter_map(part).collect()
}

fn is_qualifier(word: &str) -> bool {
    let word = word.trim_end_matches(['*', '&']);
    matches!(word, "" | "const" | "volatile" | "noexcept" | "restrict" | "__restrict__")
        || word.starts_with('[')
}

fn part(text: &str) -> Option<Part<'_>> {
    let end =
        outside(text).into_iter().find(|(_, byte)| matches!(byte, b'<' | b'(' | b'[' | b'{' | b'*' | b'&'));
    let name = text[..end.map_or(text.len(), |(at, _)| at)].trim();
    let is_operator = name.strip_prefix("operator").is_some_and(|rest| !rest.starts_with(is_of_identifier));
    let is_named = name.starts_with(is_of_identifier) && !is_operator && !is_folded(name);
    is_named.then(|| Part { name, arguments: inside(text, b'<') })
}

fn is_of_identifier(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '~')
}

/// Returns true for namespaces that are local to a file or have a version, and for members of type traits.
fn is_folded(name: &str) -> bool {
    let is_versioned = name.strip_suffix("_NS").is_some_and(|rest| {
        rest.bytes().any(|b| b.is_ascii_digit()) && !rest.bytes().any(|b| b.is_ascii_lowercase())
    });
    let is_hash =
        name.len() == 17 && name.starts_with('h') && name[1..].bytes().all(|b| b.is_ascii_hexdigit());
    is_versioned
        || is_hash
        || name.starts_with("_GLOBAL__N_")
        || name.starts_with("_INTERNAL_")
        || name == "type"
}

/// Labels of template arguments.
struct Labels {
    found: Vec<String>,
    arguments_left: usize,
}

impl Labels {
    /// Adds the labels of arguments.
    fn add(&mut self, arguments: &str, depth: usize) {
        for argument in split(arguments, ",") {
            if self.found.len() >= LABELS_MAX || self.arguments_left == 0 || depth > DEPTH_MAX {
                return;
            }
            self.arguments_left -= 1;
            if let Some(part) = parts(referenced(argument.trim())).pop() {
                self.add_part(&part, depth);
            }
        }
    }

    fn add_part(&mut self, part: &Part<'_>, depth: usize) {
        if let Some(arguments) = part.arguments.filter(|_| is_lambda(part.name)) {
            return self.add_function(arguments, depth);
        }
        if is_wrapper(part.name) {
            return part.arguments.into_iter().for_each(|arguments| self.add(arguments, depth + 1));
        }
        let label = generated::short(part.name);
        let is_number = label.starts_with(|c: char| c.is_ascii_digit());
        if !is_number && !is_data(&label) && self.found.iter().all(|found| *found != label) {
            self.found.push(label.into_owned());
        }
    }

    /// Adds the function that contains a lambda, which nvcc passes as `__nv_dl_wrapper_t<__nv_dl_tag<type, &function, number>, …>`:
    /// other arguments are types of variables.
    fn add_function(&mut self, arguments: &str, depth: usize) {
        let is_function = |argument: &&str| {
            let argument = argument.trim();
            argument.starts_with('&') || argument.starts_with("__nv_dl_")
        };
        if let Some(function) = split(arguments, ",").iter().find(|argument| is_function(argument)) {
            self.add(function, depth + 1);
        }
    }
}

/// Returns the function of an argument that is the address of one.
fn referenced(argument: &str) -> &str {
    match argument.strip_prefix('&') {
        Some(function) => inside(function, b'(').filter(|_| function.starts_with('(')).unwrap_or(function),
        None => argument,
    }
}
