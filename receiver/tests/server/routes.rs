use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::Write as _;
use std::iter::repeat;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use hookproof_verify::Profile;
use tempfile::TempDir;

use crate::signing::{Headers, OTHER, SECRET, sign};
use crate::upstream::{Request, upstream};
use crate::wire::{Answer, HANGS, answer, connect, head, request};
use crate::world::{Receiver, Starting, command, now};

const BODY: &[u8] = b"{ \"id\" : 1.0 }\n";
const GOOD: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\n\r\nkept\n";
const FULL: &str = "HTTP/1.1 503 No\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
const UNTIL: &str =
    "HTTP/1.1 429 No\r\nretry-after: Fri, 31 Dec 2027 23:59:59 GMT\r\ncontent-length: 0\r\n\r\n";

struct File {
    folder: TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("routes.toml")
    }

    fn write(&self, text: &str) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.path()).unwrap();
    }

    fn relay(&self, arguments: &[&str]) -> Receiver {
        relay(&self.path(), arguments)
    }
}

fn relay(file: &Path, arguments: &[&str]) -> Receiver {
    let fixed = ["relay", "--routes", file.to_str().unwrap()];
    Starting::with_routes("127.0.0.1:0", &[&fixed, arguments].concat()).listening()
}

/// The subscriber signs as `vvv-frozen`.
fn route(subscriber: &str, to: SocketAddr, secret: &str) -> String {
    format!(
        "[routes.{subscriber}]\nto = \"http://{to}/{subscriber}\"\nprofile = \"vvv-frozen\"\nsecrets = [\"{secret}\"]\n"
    )
}

fn frozen(subscriber: &str, id: &str, secret: &str) -> Headers {
    let mut headers = sign(Profile::VvvFrozen, secret, id, now(), BODY);
    set(&mut headers, "x-vvv-subscriber", subscriber);
    headers
}

fn set(headers: &mut Headers, name: &str, value: &str) {
    headers.iter_mut().find(|(known, _)| *known == name).unwrap().1 = value.as_bytes().to_vec();
}

fn without(mut headers: Headers, name: &str) -> Headers {
    headers.retain(|(known, _)| *known != name);
    headers
}

fn post(relay: &Receiver, headers: &Headers) -> Answer {
    request(relay.address, "POST", "/hook", headers, BODY)
}

fn ids(requests: &mpsc::Receiver<Request>) -> Vec<String> {
    requests.try_iter().map(|request| request.header("x-vvv-delivery-id").unwrap().to_owned()).collect()
}

#[test]
fn each_subscriber_has_its_own_target_secrets_and_profile() {
    let ((first, to_first), (second, to_second)) = (upstream(vec![GOOD]), upstream(vec![GOOD, GOOD]));
    let file = File::new(&format!(
        "{}[routes.\"b.2\"]\nto = \"http://{second}/b?x=1\"\nsecrets = [\"{SECRET}\", \"{OTHER}\"]\n",
        route("a", first, SECRET)
    ));
    let relay = file.relay(&[]);
    let standard = |secret| {
        let mut headers = sign(Profile::StandardWebhooks, secret, secret, now(), BODY);
        headers.push(("x-vvv-subscriber", b"b.2".to_vec()));
        headers
    };
    assert_eq!(post(&relay, &frozen("a", "1", SECRET)).status, 202);
    assert_eq!(post(&relay, &frozen("a", "2", OTHER)).status, 401, "that is another's secret");
    assert_eq!(post(&relay, &frozen("b.2", "3", SECRET)).status, 400, "that is another's profile");
    assert_eq!(post(&relay, &standard(SECRET)).status, 202);
    assert_eq!(post(&relay, &standard(OTHER)).status, 202);
    let lines = |requests: mpsc::Receiver<Request>| -> Vec<_> {
        requests.iter().map(|request| (request.line, request.body == BODY)).collect()
    };
    assert_eq!(lines(to_first), [("POST /a HTTP/1.1".to_owned(), true)]);
    assert_eq!(lines(to_second), vec![("POST /b?x=1 HTTP/1.1".to_owned(), true); 2]);
}

