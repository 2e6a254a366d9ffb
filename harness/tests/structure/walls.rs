//! A crate can only name its dependencies, so it is enough that these lead nowhere.

use std::process::Command;

use crate::source;

/// No chain of the crate's dependencies may reach these crates.
struct Wall {
    package: &'static str,
    keeps_out: &'static [&'static str],
}

const OUTSIDE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "reqwest",
    "rusqlite",
    "tokio-postgres",
    "rustix",
    "rand",
    "getrandom",
];

const JUDGED: &[&str] = &[
    "tokio",
    "hookproof-words",
    "hookproof-engine",
    "hookproof-sender",
    "hookproof-verify",
    "hookproof-receiver",
];

const WALLS: [Wall; 5] = [
    Wall { package: "hookproof-words", keeps_out: OUTSIDE },
    Wall { package: "hookproof-engine", keeps_out: OUTSIDE },
    Wall { package: "hookproof-verify", keeps_out: OUTSIDE },
    Wall { package: "hookproof-judge", keeps_out: JUDGED },
    Wall { package: "hookproof-play", keeps_out: JUDGED },
];

#[test]
fn no_dependency_leads_through_a_wall() {
    for Wall { package, keeps_out } in WALLS {
        let reached = dependencies(package);
        assert!(reached.len() > 3, "cargo tree lists too few dependencies of {package}: {reached:?}");
        let through: Vec<&&str> =
            keeps_out.iter().filter(|name| reached.iter().any(|reached| reached == **name)).collect();
        assert!(
            through.is_empty(),
            "{package} reaches {through:?}: see `cargo tree -p {package} -e normal -i NAME`"
        );
    }
}

/// The features are those that the package has alone.
fn dependencies(package: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["tree", "--locked", "--offline", "-p", package, "-e", "normal", "--prefix", "none"];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(source::root())
        .output()
        .expect("cargo runs the tests, so it is there");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8_lossy(&output.stdout);
    listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
