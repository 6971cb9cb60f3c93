//! The start order of extensions.

/// Sorts `items` stably so that each follows those it needs; a cycle is broken at its first item.
pub(super) fn by_need<T>(mut items: Vec<T>, needs: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut ordered = Vec::with_capacity(items.len());
    while !items.is_empty() {
        let waits = |at: usize| (0..items.len()).any(|other| other != at && needs(&items[at], &items[other]));
        let next = (0..items.len()).find(|at| !waits(*at)).unwrap_or(0);
        ordered.push(items.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::by_need;

    #[test]
    fn needed_items_come_first_and_others_stay_in_order() {
        for (items, needs, want) in [
            ("abc", "", "abc"),
            ("abc", "ab", "bac"),
            ("abc", "ac cb", "bca"),
            ("abc", "ab ba", "cab"),
            ("abc", "aa", "abc"),
        ] {
            let needs = |a: &char, b: &char| needs.split(' ').any(|pair| pair == format!("{a}{b}"));
            assert_eq!(by_need(items.chars().collect(), needs).iter().collect::<String>(), want, "{items}");
        }
    }
}
