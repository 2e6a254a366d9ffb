use crate::cli::world::World;

#[track_caller]
fn check(world: &World, arguments: &[&str], code: i32, says: &str) {
    let ran = world.run(arguments);
    assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{arguments:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{arguments:?}: {}", ran.stderr);
    assert!(
        ran.stderr.starts_with("hookproof-sender: ") && ran.stderr.contains(says),
        "{arguments:?}: {}",
        ran.stderr
    );
}

#[test]
fn bad_command_lines_end_with_64_and_one_line() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let rows: &[(&[&str], &str)] = &[
        (&["frob"], "'frob'"),
        (&["emit", "--frob"], "'--frob'"),
        (&["emit", "--type", "a"], "--data"),
        (&["emit", "--data", "1"], "--type"),
        (&["emit", "--type", "a", "--data", "{"], "cannot be read"),
        (&["emit", "--type", "a b", "--data", "1"], "type"),
        (&["emit", "--type", "a", "--data", "1", "--id", "a.b"], "the id has '.'"),
        (&["emit", "--ndjson", "/nowhere"], "/nowhere"),
        (&["emit", "--ndjson", "-", "--type", "a"], "--ndjson"),
        (&["serve", "--listen", "0.0.0.0:0"], "--token-env"),
        (&["serve", "--token-env", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL"),
        (&["serve", "--token-env", "A=everything"], "admin, operate, read, emit"),
        (&["serve", "--lease", "30"], "no unit"),
        (&["serve", "--lease", "1ms"], "--lease is 1ms; expected 1s to 1h"),
        (&["serve", "--keep-delivered", "1h"], "--keep-delivered"),
        (&["serve", "--allow-network", "10.0.0.1/8"], "10.0.0.1/8"),
        (&["serve", "--region", "eu"], "NAME=ENV"),
        (&["serve", "--region", "eu=NOT_SET_AT_ALL"], "NOT_SET_AT_ALL"),
        (&["drain", "--for", "forever"], "forever"),
        (&["drain", "--for", "0s"], "--for is 0ns"),
        (&["audit", "--per", "hour"], "second, minute"),
        (&["dead", "redrive"], "--all"),
        (&["dead", "purge", "--all", "--subscriber", "shop"], "--subscriber"),
        (&["subscriber", "add", "x", "ftp://a/"], "ftp"),
        (&["subscriber", "add", "x", "http://127.0.0.1/"], "--allow-private-targets"),
        (&["subscriber", "add", "x", "http://a.example/", "--https-only"], "expected https"),
        (&["subscriber", "add", "x", "http://a.example/", "--events", "a.*.b"], "star"),
        (&["subscriber", "add", "x", "http://a.example/", "limit.rate=0/s"], "limit.rate"),
        (&["subscriber", "add", "x", "http://a.example/", "limt.rate=1/s"], "limt"),
        (&["subscriber", "add", "x/y", "http://a.example/"], "'/'"),
        (&["subscriber", "set", "shop", "limit.rate"], "KEY=VALUE"),
        (&["subscriber", "set", "shop", "limit.rate=5"], "limit.rate"),
        (&["subscriber", "set", "shop", "limit.burst=9", "limit.burst=8"], "twice"),
        (&["subscriber", "set", "shop", "timeout=1h"], "timeout"),
        (&["subscriber", "rotate", "shop", "--overlap", "1000d"], "--overlap"),
        (&["subscriber", "pause", "shop", "--for", "0s"], "--for is 0ns; expected 1s to 365d"),
        (&["subscriber", "pause", "shop", "--until", "5"], "--until is 1970-01-01T00:00:05.000Z; expected"),
        (&["subscriber", "pause", "shop", "--until", "soon"], "expected a moment such as"),
        (&["subscriber", "pause", "shop", "--for", "1h", "--until", "5"], "cannot be used with"),
        (&["subscriber", "pause", "shop", "--reason", "a\nb"], "--reason is"),
        (&["status", "--log", "a=b=c"], "log level"),
        (&["vacuum", "--db", "postgres://me@db.example/hooks"], "postgres://db.example/hooks is on a server"),
    ];
    for (arguments, says) in rows {
        check(&world, arguments, 64, says);
    }
}

#[test]
fn an_impossible_operation_exits_with_1() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let rows: &[(&[&str], &str)] = &[
        (&["subscriber", "show", "nobody"], "\"nobody\""),
        (&["subscriber", "set", "nobody", "limit.burst=3"], "\"nobody\""),
        (&["subscriber", "pause", "nobody"], "\"nobody\""),
        (&["subscriber", "remove", "nobody"], "\"nobody\""),
        (&["subscriber", "test", "nobody"], "\"nobody\""),
        (&["subscriber", "test", "shop", "--wait", "10ms"], "no attempt ended within 10ms"),
        (&["subscriber", "add", "shop", "http://a.example/"], "taken"),
        (&["dead", "list", "--subscriber", "nobody"], "\"nobody\""),
        (&["dead", "redrive", "not-a-delivery"], "not-a-delivery"),
        (&["audit", "--subscriber", "nobody"], "\"nobody\""),
    ];
    for (arguments, says) in rows {
        check(&world, arguments, 1, says);
    }
}

#[test]
fn only_serve_and_add_make_a_database() {
    let world = World::new();
    let rows: [&[&str]; 10] = [
        &["status"],
        &["emit", "--type", "a", "--data", "1"],
        &["drain"],
        &["audit"],
        &["vacuum"],
        &["dead", "list"],
        &["dead", "purge", "--all"],
        &["subscriber", "list"],
        &["subscriber", "pause", "x"],
        &["token", "create", "x", "--scope", "read"],
    ];
    for arguments in rows {
        check(&world, arguments, 64, "there is no database");
    }
    let mut command = world.command(&["status"]);
    let ran = command.env_remove("HOOKPROOF_DB").output().unwrap();
    assert_eq!(ran.status.code(), Some(64));
}

#[test]
fn a_file_that_is_no_database_of_ours_is_refused() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a database, and long enough to be seen as none".repeat(100)).unwrap();
    check(&world, &["status", "--db", file.path().to_str().unwrap()], 64, "not an SQLite database");
}