#[test]
fn each_mistake_has_its_status() {
    let (address, requests) = upstream(vec![GOOD]);
    let relay = File::new(&route("a", address, SECRET)).relay(&[]);
    let good = || frozen("a", "1", SECRET);
    let with = |name, value| {
        let mut headers = good();
        set(&mut headers, name, value);
        headers
    };
    let twice = |name| [good(), vec![(name, b"a".to_vec())]].concat();
    let unknown_and_unsigned = without(frozen("z", "1", SECRET), "x-vvv-signature");
    let rows = [
        (400, "no header at all", Headers::new()),
        (400, "no id", without(good(), "x-vvv-delivery-id")),
        (400, "no signature", without(good(), "x-vvv-signature")),
        (400, "an empty signature", with("x-vvv-signature", "")),
        (400, "an id with a blank", with("x-vvv-delivery-id", "a b")),
        (400, "two ids", twice("x-vvv-delivery-id")),
        (400, "two subscribers", twice("x-vvv-subscriber")),
        (400, "an empty subscriber", with("x-vvv-subscriber", "")),
        (400, "a subscriber with a blank", with("x-vvv-subscriber", "a b")),
        (400, "an unknown subscriber and no signature", unknown_and_unsigned),
        (401, "a wrong signature", frozen("a", "1", OTHER)),
        (401, "a signature that is none", with("x-vvv-signature", "zz")),
        (404, "an unknown subscriber", frozen("z", "1", SECRET)),
        (404, "no subscriber", without(good(), "x-vvv-subscriber")),
    ];
    for (status, what, headers) in rows {
        let answer = post(&relay, &headers);
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
    }
    let answer = request(relay.address, "PUT", "/hook", &good(), BODY);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(post(&relay, &good()).status, 202);
    assert_eq!(ids(&requests), ["1"]);
}

#[test]
fn a_refused_client_hears_of_it_though_its_body_is_long() {
    let relay = File::new(&route("a", "127.0.0.1:9".parse().unwrap(), SECRET)).relay(&[]);
    let body = vec![b'x'; 8 << 20];
    assert_eq!(request(relay.address, "POST", "/", &frozen("z", "1", SECRET), &body).status, 404);
    assert_eq!(request(relay.address, "POST", "/", &frozen("a", "1", SECRET), &body).status, 413);
}

#[test]
fn a_sender_without_the_header_is_known_by_its_path() {
    let (address, requests) = upstream(vec![GOOD]);
    let file = File::new(&format!("{}path = \"/hooks/a\"\n", route("a", address, SECRET)));
    let relay = file.relay(&[]);
    let headers = without(frozen("a", "1", SECRET), "x-vvv-subscriber");
    assert_eq!(request(relay.address, "POST", "/hooks/b", &headers, BODY).status, 404);
    assert_eq!(request(relay.address, "POST", "/hooks/a", &headers, BODY).status, 202);
    let unknown = frozen("z", "1", SECRET);
    assert_eq!(request(relay.address, "POST", "/hooks/a", &unknown, BODY).status, 404, "the header counts");
    assert_eq!(ids(&requests), ["1"]);
}

#[test]
fn ids_are_known_within_their_route() {
    let ((first, to_first), (second, to_second)) = (upstream(vec![GOOD]), upstream(vec![GOOD]));
    let relay = File::new(&(route("a", first, SECRET) + &route("b", second, OTHER))).relay(&[]);
    for _ in 0..2 {
        assert_eq!(post(&relay, &frozen("a", "1", SECRET)).status, 202);
        assert_eq!(post(&relay, &frozen("b", "1", OTHER)).status, 202);
    }
    assert_eq!((to_first.iter().count(), to_second.iter().count()), (1, 1));
}

#[test]
fn the_upstreams_retry_after_is_passed_back_and_each_route_has_its_own_timeout() {
    let (first, _requests) = upstream(vec![FULL, UNTIL]);
    let (second, _others) = upstream(vec![""]);
    let slow = format!("{}timeout = \"200ms\"\n", route("b", second, SECRET));
    let relay = File::new(&(route("a", first, SECRET) + &slow)).relay(&["--timeout", "10m"]);
    let told = |answer: Answer| (answer.status, answer.header("retry-after").map(str::to_owned));
    let sent = || post(&relay, &frozen("a", "1", SECRET));
    assert_eq!(told(sent()), (503, Some("7".to_owned())));
    assert_eq!(told(sent()), (429, Some("Fri, 31 Dec 2027 23:59:59 GMT".to_owned())));
    assert_eq!(post(&relay, &frozen("b", "1", SECRET)).status, 504);
}

