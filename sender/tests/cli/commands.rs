use std::collections::HashMap;
use std::io::Read;
use std::process::Stdio;

use crate::cli::world::World;

const NOWHERE: &str = "http://127.0.0.1:9/hook?token=visible";

#[test]
fn a_subscriber_is_added_listed_shown_changed_and_removed() {
    let (world, _) = World::with_shop(NOWHERE, &["--events", "order.*,refund.made", "limit.rate=10/s"]);
    let shown = world.json(&["subscriber", "show", "shop"]);
    assert_eq!(shown["events"], serde_json::json!(["order.*", "refund.made"]));
    assert_eq!((&shown["limit"]["rate"], &shown["limit"]["burst"]), (&"10/s".into(), &10.into()));

    world.ok(&[
        "subscriber",
        "set",
        "shop",
        "limit.rate=3/s",
        "limit.burst=5",
        "limit.windows=60 per 1s,900 per 1min",
        "name=store",
    ]);
    let shown = world.json(&["subscriber", "show", "store"]);
    assert_eq!((&shown["limit"]["rate"], &shown["limit"]["burst"]), (&"3/s".into(), &5.into()));
    assert_eq!(shown["limit"]["windows"], serde_json::json!(["60 per 1s", "900 per 1min"]));
    let text = world.ok(&["subscriber", "show", shown["id"].as_str().unwrap()]);
    assert!(text.contains("limit.rate") && text.contains("3/s\n") && text.contains("8s (default)"), "{text}");

    world.ok(&["subscriber", "set", "store", "limit.windows=null"]);
    assert_eq!(world.json(&["subscriber", "show", "store"])["limit"]["windows"], serde_json::json!([]));

    world.ok(&["subscriber", "pause", "store"]);
    assert_eq!(world.json(&["subscriber", "show", "store"])["state"], "paused");
    world.ok(&["subscriber", "resume", "store"]);
    assert_eq!(world.json(&["subscriber", "show", "store"])["state"], "active");

    world.ok(&["subscriber", "remove", "store"]);
    assert_eq!(world.run(&["subscriber", "show", "store"]).code, 1);
    assert_eq!(world.ok(&["subscriber", "list"]), "no subscribers yet; `subscriber add NAME URL` adds one\n");
}

#[test]
fn the_reference_of_settings_is_printed_as_text_markdown_and_schema() {
    let world = World::new();
    let kept = include_str!("../../../docs/settings.md");
    assert_eq!(world.ok(&["settings", "--markdown"]), kept);
    let (schema, json) = (world.ok(&["settings", "--json-schema"]), world.json(&["settings"]));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&schema).unwrap(), json);
    assert_eq!(json["properties"]["limit"]["properties"]["burst"]["default"], 10);
    let text = world.ok(&["settings"]);
    assert!(text.contains("  limit.burst  (default: 10)\n") && text.contains("EXAMPLE OF SHAPE"), "{text}");
    assert_eq!(world.run(&["settings", "--markdown", "--json-schema"]).code, 64);
}

#[test]
fn the_settings_of_a_subscriber_are_shown_with_defaults() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let rows = || {
        let text = world.ok(&["subscriber", "show", "shop"]);
        let rows = text.lines().filter_map(|line| line.split_once("  "));
        rows.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect::<HashMap<_, _>>()
    };
    let unset = rows();
    assert_eq!(unset["shape.allow"], "all fields, as they came (default)");
    assert_eq!((&*unset["shape.pseudonymise"], &*unset["coalesce"]), ("none (default)", "none (default)"));
    let nothing = serde_json::json!({ "allow": null, "pseudonymise": null, "region": null });
    assert_eq!(world.json(&["subscriber", "show", "shop"])["shape"], nothing);

    let rule = r#"[{"events":"video.rank_updated","window":"5s"}]"#;
    let coalesce = format!("coalesce={rule}");
    world.ok(&["subscriber", "set", "shop", "shape.allow=video,stats.views", &coalesce]);
    let set = rows();
    assert_eq!((&*set["shape.allow"], &*set["coalesce"]), ("video,stats.views", rule));
    assert_eq!(set["shape.region"], "none (default)");
}

#[test]
fn tables_are_aligned_in_a_pipe_and_have_no_colours_there() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let table = world.ok(&["subscriber", "list"]);
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2);
    let place = |line: &str, word: &str| line.find(word).unwrap();
    assert_eq!(place(lines[0], "STATE"), place(lines[1], "active"));
    assert!(!table.contains('\x1b') && !table.contains("visible"), "{table}");
}

