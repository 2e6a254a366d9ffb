use std::io::Write as _;

use hookproof_verify::Profile;

use crate::signing::{Headers, OTHER, SECRET, URL, hex, linear_body, sign, signs_any_body, tag};
use crate::wire::{answer, connect, head, request};
use crate::world::{Receiver, Starting, World, command, now, signed};

const BODY: &[u8] = br#"{"id":"evt_1","data":{}}"#;

#[test]
fn genuine_deliveries_of_every_profile_are_kept_and_worked_on() {
    for profile in Profile::ALL.into_iter().filter(signs_any_body) {
        let world = World::new();
        let receiver = world.serve(&["--profile", profile.name(), "--url", URL]);
        let body = linear_body(now(), "");
        let path = if profile.signs_url() { "/in?tenant=7" } else { "/any/path?at=all" };
        let post =
            |path: &str, headers: &Headers| request(receiver.address, "POST", path, headers, &body).status;
        let headers = sign(profile, SECRET, "evt_1", now(), &body);
        if profile.signs_url() {
            assert_eq!(post("/other?tenant=7", &headers), 401, "{profile}");
        }
        assert_eq!(post(path, &headers), 204, "{profile}");
        assert_eq!(post(path, &sign(profile, OTHER, "evt_2", now(), &body)), 401, "{profile}");
        assert_eq!(world.settled_effects(), ["evt_1"], "{profile}");
    }
}

#[test]
fn only_post_is_offered_but_for_health() {
    let receiver = World::new().serve(&[]);
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let answer = request(receiver.address, method, "/hook", &signed("a", BODY), BODY);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    let health = request(receiver.address, "GET", "/healthz", &[], b"");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
}

