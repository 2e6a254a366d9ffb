use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::gate::{combined_output, root, succeeds};

pub(crate) fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

pub(crate) fn archive() -> [PathBuf; 2] {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        // Statics are never dropped, so the folder belongs to the build.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        // Stripped like a release.
        succeeds(Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_hookproof")));
        let mut command = Command::new(root().join("packaging/archive"));
        succeeds(command.arg(&program).arg(target()).arg(&folder));
        folder
    });
    let version = env!("CARGO_PKG_VERSION");
    [format!("hookproof-v{version}-{}.tar.gz", target()), "SHA256SUMS".to_owned()].map(|name| made.join(name))
}

pub(crate) fn releases(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for file in archive() {
        fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
}

fn install(from: &Path, to: &Path) -> std::process::Output {
    let mut command = Command::new(root().join("packaging/install"));
    command.arg("--from").arg(from).arg("--to").arg(to).output().unwrap()
}

#[test]
fn an_archive_is_unpacked_and_one_command_says_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("rel eases"), folder.path().join("to"));
    releases(&from);
    let output = install(&from, &to);
    assert!(output.status.success(), "{}", combined_output(&output));
    for file in [
        "share/man/man1/hookproof-run.1",
        "share/man/man1/hookproof-sender-serve.1",
        "share/bash-completion/completions/hookproof",
        "share/hookproof/scenarios/drivers/svix.toml",
    ] {
        assert!(to.join(file).exists(), "{file} is not installed");
    }
    let program = to.join("bin/hookproof");
    succeeds(Command::new(&program).arg("init").arg(&to));
    let mut command = Command::new(&program);
    command.args(["run", "hookproof/first.toml", "--set", "traffic.0.lasts=1s", "--only", "loss,identity"]);
    command.args(["--skip", "harness"]);
    let verdict = succeeds(command.current_dir(&to));
    assert!(verdict.contains("first: PASS: "), "{verdict}");
}

/// Without TLS an attacker could replace both the archive and its checksum.
#[test]
fn nothing_is_installed_from_an_address_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let ours = format!("file://{}", folder.path().display());
    for from in
        ["http://127.0.0.1:9/releases", "HTTP://127.0.0.1:9/releases", "ftp://127.0.0.1:9/releases", &ours]
    {
        let output = install(Path::new(from), &to);
        let told = combined_output(&output);
        assert!(!output.status.success() && told.contains("expected https://"), "{from}: {told}");
    }
    assert!(!to.exists(), "something was installed");
}

/// The installer requires TLS, so this `curl` answers for one host from files.
pub(crate) fn curl_for(host: &str, files: &Path, tools: &Path) -> PathBuf {
    fs::create_dir(tools).unwrap();
    let script = format!(
        "#!/bin/sh\nfor url in \"$@\"; do :; done\nto=${{url##*/}}\n\
         while [ $# -gt 1 ]; do [ \"$1\" != --output ] || to=$2; shift; done\n\
         exec cp \"{}${{url#{host}}}\" \"$to\"\n",
        files.display()
    );
    fs::write(tools.join("curl"), script).unwrap();
    succeeds(Command::new("chmod").arg("755").arg(tools.join("curl")));
    tools.to_owned()
}

#[test]
fn an_archive_without_an_attestation_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to, tools) =
        (folder.path().join("releases"), folder.path().join("to"), folder.path().join("tools"));
    releases(&from);
    fs::create_dir(&tools).unwrap();
    let tool = |name: &str, text: &str| {
        fs::write(tools.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        succeeds(Command::new("chmod").arg("755").arg(tools.join(name)));
    };
    tool("curl", "while [ $# -gt 2 ]; do shift; done; cp \"$FROM/${2##*/}\" \"$1\"");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let installed = || {
        let mut command = Command::new(root().join("packaging/install"));
        command.args(["--from", "https://github.com/some/one/releases", "--to"]).arg(&to);
        command.env("PATH", &path).env("FROM", &from).output().unwrap()
    };
    tool("gh", "echo \"$@\" >\"$FROM/asked\"; exit 1");
    let output = installed();
    let told = combined_output(&output);
    assert!(!output.status.success() && told.contains("no attestation of a build by some/one"), "{told}");
    assert!(!to.exists(), "something was installed");
    let asked = fs::read_to_string(from.join("asked")).unwrap();
    assert!(asked.starts_with("attestation verify ") && asked.contains("--repo some/one "), "{asked}");
    tool("gh", "exit 0");
    let output = installed();
    assert!(output.status.success(), "{}", combined_output(&output));
}

#[test]
fn an_archive_that_was_changed_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("releases"), folder.path().join("to"));
    releases(&from);
    let path = from.join(archive()[0].file_name().unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = install(&from, &to);
    assert!(
        !output.status.success() && combined_output(&output).contains("not what its checksum says"),
        "{}",
        combined_output(&output)
    );
    assert!(!to.exists(), "something was installed");
}