#[test]
fn no_secret_is_shown_after_it_was_made() {
    let (world, first) = World::with_shop(NOWHERE, &[]);
    let rotated = world.json(&["subscriber", "rotate", "shop"]);
    let second = rotated["secret"].as_str().unwrap();
    assert_ne!(first, second);
    for arguments in [
        &["subscriber", "list"][..],
        &["subscriber", "list", "--json"],
        &["subscriber", "show", "shop"],
        &["subscriber", "show", "shop", "--json"],
        &["subscriber", "set", "shop", "limit.burst=3", "--json", "--log", "trace"],
        &["emit", "--type", "a", "--data", "1", "--log", "trace"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        for secret in [&first, second] {
            let key = secret.trim_start_matches("whsec_");
            assert!(!ran.stdout.contains(key) && !ran.stderr.contains(key), "{arguments:?} shows a secret");
        }
    }
    assert_eq!(world.json(&["subscriber", "show", "shop"])["secrets"].as_array().unwrap().len(), 2);
}

#[test]
fn the_public_key_of_a_private_one_is_shown_always() {
    let (world, _) = World::with_shop(NOWHERE, &["sign=discord"]);
    let rotated = world.json(&["subscriber", "rotate", "shop", "--overlap", "0s"]);
    let key = rotated["public_key"].as_str().unwrap();
    assert_eq!(world.json(&["subscriber", "show", "shop"])["secrets"][0]["public_key"], key);
    assert!(world.ok(&["subscriber", "show", "shop"]).contains(key));
    let add = ["subscriber", "add", "plain", NOWHERE, "sign=discord", "--allow-private-targets"];
    let added = world.ok(&add);
    assert!(added.contains("\nsecret  whsk_") && added.contains("\npublic  "), "{added}");
    world.ok(&["subscriber", "set", "shop", "sign=slack"]);
    assert!(!world.ok(&["subscriber", "show", "shop"]).contains(key));
    world.ok(&["subscriber", "rotate", "shop", "--overlap", "0s"]);
    let refused = world.run(&["subscriber", "set", "shop", "sign=discord"]);
    let told =
        "sign by discord: the secret is no private key of ed25519; expected whsk_ and base64 of 32 bytes";
    assert!(refused.code != 0 && refused.stderr.contains(told), "{}", refused.stderr);
}

#[test]
fn events_are_emitted_from_an_argument_a_file_and_stdin_and_counted_by_status() {
    let (world, _) = World::with_shop(NOWHERE, &["--events", "order.*"]);
    let emit = ["emit", "--type", "order.paid", "--json"];
    let answer = world.json(&[&emit[..], &["--data", "{\"n\":1}", "--id", "mine-1", "--key", "k"]].concat());
    assert_eq!((&answer["id"], &answer["deliveries"]), (&"mine-1".into(), &1.into()));
    let again = world.json(&[&emit[..], &["--data", "{\"n\":1}", "--id", "mine-1"]].concat());
    assert_eq!((&again["deliveries"], &again["duplicates"]), (&0.into(), &1.into()));
    assert_eq!(world.feed(&[&emit[..], &["-"]].concat(), "[2]").code, 0);
    assert_eq!(world.feed(&[&emit[..], &["--data-file", "-"]].concat(), "3").code, 0);
    let unwanted = world.ok(&["emit", "--type", "other", "--data", "1"]);
    assert!(unwanted.contains("no subscriber wants it"), "{unwanted}");

    let status = world.json(&["status"]);
    assert_eq!(status["deliveries"]["waiting"], 3);
    let text = world.ok(&["status"]);
    assert!(text.contains("waiting") && text.contains("1 active, 0 paused, 0 disabled"), "{text}");
}

#[test]
fn waiting_deliveries_are_given_up_only_after_a_confirmation() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    (0..3).for_each(|number| drop(world.ok(&["emit", "--type", "a", "--data", &number.to_string()])));
    let told = world.ok(&["subscriber", "shed", "shop", "--max", "2"]);
    assert_eq!(
        told,
        "2 of 3 waiting deliveries to shop would become dead letters; repeat with --yes to do it\n"
    );
    let plan = world.json(&["subscriber", "shed", "shop"]);
    assert_eq!((&plan["waiting"], &plan["would_shed"]), (&3.into(), &3.into()));
    let places = || {
        let deliveries = world.json(&["status"])["deliveries"].take();
        (deliveries["waiting"].as_u64(), deliveries["dead_kept"].as_u64())
    };
    assert_eq!(places(), (Some(3), Some(0)));
    let done = world.ok(&["subscriber", "shed", "shop", "--max", "2", "--yes"]);
    assert_eq!(done, "shed done: 2 of 2\n");
    assert_eq!(places(), (Some(1), Some(2)));
    assert_eq!(world.json(&["subscriber", "shed", "shop", "--yes"])["done"], 1);
    assert_eq!(world.run(&["subscriber", "shed", "shop", "--max", "0"]).code, 64);
    assert_eq!(world.json(&["dead", "redrive", "--subscriber", "shop"])["done"], 3);
    assert_eq!(places(), (Some(3), Some(0)));
}

