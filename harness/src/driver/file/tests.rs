//! What a driver file may say.

use super::*;

#[test]
fn every_shipped_driver_file_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/drivers");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names: Vec<_> = files.map(|path| DriverFile::open(&path).unwrap().name).collect();
    assert!(names.len() >= 5, "{names:?}");
    assert_eq!(DriverFile::hookproof().unwrap().name, "hookproof");
}

#[test]
fn what_would_be_read_in_part_or_has_no_bound_is_refused() {
    let calls = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n";
    let emit = |more: &str| format!("emit = {{ request = \"POST {{{{ base }}}}/\", body = \"\"{more} }}\n");
    let dead =
        "dead = { request = \"GET {{ base }}/\", list = \"\", subscriber = \"/s\", next = \"/next\" }\n";
    let rows = [
        (format!("{}{dead}", emit("")), "page"),
        (emit(", batch_max = 0"), "batch_max"),
        (emit(", batch_max = 1000001"), "batch_max"),
        (emit(", calls = 0"), "calls"),
        (emit(", calls = 1001"), "calls"),
    ];
    for (more, named) in rows {
        let read = DriverFile::parse(&format!("{calls}{more}"), "x.toml");
        let error = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(named), "{more}: {error:?}");
    }
}

#[test]
fn what_is_not_understood_is_named_with_its_place() {
    let error = DriverFile::parse("name = \"x\"\nstrat = 1\n", "x.toml").unwrap_err().to_string();
    assert!(error.contains("strat") && error.contains("line 2"), "{error}");
    let text =
        "name = \"x\"\nsubscribe = { request = \"POST {{ a\" }\nemit = { request = \"\", body = \"\" }\n";
    let error = DriverFile::parse(text, "x.toml").unwrap_err().to_string();
    assert!(error.contains("without"), "{error}");
}
