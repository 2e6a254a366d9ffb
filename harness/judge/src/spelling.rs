/// None if more than a third of its letters differ, and more than two.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let few = (given.chars().count() / 3).max(2);
    let distances = known.into_iter().map(|name| (distance(given, name), name));
    distances.min_by_key(|(letters, _)| *letters).filter(|(letters, _)| *letters <= few).map(|(_, name)| name)
}

#[must_use]
pub fn distance(given: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut above: Vec<usize> = (0..=known.len()).collect();
    for (row, letter) in given.chars().enumerate() {
        let mut here = vec![row + 1];
        for (column, other) in known.iter().enumerate() {
            let changed = above[column] + usize::from(letter != *other);
            here.push(changed.min(above[column + 1] + 1).min(here[column] + 1));
        }
        above = here;
    }
    above[known.len()]
}
