use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{hookproof, ours};

#[track_caller]
fn check(text: &str, code: i32, said: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("driver.toml");
    std::fs::write(&file, text).unwrap();
    let (got, all) =
        hookproof(&["driver", "check", file.to_str().unwrap()], &[("ACME_TOKEN", "token-of-acme")]);
    assert_eq!(got, Some(code), "{all}");
    for part in said {
        assert!(all.contains(part), "expected {part:?} in {all}");
    }
    all
}

#[test]
fn our_own_driver_works_step_by_step() {
    let said = [
        "passed   start",
        "passed   subscribe",
        "passed   emit         events accepted: 3",
        "passed   deliver      events arrived: 3;",
        "passed   verify       valid signatures: 3",
        "passed   payload      3 requests have their events as they were offered",
        "passed   depth",
        "passed   dead         dead letters: 0",
        "skipped  unsubscribe  the driver file has neither",
        "passed   stop",
        "hookproof: the driver works",
    ];
    check(&ours(), 0, &said);
}

#[test]
fn a_call_that_fails_is_shown_with_what_was_sent_and_what_came_back_and_no_secret() {
    let headers = "headers = { Authorization = \"Bearer {{ env.ACME_TOKEN }}\" }\n";
    let text = ours().replace(
        "request = \"POST {{ base }}/v1/subscribers\"\n",
        &format!(
            "request = \"POST {{{{ base }}}}/v1/subscribers?token={{{{ env.ACME_TOKEN }}}}\"\n{headers}"
        ),
    );
    let text = text
        .replace("\"events\": {{ events }}", "\"evnts\": {{ events }}, \"token\": \"{{ env.ACME_TOKEN }}\"");
    let sent = ["failed   subscribe", "sent", "POST http://127.0.0.1:", "Bearer …", "evnts"];
    let said = [&sent[..], &["got", "log  ", "the HTTP API listens", "passed   stop"]].concat();
    let all = check(&text, 4, &said);
    assert!(!all.contains("token-of-acme"), "{all}");
}

#[test]
fn a_signature_that_is_described_wrongly_fails_with_what_was_seen() {
    let text = format!("{}\n[sign]\nprofile = \"github\"\n", ours());
    check(&text, 1, &["failed   verify", "there is no x-hub-signature-256 header", "one step failed"]);
    let text = format!(
        "{}\n[sign]\nalgorithm = \"hmac-sha256\"\nkey = \"base64\"\nencoding = \"base64\"\nheader = \"webhook-signature\"\n\
         prefix = \"v1,\"\ntimestamp = \"webhook-timestamp\"\nid = \"webhook-id\"\nsigned = [\"{{id}}.{{timestamp}}.{{body}}\"]\n",
        ours()
    );
    check(&text, 0, &["valid signatures: 3"]);
    check(&text.replace("{id}.", ""), 1, &["failed   verify", "no signature was made", "v1,"]);
}

#[test]
fn a_payload_that_is_not_where_the_driver_says_fails_with_what_was_missing() {
    let text = ours().replace("exact = true", "key = \"/key\"");
    check(&text, 1, &["failed   payload", "the event's key is missing", "one step failed"]);
    check(&ours().replace("\"/data\"", "\"data\""), 64, &["payload.data", "expected a JSON pointer"]);
}

#[test]
fn a_sender_that_cannot_be_started_or_reached_is_told_apart_from_one_that_is_wrong() {
    let text = ours().replace("\"{{ hookproof }}\", \"sender\", \"serve\",", "\"/no/such/program\",");
    check(&text, 4, &["failed   start", "/no/such/program"]);
    let (head, rest) = ours().split_once("[start]").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let rest = rest.split_once("[subscribe]").unwrap().1.to_owned();
    let text = format!("{head}base = \"http://127.0.0.1:1\"\n[subscribe]{rest}");
    check(&text, 4, &["skipped  start", "failed   subscribe", "was not answered"]);
}

#[test]
fn a_sender_that_does_not_exit_with_0_fails_the_stop() {
    let shell = "'trap \"kill \\$!; wait \\$!; exit 3\" TERM; \"$@\" & wait $!'";
    let ours = ours();
    let text = ours.replace(
        "\"{{ hookproof }}\",",
        &format!("\"/bin/sh\", \"-c\", {shell}, \"sh\", \"{{{{ hookproof }}}}\","),
    );
    assert_ne!(text, ours);
    check(&text, 1, &["failed   stop         the sender was asked to stop and ended with exit 3"]);
}