#[test]
fn an_empty_file_is_made_a_store_by_no_vacuum() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    check(&world, &["vacuum", "--db", file.path().to_str().unwrap()], 64, "it is empty");
    assert_eq!(file.as_file().metadata().unwrap().len(), 0);
}

#[test]
fn a_hidden_secret_is_reported_with_the_way_to_get_another() {
    let world = World::new();
    let add = ["subscriber", "add", "shop", "https://shop.example/hook", "--events", "*"];
    for (arguments, says) in
        [(&add[..], "shop is added"), (&["subscriber", "rotate", "shop"], "has a new secret")]
    {
        for more in [&[][..], &["--json"]] {
            let mut command = world.command(&[arguments, more].concat());
            command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
            let output = command.output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(70), "{said}");
            assert!(said.contains(says) && said.contains("`subscriber rotate shop`"), "{said}");
            if arguments == &add[..] {
                world.ok(&["subscriber", "remove", "shop"]);
            }
        }
        if arguments == &add[..] {
            world.ok(&add);
        }
    }
}

#[test]
fn a_file_that_a_process_delivers_from_is_not_vacuumed() {
    let (world, _) = World::with_shop("http://127.0.0.1:9/", &[]);
    let serving = world.serve();
    check(&world, &["vacuum"], 1, "is in use (a process delivers from it");
    assert_eq!(serving.terminate().0, 0);
    let done = world.ok(&["vacuum"]);
    assert!(done.contains("sender.db had 0.") && done.ends_with(" MiB now\n"), "{done}");
}
