use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};

use super::secure::{CONNECT, Front, driver, environment};
use super::{hookproof, ours, shipped};

struct Tunnel {
    outside: u16,
    inside: u16,
    carried: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Tunnel {
    fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let outside = listener.local_addr().unwrap().port();
        let inside = hookproof::driver::free_port().unwrap();
        let carried = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&carried);
        runtime.spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let Ok(mut to) = TcpStream::connect(("127.0.0.1", inside)).await else { return };
                    from.set_nodelay(true).unwrap();
                    to.set_nodelay(true).unwrap();
                    let _ended = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
        Self { outside, inside, carried, _runtime: runtime }
    }

    fn options(&self, url: &str) -> Vec<String> {
        let url = url.replace("PORT", &self.outside.to_string());
        let bind = format!("127.0.0.1:{}", self.inside);
        ["--bind", &bind, "--public-url", &url, "--tls"].map(str::to_owned).to_vec()
    }
}

const BY_PATH: &str = "https://hooks.localhost:PORT/in/{endpoint}";
const BY_HOST: &str = "https://{endpoint}.hooks.localhost:PORT/";

const TRUST: &str = "trust    = [\"--extra-roots\", \"{{ ca }}\"]\n";

const QUIET: &str = r#"
name = "quiet"
drain = "10s"
linger = "500ms"
[[traffic]]
shape = "steady"
rate = "20/s"
lasts = "2s"
[[subscriber]]
name = "one"
count = 2
limit = { rate = "200/s", burst = 100, in_flight = 20 }
retry = { base = "50ms", cap = "100ms", attempts = 2, ttl = "10min" }
"#;

fn run(
    folder: &Path,
    scenario: &str,
    driver: &str,
    more: &[String],
    env: &[(&str, &str)],
) -> (Option<i32>, String) {
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("driver.toml"), driver).unwrap();
    let (driver, out) = (file("driver.toml"), file("out"));
    let arguments = ["run", scenario, "--driver", &driver, "--out", &out];
    let arguments: Vec<&str> = arguments.into_iter().chain(more.iter().map(String::as_str)).collect();
    hookproof(&arguments, env)
}

fn quiet(driver: &str, url: &str) -> (Option<i32>, String) {
    let (folder, tunnel) = (tempfile::tempdir().unwrap(), Tunnel::open());
    let scenario = folder.path().join("quiet.toml");
    std::fs::write(&scenario, QUIET).unwrap();
    let driver = driver.replace("OUTSIDE", &tunnel.outside.to_string());
    run(folder.path(), scenario.to_str().unwrap(), &driver, &tunnel.options(url), &[])
}

#[test]
fn our_sender_is_judged_over_https_alone_through_a_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let (front, tunnel) = (Front::open(folder.path()), Tunnel::open());
    let shorter = ["traffic.0.lasts=2s", "traffic.2.lasts=3s", "fault.0.at=11s", "linger=1s"];
    let shorter = shorter.into_iter().flat_map(|set| ["--set".to_owned(), set.to_owned()]);
    let options: Vec<String> = tunnel.options(BY_PATH).into_iter().chain(shorter).collect();
    let scenario = shipped("scenarios/viral-spike.toml").display().to_string();
    let (code, said) = run(folder.path(), &scenario, &driver(CONNECT), &options, &environment(&front));
    // A busy machine leaves checks open.
    let is_open = code == Some(2) && ["harness.stall", "harness.schedule"].iter().any(|id| said.contains(id));
    assert!(code == Some(0) || is_open, "{code:?}: {said}");
    assert!(
        said.contains("ca.pem") && said.contains("with the public URL https://hooks.localhost"),
        "{said}"
    );
    assert!(tunnel.carried.load(Ordering::SeqCst) > 0, "nothing went through the tunnel");
    assert!(front.tunnels() > 0, "no call went through the front");
}

#[test]
fn endpoints_are_told_apart_by_their_hosts_too() {
    let (code, said) = quiet(&ours(), BY_HOST);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_sender_that_does_not_trust_the_certificate_delivers_nothing_and_the_verdict_says_why() {
    assert!(ours().contains(TRUST));
    let (code, said) = quiet(&ours().replace(TRUST, ""), BY_PATH);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("TLS handshakes failed") && said.contains("UnknownCA"), "{said}");
}

#[test]
fn a_sender_that_calls_another_path_or_nobody_is_caught_and_what_it_called_is_shown() {
    let own = "\"url\": {{ url | tojson }}";
    for (path, shown) in [("in/{{ name }}/more", "expected /in/one-"), ("out/{{ name }}", "POST /out/one-")] {
        let elsewhere = format!("\"url\": \"https://hooks.localhost:OUTSIDE/{path}\"");
        let text = ours().replace(own, &elsewhere);
        assert_ne!(text, ours());
        let (code, said) = quiet(&text, BY_PATH);
        assert!(code == Some(1) && said.contains("path.own") && said.contains(shown), "{code:?}: {said}");
    }
}

#[test]
fn a_driver_is_tried_over_tls_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("driver.toml");
    std::fs::write(&file, ours()).unwrap();
    let (code, said) = hookproof(&["driver", "check", file.to_str().unwrap(), "--tls"], &[]);
    assert!(code == Some(0) && said.contains("an endpoint at https://127.0.0.1:"), "{code:?}: {said}");
    std::fs::write(&file, ours().replace(TRUST, "")).unwrap();
    let (code, said) = hookproof(&["driver", "check", file.to_str().unwrap(), "--tls"], &[]);
    let why = "0 of 3 events arrived within 20 s; a TLS handshake failed: received fatal alert: UnknownCA";
    assert!(code == Some(1) && said.contains(why), "{code:?}: {said}");
}

#[test]
fn an_unreachable_endpoint_is_refused_before_the_run_begins() {
    let scenario = shipped("scenarios/viral-spike.toml").display().to_string();
    let rows: [(&[&str], &str); 4] = [
        (&["--bind", "0.0.0.0"], "no sender can call 0.0.0.0"),
        (&["--public-url", "https://hooks.example.org/{endpoint}"], "expected --bind ADDRESS:PORT"),
        (&["--public-url", "https://hooks.example.org/"], "it must contain {endpoint} exactly once"),
        (&["--tls-cert", "no-such.pem", "--tls-key", "no-such.key"], "no-such.pem cannot be used"),
    ];
    let out = tempfile::tempdir().unwrap();
    for (options, why) in rows {
        let all = [&["run", &scenario, "--out", out.path().to_str().unwrap()], options].concat();
        let (code, said) = hookproof(&all, &[]);
        assert!(code.is_some_and(|code| code == 64 || code == 2) && said.contains(why), "{code:?}: {said}");
    }
}