#[test]
fn a_variable_that_is_not_set_is_the_askers_mistake_in_every_section() {
    let unset = "{{ env.HOOKPROOF_UNSET }}";
    let instead = |from: &str, to: &str| {
        let text = ours().replacen(from, &to.replace("UNSET", unset), 1);
        assert_ne!(text, ours(), "{from}");
        text
    };
    let rows = [
        ("connect", instead("[start]", "base = \"http://127.0.0.1:{{ port }}UNSET\"\n[start]")),
        ("connect", instead("[start]", "[connect]\nca = \"UNSET\"\n[start]")),
        ("start", instead("--allow-private-targets", "UNSET")),
        ("setup", instead("[subscribe]", "[[setup]]\nrequest = \"GET {{ base }}/UNSET\"\n[subscribe]")),
        ("subscribe", instead("POST {{ base }}/v1/subscribers", "POST {{ base }}/UNSET")),
        ("emit", instead("\"atomic\": true", "\"atomic\": UNSET")),
        ("emit", instead("POST {{ base }}/v1/events", "POST {{ base }}/UNSET")),
        ("depth", instead("GET {{ base }}/v1/status?limit=50", "GET {{ base }}/UNSET")),
        ("dead", instead("GET {{ base }}/v1/dead?limit=1000", "GET {{ base }}/UNSET")),
    ];
    for (section, text) in rows {
        check(&text, 64, &[&format!("failed   {section}"), "HOOKPROOF_UNSET is not set"]);
    }
}

#[test]
fn mistakes_have_their_line_and_the_nearest_right_word() {
    let with = |from: &str, to: &str| {
        let text = ours().replacen(from, to, 1);
        assert_ne!(text, ours(), "{from}");
        text
    };
    let line = |text: &str, part: &str| {
        let at = text.lines().position(|line| line.contains(part)).unwrap() + 1;
        format!("driver.toml:{at}: ")
    };
    let rows = [
        ("pointer   = ", "ponter   = ", "ponter: unknown key; did you mean \"pointer\"?"),
        ("[redrive]", "[redirve]", "redirve: unknown key; did you mean \"redrive\"?"),
        ("/{{ id }}/rotate", "/{{ idd }}/rotate", "{{ idd }} is unknown; did you mean {{ id }}?"),
        ("{{ url | tojson }}", "{{ urll | tojson }}", "{{ urll }} is unknown; did you mean {{ url }}?"),
        ("within   = \"30s\"", "within   = \"30\"", "\"30\""),
    ];
    for (from, to, said) in rows {
        let text = with(from, to);
        check(&text, 64, &[said, &line(&text, to)]);
    }
}

#[test]
fn the_answer_is_for_machines_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("driver.toml");
    std::fs::write(&file, ours()).unwrap();
    let (code, said) = hookproof(&["driver", "check", file.to_str().unwrap(), "--json"], &[]);
    let answer: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((code, &answer["code"], &answer["driver"]), (Some(0), &0.into(), &"hookproof".into()));
    let steps: Vec<&str> =
        answer["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    let expected = [
        "start",
        "setup",
        "subscribe",
        "emit",
        "deliver",
        "verify",
        "payload",
        "depth",
        "dead",
        "unsubscribe",
        "stop",
    ];
    assert_eq!(steps, expected);
}

/// The sender never gets ready. Waits until it was started. The shell runs `traps` first.
fn waiting(folder: &std::path::Path, traps: &str) -> Child {
    let (file, started) = (folder.join("driver.toml"), folder.join("started"));
    let script = format!("{traps} touch '{}'; exec sleep 60", started.display());
    let text = format!(
        "name = \"x\"\nstart = {{ command = [\"/bin/sh\", \"-c\", \"{script}\"], ready = \"{{{{ base }}}}/\" }}\n\
         subscribe = {{ request = \"POST {{{{ base }}}}/\" }}\nemit = {{ request = \"POST {{{{ base }}}}/\", body = \"\" }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(["driver", "check"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !started.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
}

#[test]
fn somebody_who_ends_it_is_told_so_by_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let child = waiting(folder.path(), "");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("failed   end          interrupted"), "{said}");
}

#[test]
fn somebody_who_ends_it_at_once_is_told_so_too() {
    let folder = tempfile::tempdir().unwrap();
    // This leaves time for a second signal.
    let mut child = waiting(folder.path(), "trap '' TERM;");
    interrupt(&child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("interrupt again to stop at once"), "{said}");
    interrupt(&child);
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("hookproof driver check: interrupted"), "{said}");
}