#[test]
fn a_target_that_hangs_takes_its_own_places_alone() {
    let ((hanging, _held), (well, _requests)) = (upstream(vec![""]), upstream(vec![GOOD]));
    let file = File::new(&(route("a", hanging, SECRET) + &route("b", well, SECRET)));
    let mut relay = file.relay(&["--timeout", "10m"]);
    let (told, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for id in 0..65 {
            let mut bytes = head("POST", "/", &frozen("a", &id.to_string(), SECRET));
            bytes.extend(format!("content-length: {}\r\n\r\n", BODY.len()).into_bytes());
            bytes.extend(BODY);
            let (mut stream, told) = (connect(relay.address), told.clone());
            stream.write_all(&bytes).unwrap();
            // Most get no answer before the relay ends.
            scope.spawn(move || drop(told.send(answer(stream))));
        }
        let refused = answers.recv_timeout(HANGS).unwrap().unwrap();
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        assert_eq!(post(&relay, &frozen("b", "1", SECRET)).status, 202);
        relay.kill();
    });
}

#[test]
fn a_changed_file_is_followed_and_ids_stay_known() {
    let ((old, to_old), (new, to_new)) = (upstream(vec![GOOD, GOOD]), upstream(vec![GOOD, GOOD]));
    let file = File::new(&(route("a", old, SECRET) + &route("gone", old, SECRET)));
    let relay = file.relay(&[]);
    for subscriber in ["a", "gone"] {
        assert_eq!(post(&relay, &frozen(subscriber, "1", SECRET)).status, 202);
    }
    assert_eq!(post(&relay, &frozen("b", "1", OTHER)).status, 404);
    file.write(&(route("a", new, OTHER) + &route("b", new, OTHER)));
    relay.hang_up();
    relay.find_log_line("the new routes are in use");
    assert_eq!(post(&relay, &frozen("a", "1", OTHER)).status, 202, "a repeat");
    assert_eq!(post(&relay, &frozen("a", "2", SECRET)).status, 401, "the old secret");
    assert_eq!(post(&relay, &frozen("a", "2", OTHER)).status, 202);
    assert_eq!(post(&relay, &frozen("b", "1", OTHER)).status, 202);
    assert_eq!(post(&relay, &frozen("gone", "2", SECRET)).status, 404);
    assert_eq!((ids(&to_old), ids(&to_new)), (vec!["1".into(), "1".into()], vec!["2".into(), "1".into()]));
}

#[test]
fn a_changed_file_is_noticed_without_a_signal() {
    let (address, _requests) = upstream(vec![GOOD]);
    let file = File::new(&route("a", address, SECRET));
    let relay = file.relay(&[]);
    file.write(&route("another", address, SECRET));
    relay.find_log_line("the new routes are in use");
    assert_eq!(post(&relay, &frozen("a", "1", SECRET)).status, 404);
    assert_eq!(post(&relay, &frozen("another", "1", SECRET)).status, 202);
}

#[test]
fn a_broken_file_is_refused_while_the_old_routes_stay() {
    let (address, _requests) = upstream(vec![GOOD, GOOD, GOOD]);
    let file = File::new(&route("a", address, SECRET));
    let relay = file.relay(&[]);
    file.write(&format!("{}tmeout = \"8s\"\n", route("a", address, SECRET)));
    relay.hang_up();
    let told = relay.find_log_line("the old routes stay");
    assert!(told.contains("line 5") && told.contains("tmeout") && told.contains("routes.toml"), "{told}");
    assert_eq!(post(&relay, &frozen("a", "1", SECRET)).status, 202);
    std::fs::remove_file(file.path()).unwrap();
    relay.hang_up();
    let told = relay.find_log_line("the old routes stay");
    assert!(told.contains("cannot read the routes"), "{told}");
    assert_eq!(post(&relay, &frozen("a", "2", SECRET)).status, 202);
    file.write(&route("b", address, SECRET));
    relay.hang_up();
    relay.find_log_line("the new routes are in use");
    assert_eq!(post(&relay, &frozen("b", "1", SECRET)).status, 202);
}

