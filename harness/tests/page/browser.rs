use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

pub(crate) fn demanded(what: &str, why: &str) {
    let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
    assert!(!demands.split(',').any(|demand| demand == what), "{why}");
    eprintln!("skipped: {why}");
}

/// `HOOKPROOF_CHROMIUM`, or the first browser on the `PATH`.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os("HOOKPROOF_CHROMIUM") {
        return Some(told.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    places.find(|place| place.is_file())
}

pub(crate) fn run(program: &Path, profile: &Path, arguments: &[String]) -> Output {
    let user = format!("--user-data-dir={}", profile.display());
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"])
        .args(["--enable-logging=stderr", &user])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("coreutils' timeout starts")
}
