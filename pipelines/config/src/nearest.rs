//! The valid word nearest to a misspelt one.

/// The candidate that takes the fewest single-letter edits (a swap of neighbours counts as one) from `word`,
/// if that is few enough to be a slip: a third of its letters, at least one.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().map(|c| (edits(word, c), c));
    scored.filter(|(distance, _)| *distance <= limit).min().map(|(_, c)| c)
}

/// The optimal string alignment distance, ignoring case.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().take(128).collect();
    let b: Vec<char> = b.to_lowercase().chars().take(128).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_a_slip_away_or_there_is_none() {
        for (word, want) in [
            ("endpont", Some("endpoint")),
            ("Endpoint", Some("endpoint")),
            ("timeuot", Some("timeout")),
            ("verbosity", None),
            ("", None),
            ("tls", None),
        ] {
            assert_eq!(nearest(word, ["compression", "endpoint", "timeout"]), want, "{word:?}");
        }
    }
}
