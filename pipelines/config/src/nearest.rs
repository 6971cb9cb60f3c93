//! Suggestion of a valid word for a misspelled one.

/// Returns the candidate with the smallest edit distance to `word` (a transposition counts as one edit), if the
/// distance is at most a third of its letters, and at least one.
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
    fn nearest_word_is_within_a_third_of_its_letters() {
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
