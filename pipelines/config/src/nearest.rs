//! The valid word nearest to a misspelt one.

/// The candidate that takes the fewest single-letter edits (a swap of neighbours counts as one) from `word`,
/// if that is few enough to be a slip: a third of its letters, at least one.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 3).max(1);
    let scored = candidates.into_iter().map(|c| (strsim::osa_distance(&word, &c.to_lowercase()), c));
    scored.filter(|(distance, _)| *distance <= limit).min().map(|(_, c)| c)
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
