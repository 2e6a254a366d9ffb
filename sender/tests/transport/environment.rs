use std::env;
use std::process::Command;

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{check, post, transport};

const NAME: &str = "transport::environment::proxies_of_the_environment_are_ignored";
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    let nowhere = "http://127.0.0.1:1";
    if PROXIES.iter().all(|name| env::var(name).as_deref() == Ok(nowhere)) {
        let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
        check(&post(endpoint.url()).through(&transport()).await, "answered 204");
        return;
    }
    // A process cannot safely change its own environment.
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", NAME]).envs(PROXIES.map(|name| (name, nowhere))).env_remove("no_proxy");
    let output = again.env_remove("NO_PROXY").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