#[test]
fn a_file_that_cannot_be_used_is_told_with_its_mistake_and_without_its_secrets() {
    let route = |lines: &str| format!("[routes.a]\n{lines}\n");
    let secrets = format!("secrets = [\"{SECRET}\"]");
    let to = "to = \"http://127.0.0.1:9/\"";
    let rows = [
        (String::new(), "there are 0 routes"),
        ("[routes.a".to_owned(), "line 1"),
        (format!("routes = \"{SECRET}\""), "line 1: expected a map"),
        (route(&secrets), "missing field `to`"),
        (route(to), "secret_env"),
        (route(&format!("{to}\nsecrets = \"{SECRET}\"")), "expected secrets = ["),
        (route(&format!("{to}\nsecrets = [\"{SECRET}\", 5]")), "expected secrets = ["),
        (route(&format!("{to}\nsecrets = []")), "there is no key"),
        (route(&format!("{to}\nsecrets = [\"{}\"]", &SECRET[6..])), "the secret is plain text"),
        (route(&format!("{to}\nsecret_env = [\"NOT_SET\"]")), "NOT_SET is not set"),
        (route(&format!("{to}\n{secrets}\nsecret_env = [\"HOOK_SECRET\"]")), "expected secrets = ["),
        (route(&format!("{to}\n{secrets}\nprofile = \"md5\"")), "not a signing profile"),
        (route(&format!("{to}\n{secrets}\ntimeout = \"8\"")), "timeout: expected a number"),
        (route(&format!("{to}\n{secrets}\npath = \"a\"")), "path: expected a path that begins with /"),
        (route(&format!("to = \"ftp://a/\"\n{secrets}")), "cannot forward to"),
        (format!("[routes.\"a b\"]\n{to}\n{secrets}"), "is not a subscriber name"),
        (
            format!("[routes.a]\n{to}\n{secrets}\npath = \"/x\"\n[routes.b]\n{to}\n{secrets}\npath = \"/x\""),
            "belongs to another route",
        ),
        (format!("{}{to}\n{secrets}", route(&format!("{to}\n{secrets}"))), "duplicate key"),
        (
            (0..1_025).map(|n| format!("[routes.r{n}]\n{to}\n{secrets}\n")).collect(),
            "there are 1025 routes; expected 1 to 1024",
        ),
        ("#".repeat((1 << 20) + 1), "too long; expected at most 1048576 bytes"),
    ];
    for (text, expected) in rows {
        let file = File::new(&text);
        let told = refused(&file.path());
        assert!(told.contains(expected) && told.contains("routes"), "expected {expected:?} in {told:?}");
        assert!(!told.contains(&SECRET[6..]), "{told}");
    }
    let told = refused(Path::new("/dev/null"));
    assert!(told.contains("not a regular file"), "{told}");
}

fn refused(file: &Path) -> String {
    let output = command(&["relay", "--routes", file.to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{told}");
    told
}

#[test]
fn a_file_with_secrets_that_others_may_read_is_told() {
    let (address, _requests) = upstream(vec![GOOD]);
    let file = File::new(&route("a", address, SECRET));
    let logged_with = |mode| {
        std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        let arguments = ["relay", "--routes", file.path().to_str().unwrap()].map(str::to_owned);
        let mut starting = Starting::with_routes("127.0.0.1:0", &arguments.each_ref().map(String::as_str));
        starting.find_log_line("routes")
    };
    assert!(logged_with(0o644).contains("chmod 600"));
    assert!(!logged_with(0o600).contains("chmod 600"));
}

#[test]
fn the_example_is_good() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/routes.toml");
    let relay = relay(&example, &[]);
    let unknown = post(&relay, &frozen("z", "1", SECRET));
    assert_eq!(unknown.status, 404);
}

/// Ends the load when dropped, so that a failed test ends too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_request_is_lost_while_routes_change_under_load() {
    let (one, other) = (upstream(repeat(GOOD)), upstream(repeat(GOOD)));
    let file = File::new(&route("a", one.0, SECRET));
    let relay = file.relay(&[]);
    let over = AtomicBool::new(false);
    let mut came = Vec::new();
    let sent: BTreeSet<String> = std::thread::scope(|scope| {
        let (relay, over) = (&relay, &over);
        let sender = |sender: usize| {
            let ids = (0..).map(move |n| format!("{sender}-{n}"));
            let ids = ids.take_while(|_| !over.load(Ordering::Relaxed));
            ids.inspect(|id| assert_eq!(post(relay, &frozen("a", id, SECRET)).status, 202, "{id}")).collect()
        };
        let senders: Vec<_> =
            (0..4).map(|place| scope.spawn(move || -> Vec<String> { sender(place) })).collect();
        let ending = Ending(over);
        for next in [&other, &one].into_iter().cycle().take(20) {
            came.extend(ids(&next.1));
            file.write(&route("a", next.0, SECRET));
            relay.hang_up();
            relay.find_log_line("the new routes are in use");
            came.push(next.1.recv_timeout(HANGS).unwrap().header("x-vvv-delivery-id").unwrap().to_owned());
        }
        drop(ending);
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    came.extend([&one, &other].into_iter().flat_map(|(_, requests)| ids(requests)));
    assert_eq!(came.len(), sent.len(), "each is forwarded once");
    assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), sent);
}