/// Neither it nor a forged one is stored.
#[test]
fn a_handshake_is_answered_once_it_is_proved_and_is_no_event() {
    let zoom = |token: &str| {
        let tag = hex(&tag(Profile::Zoom, SECRET, &[token.as_bytes()]));
        format!("{{\"encryptedToken\":\"{tag}\",\"plainToken\":\"{token}\"}}")
    };
    let rows = [
        (
            Profile::Slack,
            r#"{"token":"t","challenge":"3eZbrw","type":"url_verification"}"#,
            "3eZbrw".to_owned(),
        ),
        (
            Profile::Zoom,
            r#"{"payload":{"plainToken":"qgg8"},"event":"endpoint.url_validation"}"#,
            zoom("qgg8"),
        ),
        (Profile::Discord, r#"{"application_id":"1","id":"2","type":1}"#, r#"{"type":1}"#.to_owned()),
    ];
    for (profile, body, expected) in rows {
        let (world, body) = (World::new(), body.as_bytes());
        let receiver = world.serve(&["--profile", profile.name()]);
        let send = |secret: &str, body: &[u8]| {
            let answer =
                request(receiver.address, "POST", "/", &sign(profile, secret, "a", now(), body), body);
            (answer.status, answer.body)
        };
        assert_eq!(send(OTHER, body).0, 401, "{profile}");
        assert_eq!(send(SECRET, body), (200, expected), "{profile}");
        assert_eq!(send(SECRET, BODY).0, 204, "{profile}");
        assert_eq!(world.settled_effects(), ["evt_1"], "{profile}");
    }
    let world = World::new();
    let receiver = world.serve(&["--profile", "slack"]);
    let body = br#"{"type":"url_verification","challenge":"a b"}"#;
    let headers = sign(Profile::Slack, SECRET, "a", now(), body);
    let answer = request(receiver.address, "POST", "/", &headers, body);
    let refusal = "the handshake's challenge is missing, repeated or malformed; expected up to 256 visible characters\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, refusal));
    assert_eq!(world.settled_effects(), [""; 0]);
}

#[test]
fn a_handshake_in_a_query_is_proved_by_its_token() {
    let path =
        |token: &str| format!("/hook?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={token}");
    let get = |receiver: &Receiver, path: &str| {
        let answer = request(receiver.address, "GET", path, &[], b"");
        (answer.status, answer.body)
    };
    let receiver = World::new().serve(&["--profile", "meta", "--verify-token-env", "VERIFY_TOKEN"]);
    assert_eq!(get(&receiver, &path("let%20me+in")), (200, "1158201444".to_owned()));
    assert_eq!(get(&receiver, &path("let")), (403, "the handshake's hub.verify_token is wrong\n".to_owned()));
    assert_eq!(get(&receiver, "/hook?hub.mode=subscribe").0, 400);
    assert_eq!(get(&receiver, "/hook?page=1").0, 405);
    let headers = sign(Profile::Meta, SECRET, "a", now(), BODY);
    assert_eq!(request(receiver.address, "POST", "/hook", &headers, BODY).status, 204);
    let without = World::new().serve(&["--profile", "meta"]);
    assert_eq!(get(&without, &path("")).0, 403);
    let other = World::new().serve(&["--profile", "github"]);
    assert_eq!(get(&other, &path("let%20me+in")).0, 405);
}

#[test]
fn permission_is_granted_by_options_to_an_allowed_origin() {
    let options = |receiver: &Receiver, origin: &str| {
        let headers = [("webhook-request-origin", origin.as_bytes().to_vec())];
        let answer = request(receiver.address, "OPTIONS", "/hook", &headers, b"");
        let [origin, rate] = ["webhook-allowed-origin", "webhook-allowed-rate"]
            .map(|name| answer.header(name).map(str::to_owned));
        (answer.status, origin, rate)
    };
    let granted = |origin: &str, rate: &str| (200, Some(origin.to_owned()), Some(rate.to_owned()));
    let receiver = World::new().serve(&[
        "--allow-origin",
        "a.example",
        "--allow-origin",
        "b.example",
        "--allow-rate",
        "120",
    ]);
    assert_eq!(options(&receiver, "b.example"), granted("b.example", "120"));
    assert_eq!(options(&receiver, "c.example"), (403, None, None));
    assert_eq!(request(receiver.address, "OPTIONS", "/hook", &[], b"").status, 405);
    assert_eq!(receiver.post("a", BODY).status, 204);
    let any = World::new().serve(&["--profile", "github", "--allow-origin", "*"]);
    assert_eq!(options(&any, "c.example"), granted("c.example", "*"));
    assert_eq!(options(&World::new().serve(&[]), "a.example"), (405, None, None));
}

#[test]
fn a_refusal_names_the_rule_and_nothing_else() {
    let receiver = World::new().serve(&[]);
    let mut headers = signed("a", BODY);
    headers[2].1 = b"v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_vec();
    let answer = request(receiver.address, "POST", "/", &headers, BODY);
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Signature")));
    assert_eq!(answer.body, "no signature matches; check the secret, and that the body is the raw one\n");
}

#[test]
fn a_forged_request_is_not_parsed() {
    let receiver = World::new().serve(&[]);
    let bodies = [&b"{}"[..], b"{", b"\xff", &[b'['; 100_000]];
    let answers = bodies.map(|body| {
        let mut headers = signed("a", body);
        headers[2].1 = b"v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_vec();
        let answer = request(receiver.address, "POST", "/", &headers, body);
        (answer.status, answer.body)
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    for (number, body) in bodies.iter().enumerate() {
        assert_eq!(receiver.post(&number.to_string(), body).status, 204, "it is signed, so it is kept");
    }
}

#[test]
fn a_body_may_come_one_byte_at_a_time() {
    let receiver = World::new().serve(&[]);
    let mut stream = connect(receiver.address);
    let mut request = head("POST", "/", &signed("a", BODY));
    request.extend(b"transfer-encoding: chunked\r\n\r\n");
    stream.write_all(&request).unwrap();
    for byte in BODY {
        stream.write_all(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(answer(stream).unwrap().status, 204);
}

#[test]
fn an_encoded_body_is_bytes_and_is_not_inflated() {
    let receiver = World::new().serve(&[]);
    let body = b"\x1f\x8b\x08\x00 not even gzip";
    let mut headers = signed("a", body);
    headers.push(("content-encoding", b"gzip".to_vec()));
    assert_eq!(request(receiver.address, "POST", "/", &headers, body).status, 204);
}

#[test]
fn effects_are_listed_on_a_listener_of_their_own() {
    let world = World::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let receiver = world.serve(&["--effects-listen", &free.to_string()]);
    assert_eq!(request(free, "GET", "/effects", &[], b"").body, "");
    receiver.post("a", BODY);
    receiver.post("b", BODY);
    world.settled_effects();
    let listed = request(free, "GET", "/effects", &[], b"");
    assert_eq!((listed.status, listed.body.as_str()), (200, "a\nb\n"));
    assert_eq!(request(free, "POST", "/effects", &signed("a", BODY), BODY).status, 405);
    assert_eq!(request(receiver.address, "GET", "/effects", &[], b"").status, 405);
    drop(receiver);
    let listed = command(&["effects", "--db", world.database().to_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "a\nb\n");
}

#[test]
fn a_stop_lets_what_is_under_way_finish() {
    let world = World::new();
    let mut receiver = world.serve(&[]);
    let mut stream = connect(receiver.address);
    let mut request = head("POST", "/", &signed("a", BODY));
    request.extend(format!("content-length: {}\r\nexpect: 100-continue\r\n\r\n", BODY.len()).into_bytes());
    stream.write_all(&request).unwrap();
    let mut go_on = [0; 25];
    std::io::Read::read_exact(&mut stream, &mut go_on).unwrap();
    receiver.terminate();
    while std::net::TcpStream::connect(receiver.address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(BODY).unwrap();
    assert_eq!(answer(stream).unwrap().status, 204);
    assert_eq!(receiver.wait().code(), Some(0));
    let again = world.serve(&[]);
    assert_eq!(world.settled_effects(), ["a"]);
    drop(again);
}

#[test]
fn bad_command_lines_say_what_is_wrong() {
    #[track_caller]
    fn check(arguments: &[&str], expected: &str) {
        let output = command(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{told}");
        assert!(told.contains(expected), "{told}");
        assert!(output.stdout.is_empty());
    }
    let world = World::new();
    let database = world.database();
    let serve = ["serve", "--db", database.to_str().unwrap(), "--secret-env", "HOOK_SECRET"];
    let with = |more: &[&'static str]| [&serve[..], more].concat();
    check(&with(&["--profile", "none"]), "expected one of standard-webhooks");
    check(
        &with(&["--profile", "square"]),
        "square signs the URL that the sender was given; expected it in --url",
    );
    check(&with(&["--secret-env", "HOOK_MISSING"]), "HOOK_MISSING is not set");
    check(&with(&["--secret-env", "PATH"]), "needs whsec_");
    check(&with(&["--verify-token-env", "VERIFY_TOKEN"]), "standard-webhooks has no verify token; expected");
    check(&with(&["--profile", "meta", "--verify-token-env", "HOOK_MISSING"]), "HOOK_MISSING is not set");
    check(&with(&["--effects-listen", "0.0.0.0:1"]), "reachable from other machines");
    check(&with(&["--bodies-max", "1MiB"]), "at least --body-max");
    check(&with(&["--tolerance", "5"]), "expected a number and its unit");
    check(&["effects", "--db", "/nowhere/inbox.db"], "there is no inbox");
    std::fs::write(world.database(), "something else, and long enough to be seen as that").unwrap();
    let output = command(&serve).output().unwrap();
    assert!([Some(64), Some(70)].contains(&output.status.code()), "{output:?}");
}

#[test]
fn one_file_is_one_process() {
    let world = World::new();
    let first = world.serve(&[]);
    let database = world.database();
    let arguments = [
        "serve",
        "--db",
        database.to_str().unwrap(),
        "--secret-env",
        "HOOK_SECRET",
        "--start-within",
        "100ms",
    ];
    let second = command(&arguments).output();
    let told = String::from_utf8(second.unwrap().stderr).unwrap();
    assert!(told.contains("in use by another receiver"), "{told}");
    assert_eq!(first.post("a", BODY).status, 204);
}

#[test]
fn a_receiver_waits_for_the_one_before_it_to_end() {
    let world = World::new();
    let mut first = world.serve(&[]);
    let database = world.database();
    let arguments = ["serve", "--db", database.to_str().unwrap(), "--start-within", "10m"];
    assert_eq!(first.post("a", BODY).status, 204);
    let mut next = Starting::at(&first.address.to_string(), &arguments);
    next.find_log_line("waiting for the previous receiver");
    first.kill();
    let next = next.listening();
    assert_eq!(next.address, first.address);
    assert_eq!(next.post("b", BODY).status, 204);
    assert_eq!(world.settled_effects(), ["a", "b"]);
}

#[test]
fn an_address_that_is_taken_is_said() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let database = world.database();
    let arguments = ["serve", "--db", database.to_str().unwrap(), "--secret-env", "HOOK_SECRET", "--listen"];
    let output = command(&[&arguments[..], &[&address, "--start-within", "50ms"]].concat()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{told}");
    assert!(told.contains("choose another address"), "{told}");
}

#[test]
fn both_keys_are_good_during_a_rotation() {
    let database = World::new();
    let path = database.database();
    let receiver = Receiver::start(&["serve", "--db", path.to_str().unwrap(), "--secret-env", "HOOK_SECRET"]);
    assert_eq!(receiver.post("a", BODY).status, 204);
}
