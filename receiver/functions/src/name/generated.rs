//! Names that are not C++ and that a program makes: kernels of matrix libraries, Triton, Inductor, XLA and Tensile.

use std::borrow::Cow;

/// What is dropped of the names of a generator. Parts of a name are separated by `_`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fold {
    /// Parts with tile sizes (`128x64`, `tilesize64x64x8`), numbers of stages, alignments and words that each name has.
    Tiles,
    /// Numbers at the end, and signatures of arguments (`0d1d2de`).
    Numbers,
    /// The tile (`MT128x64x16`) and all after it.
    FromTile,
}

/// A row of [`RULES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Text that the name contains.
    pub text: &'static str,
    /// Whether the name begins with the text.
    pub is_prefix: bool,
    /// What is dropped.
    pub fold: Fold,
}

const fn prefix(text: &'static str, fold: Fold) -> Rule {
    Rule { text, is_prefix: true, fold }
}

const fn anywhere(text: &'static str, fold: Fold) -> Rule {
    Rule { text, is_prefix: false, fold }
}

/// The first row that matches counts.
pub const RULES: [Rule; 22] = [
    prefix("Cijk_", Fold::FromTile),
    prefix("triton_", Fold::Numbers),
    prefix("_matmul_ogs_", Fold::Tiles),
    prefix("ampere_", Fold::Tiles),
    prefix("batched_transpose_", Fold::Tiles),
    prefix("blackwell_", Fold::Tiles),
    prefix("bmm_", Fold::Tiles),
    prefix("cudnn_", Fold::Tiles),
    prefix("cutlass", Fold::Tiles),
    prefix("fmha_", Fold::Tiles),
    prefix("gemm_", Fold::Tiles),
    prefix("hopper_", Fold::Tiles),
    prefix("igemm_", Fold::Tiles),
    prefix("kepler_", Fold::Tiles),
    prefix("maxwell_", Fold::Tiles),
    prefix("nvjet_", Fold::Tiles),
    prefix("pascal_", Fold::Tiles),
    prefix("sm", Fold::Tiles),
    prefix("turing_", Fold::Tiles),
    prefix("volta_", Fold::Tiles),
    prefix("xmma_", Fold::Tiles),
    anywhere("fusion", Fold::Numbers),
];

/// Words of kernels of matrix libraries that say nothing: `…_execute_kernel__5x_cublas`.
const WORDS: [&str; 12] =
    ["", "2cta", "5x", "coopA", "coopB", "cublas", "execute", "f2f", "h", "kernel", "stages", "v"];
/// Words that say nothing with a number behind: stages, alignments and widths of loads.
const NUMBERED: [&str; 6] = ["align", "alignc", "ldg", "stage", "stages", "warps"];
/// Digits of a hash at the end of a name.
const HASH_DIGITS: usize = 12;

/// Returns the short form of a name without namespaces and brackets.
pub(super) fn short(name: &str) -> Cow<'_, str> {
    // Compilers append what they make of a function after a point.
    let name = match name.find('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    let name = without_signature(without_hash(name));
    match RULES.iter().find(|rule| rule.matches(name)) {
        Some(rule) => rule.fold(name),
        None => Cow::Borrowed(name),
    }
}

impl Rule {
    fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(self.text) } else { name.contains(self.text) }
    }

    fn fold<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.fold {
            Fold::Tiles => without_tiles(name),
            Fold::Numbers => Cow::Borrowed(without_numbers(name)),
            Fold::FromTile => Cow::Borrowed(without_schedule(name)),
        }
    }
}

fn without_tiles(name: &str) -> Cow<'_, str> {
    // `sm80_xmma_…`, not `smooth_…`.
    if name.strip_prefix("sm").is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Cow::Borrowed(name);
    }
    let parts = name.split('_').enumerate();
    let kept: Vec<&str> =
        parts.filter(|(at, part)| *at == 0 || !is_tuning(part)).map(|(_, part)| part).collect();
    Cow::Owned(kept.join("_"))
}

/// Returns true for a part of a name that says how a kernel is compiled: `128x64`, `stage4`, `kernel`.
fn is_tuning(part: &str) -> bool {
    let is_tile = |three: &[u8]| three[0].is_ascii_digit() && three[1] == b'x' && three[2].is_ascii_digit();
    let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
    part.as_bytes().windows(3).any(is_tile)
        || WORDS.contains(&part)
        || (word.len() < part.len() && NUMBERED.contains(&word))
}

fn without_numbers(name: &str) -> &str {
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('_')
        && last.bytes().all(|b| b.is_ascii_digit())
        && !before.is_empty()
    {
        name = before;
    }
    name
}

/// Removes the signature that Triton appended to names: for each argument its position, and `d` if it is divisible by 16, `e` if
/// it is so by 8, and `c` if it is 1.
fn without_signature(name: &str) -> &str {
    let Some((before, last)) = name.rsplit_once('_') else { return name };
    let is_of_signature = |b: u8| b.is_ascii_digit() || matches!(b, b'c' | b'd' | b'e');
    let is_signature =
        last.starts_with('0') && last.len() > 1 && last.bytes().all(is_of_signature) && last.contains('d');
    if is_signature && !before.trim_matches('_').is_empty() { before.trim_end_matches('_') } else { name }
}

fn without_hash(name: &str) -> &str {
    let Some((before, last)) = name.rsplit_once('_') else { return name };
    let is_hash = last.len() >= HASH_DIGITS
        && last.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && last.bytes().any(|b| b.is_ascii_digit());
    if is_hash && !before.trim_matches('_').is_empty() { before.trim_end_matches('_') } else { name }
}

/// Returns the layouts and types of a Tensile kernel, without its tile and schedule.
fn without_schedule(name: &str) -> &str {
    let is_tile = |at: usize| name[at + 3..].starts_with(|c: char| c.is_ascii_digit());
    let tile = name.match_indices("_MT").find(|(at, _)| is_tile(*at));
    tile.map_or(name, |(at, _)| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_each_rule_is_once() {
        assert!(WORDS.is_sorted() && NUMBERED.is_sorted());
        for (at, rule) in RULES.iter().enumerate() {
            assert!(RULES[..at].iter().all(|before| before.text != rule.text), "{rule:?}");
        }
    }
}
