//! Suggestions for misspelt names.

/// Prefers the first of equally near names.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters, but at least two, for two swapped letters, and never all.
    let letters = given.chars().count();
    let few = (letters / 3).max(2).min(letters.saturating_sub(1));
    let distances = known.into_iter().map(|name| (distance(given, name), name));
    distances
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= few)
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn distance(given: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (at, letter) in given.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in known.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let known = ["rate", "burst", "windows", "in_flight"];
        let rows = [
            ("brust", Some("burst")),
            ("bursts", Some("burst")),
            ("rates", Some("rate")),
            ("inflight", Some("in_flight")),
            ("window", Some("windows")),
            ("", None),
            ("banana", None),
            ("ttl", None),
        ];
        for (given, meant) in rows {
            assert_eq!(nearest(given, known), meant, "{given}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        let rows = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ä", "ö", 1)];
        for (given, known, letters) in rows {
            assert_eq!(distance(given, known), letters, "{given} {known}");
        }
    }
}
