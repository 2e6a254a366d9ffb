use hookproof_verify::Profile;

use crate::signing::{SECRET, sign};
use crate::upstream::upstream;
use crate::wire::request;
use crate::world::{Receiver, now, signed};

const BODY: &[u8] = b"{ \"id\" : 1.0 }\n\xff";
const GOOD: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\nset-cookie: a=b\r\n\r\nkept\n";
const LATER: &str = "HTTP/1.1 429 Too Many\r\nretry-after: 17\r\ncontent-length: 0\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n";
const MOVED: &str = "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n";

fn relay(to: std::net::SocketAddr, arguments: &[&str]) -> Receiver {
    let to = format!("http://{to}/inside?x=1");
    Receiver::start(&[&["relay", "--to", &to], arguments].concat())
}

#[test]
fn a_genuine_request_is_forwarded_unchanged() {
    let (address, requests) = upstream(vec![GOOD]);
    let relay = relay(address, &[]);
    let mut headers = signed("a", BODY);
    headers.extend([
        ("x-own", b"kept".to_vec()),
        ("x-hop", b"gone".to_vec()),
        ("connection", b"x-hop".to_vec()),
    ]);
    let answer = request(relay.address, "POST", "/hook", &headers, BODY);
    assert_eq!((answer.status, answer.body.as_str(), answer.header("set-cookie")), (202, "kept\n", None));
    let came = requests.recv().unwrap();
    assert_eq!(came.line, "POST /inside?x=1 HTTP/1.1");
    assert_eq!(came.body, BODY);
    for (name, value) in signed("a", BODY) {
        assert!(name == "webhook-signature" || came.header(name) == str::from_utf8(&value).ok(), "{name}");
    }
    assert_eq!(came.header("host"), Some(address.to_string().as_str()));
    assert_eq!(
        (came.header("x-own"), came.header("x-hop"), came.header("connection")),
        (Some("kept"), None, None)
    );
}

/// Its target need not know the provider.
#[test]
fn a_handshake_is_answered_and_not_forwarded() {
    let (address, _) = upstream(vec![GOOD]);
    let slack = relay(address, &["--profile", "slack"]);
    let body = br#"{"challenge":"3eZbrw","type":"url_verification"}"#;
    let answer = request(slack.address, "POST", "/", &sign(Profile::Slack, SECRET, "a", now(), body), body);
    assert_eq!((answer.status, answer.body.as_str()), (200, "3eZbrw"));
    let meta = relay(address, &["--profile", "meta", "--verify-token-env", "VERIFY_TOKEN", "--path", "/in"]);
    let query = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=let+me+in";
    let answer = |path| request(meta.address, "GET", &format!("{path}?{query}"), &[], b"").status;
    assert_eq!((answer("/in"), answer("/out")), (200, 405));
}

#[test]
fn a_repeat_gets_the_same_status_and_is_not_forwarded() {
    let (address, requests) = upstream(vec![GOOD, GOOD]);
    let relay = relay(address, &[]);
    let statuses: Vec<_> = (0..3).map(|_| relay.post("a", BODY).status).collect();
    assert_eq!(statuses, [202, 202, 202]);
    assert_eq!(relay.post("b", BODY).status, 202);
    let came: Vec<_> =
        requests.iter().map(|request| request.header("webhook-id").unwrap().to_owned()).collect();
    assert_eq!(came, ["a", "b"]);
}

#[test]
fn copies_at_once_are_forwarded_once() {
    let (address, requests) = upstream(vec![GOOD]);
    let relay = relay(address, &[]);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(relay.post("a", BODY).status, 202));
        }
    });
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn a_failed_answer_is_passed_back_and_not_remembered() {
    let (address, requests) = upstream(vec![LATER, BROKEN, MOVED, GOOD]);
    let relay = relay(address, &[]);
    let answer = relay.post("a", BODY);
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("17")));
    assert_eq!(relay.post("a", BODY).status, 500);
    assert_eq!(relay.post("a", BODY).status, 302);
    assert_eq!(relay.post("a", BODY).status, 202);
    assert_eq!(requests.iter().count(), 4);
}

#[test]
fn the_other_side_may_be_gone_or_silent() {
    let (address, requests) = upstream(vec![""]);
    let relay = relay(address, &["--timeout", "200ms"]);
    assert_eq!(relay.post("a", BODY).status, 504);
    assert_eq!(requests.iter().count(), 1, "nobody listens any more");
    assert_eq!(relay.post("a", BODY).status, 502);
}

#[test]
fn a_status_counts_though_its_body_never_ends() {
    let (address, requests) = upstream(vec!["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab…"]);
    let relay = relay(address, &[]);
    let answer = relay.post("a", BODY);
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(relay.post("a", BODY).status, 200);
    assert_eq!(requests.iter().count(), 1, "it was taken, and is not forwarded again");
}

#[test]
fn a_forged_request_is_not_forwarded() {
    let (address, requests) = upstream(vec![GOOD]);
    let relay = relay(address, &["--path", "/hook"]);
    let mut forged = signed("a", BODY);
    forged[2].1 = b"v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_vec();
    assert_eq!(request(relay.address, "POST", "/hook", &forged, BODY).status, 401);
    forged[1].1 = b"+1".to_vec();
    assert_eq!(request(relay.address, "POST", "/hook", &forged, BODY).status, 400);
    assert_eq!(request(relay.address, "POST", "/elsewhere", &signed("a", BODY), BODY).status, 404);
    let answer = request(relay.address, "GET", "/hook", &[], b"");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(request(relay.address, "GET", "/healthz", &[], b"").status, 200);
    assert_eq!(relay.post("a", BODY).status, 202);
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn a_header_that_is_missing_or_empty_is_a_bad_request_and_a_wrong_signature_is_not() {
    let (address, requests) = upstream(vec![GOOD]);
    let relay = relay(address, &[]);
    let status = |headers: &[_]| request(relay.address, "POST", "/hook", headers, BODY).status;
    for missing in 0..3 {
        let mut headers = signed("a", BODY);
        headers[missing].1.clear();
        assert_eq!(status(&headers), 400, "{} is empty", headers[missing].0);
        let (name, _) = headers.remove(missing);
        assert_eq!(status(&headers), 400, "{name} is missing");
    }
    let mut headers = signed("a", BODY);
    headers[2].1 = b"v1,not base64".to_vec();
    assert_eq!(status(&headers), 401, "no signature that can be read");
    assert_eq!(relay.post("a", BODY).status, 202);
    assert_eq!(requests.iter().count(), 1);
}

#[test]
fn urls_that_cannot_be_forwarded_to_are_refused() {
    for to in ["ftp://a/", "not a url", "http://user:secret@a/"] {
        let output =
            crate::world::command(&["relay", "--secret-env", "HOOK_SECRET", "--to", to]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{told}");
        assert!(told.contains("cannot forward to"), "{told}");
    }
}