#[test]
fn more_dead_letters_than_one_step_takes_are_forgotten_by_their_ids() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let events = "{\"type\":\"a\",\"data\":1}\n".repeat(501);
    assert_eq!(world.feed(&["emit", "--ndjson", "-"], &events).code, 0);
    world.ok(&["subscriber", "shed", "shop", "--yes"]);
    let listed = world.ok(&["dead", "list", "--max", "1000", "--json"]);
    let letters = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ids: Vec<String> = letters.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect();
    let purge: Vec<&str> = ["dead", "purge"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    assert_eq!(world.ok(&purge), "dead letters: 501\npurge done: 501 of 501\n");
    assert_eq!(world.json(&["status"])["deliveries"]["dead_kept"], 0);
}

#[test]
fn a_bad_line_of_a_batch_spoils_no_other_and_is_named() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let lines = "{\"type\":\"a\",\"data\":1}\n\nbad\n{\"type\":\"b\",\"data\":{}}\n{\"data\":1}";
    let ran = world.feed(&["emit", "--ndjson", "-"], lines);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (1, "events recorded: 2; deliveries owed: 2; events refused: 2\n")
    );
    assert!(ran.stderr.contains("line 3: ") && ran.stderr.contains("line 5: "), "{}", ran.stderr);

    let ran = world.feed(&["emit", "--ndjson", "-", "--json"], lines);
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 3, 4, 5]);
    assert_eq!(
        (&answers[1]["error"]["code"], &answers[3]["error"]["field"]),
        (&"not_json".into(), &"type".into())
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    let batch: String = (0..2_000).map(|n| format!("{{\"type\":\"a\",\"data\":{n}}}\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), batch).unwrap();
    let mut command = world.command(&["emit", "--json", "--ndjson", file.path().to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(0), ""));
    assert_eq!(world.json(&["status"])["deliveries"]["waiting"], 2_000);

    for arguments in [&["subscriber", "list"][..], &["status"], &["--help"]] {
        let mut child =
            world.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
    }
}

#[test]
fn a_stored_setting_that_cannot_be_read_is_mended_by_a_change_of_it() {
    let (world, _) = World::with_shop(NOWHERE, &[]);
    world.sql(r#"UPDATE subscribers SET settings = '{"headers":["Host: elsewhere"],"timeout":"3s"}'"#);
    let refused = world.run(&["subscriber", "set", "shop", "limit.rate=9/s"]);
    assert!(refused.code != 0 && refused.stderr.contains("headers[0]"), "{}", refused.stderr);
    world.ok(&["subscriber", "set", "shop", "headers=null"]);
    let shown = world.json(&["subscriber", "show", "shop"]);
    assert_eq!((&shown["headers"], &shown["timeout"]), (&serde_json::json!([]), &"3s".into()));
}

#[test]
fn an_event_that_a_broken_subscriber_wants_is_refused_rather_than_lost() {
    let world = World::new();
    let eu = ["--region", "eu=EU_SECRET"];
    let run = |arguments: &[&str]| {
        let ran: crate::cli::world::Ran =
            world.command(arguments).env("EU_SECRET", "a-secret-of-the-region").output().unwrap().into();
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    };
    let add = ["subscriber", "add", "shop", NOWHERE, "--allow-private-targets", "--events", "order.*"];
    let shape = r#"shape={"allow":["a"],"pseudonymise":["b"],"region":"eu"}"#;
    run(&[&add[..], &[shape], &eu].concat());
    let emit = ["emit", "--type", "order.paid", "--data", "{\"a\":1,\"b\":\"x\"}"];
    let refused = world.run(&emit);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("shop") && refused.stderr.contains("region"), "{}", refused.stderr);
    assert!(world.ok(&["emit", "--type", "video.new", "--data", "1"]).contains("no subscriber wants it"));
    let status = world.json(&["status"]);
    assert_eq!(
        (&status["deliveries"]["accepted"], &status["broken"][0]["name"]),
        (&0.into(), &"shop".into())
    );
    assert!(world.joined(&["status"]).contains("give their region's secret"));

    run(&[&emit[..], &eu].concat());
    let status: serde_json::Value =
        serde_json::from_str(&run(&[&["status", "--json"][..], &eu].concat())).unwrap();
    assert_eq!((&status["deliveries"]["waiting"], &status["broken"]), (&1.into(), &serde_json::json!([])));
}
