use std::collections::BTreeSet;
use std::path::Path;

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| {
                let rest = line.trim_start().trim_start_matches("pub(super) ").trim_start_matches("async ");
                rest.strip_prefix("fn ")?.split(['(', '<']).next()
            });
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn each_test_that_the_table_names_exists_and_each_row_names_one() {
    let mut known = BTreeSet::new();
    // With the crates inside of the sender's folder.
    collect(Path::new(env!("CARGO_MANIFEST_DIR")), &mut known);
    let mut rows = 0;
    for line in include_str!("README.md").lines().filter(|line| line.starts_with("| S")) {
        let named: Vec<&str> = line.split('`').skip(1).step_by(2).filter(|word| word.contains('_')).collect();
        assert!(!named.is_empty(), "no test in {line}");
        for name in named {
            assert!(known.contains(name), "there is no test {name}: {line}");
        }
        rows += 1;
    }
    assert!(rows > 20, "{rows} rows");
}
