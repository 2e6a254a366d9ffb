//! Certifies the reference receiver as a process: every case, strict, with effects, a restart by `kill -9`, and a
//! locked database.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hookproof_judge::signature::Profile;

use crate::suite::{VERIFY_TOKEN, hookproof};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const RETIRED: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A private key, that of `scenarios/vectors/providers/discord.json` and `sendgrid.json`, and its public ones.
pub(crate) const PRIVATE: &str = "whsk_YS1zZWVkLW9mLWFuLWVkMjU1MTktcHJpdmF0ZS1rZXk=";
pub(crate) const PUBLIC: &str = "2615936c343f1dbda94fbf24c9a99c723152c105c69ae4fc9fbd805cb5f5ffc2";
pub(crate) const PUBLIC_P256: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmDgwnuopbGEA0r1ObTZDCX2xkhcOMTfw/GIJvzahy5IInNCU2t+oU6X9veJMAVvletj+MfZKVIidLWBoVR0B1g==";

/// The same key by its thumbprint, as that of `plaid.json`.
pub(crate) const PUBLIC_JWK: &str = r#"{"crv":"P-256","kid":"ATF_g40JMSIkCSUOhyjcAxxS7OIfyt9h_wG0o3q8YBU","kty":"EC","x":"mDgwnuopbGEA0r1ObTZDCX2xkhcOMTfw_GIJvzahy5I","y":"CJzQlNrfqFOl_b3iTAFb5XrY_jH2SlSInS1gaFUdAdY"}"#;

/// That of Ed25519, as in `rfc9421.json`.
pub(crate) const PUBLIC_ED25519_JWK: &str = r#"{"crv":"Ed25519","kid":"ZdR6-jhISyEQqNvymeAp25siGGEYwSBh8-gP_WzRx5w","kty":"OKP","x":"JhWTbDQ_Hb2pT78kyamccjFSwQXGmuT8n72AXLX1_8I"}"#;

/// Of `adyen`, in hexadecimal.
pub(crate) const HEX: &str = "44782dd0b7efb6ae0d5d57ab2b55cd1cc4ca8a31d6a9f1d9b2bbd2d5b7a1f3e8";

/// Of RSA. The public key follows the audience of `paypal`.
pub(crate) const RSA: &str = include_str!("../../../receiver/verify/tests/signing/rsa.key");
pub(crate) const RSA_OTHER: &str = include_str!("../../../receiver/verify/tests/signing/rsa-other.key");
pub(crate) const PUBLIC_RSA: &str = "HOOKPROOF:MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEApdis3RY2IvNhf7Az84ATyIE3oXePNNf22L/iWwCCFe9D/maWVnOrC/uSGF9ZVDr4ywTDn4C3ipEqEu3i81LukzPNPxwGBvZM36I5CTbK/mMLQGtYO6q8GyaJjQMjOm8mrO3J/fSkihJvygng39yDT4jAcgJHmUaTOqpYX8Yqsofhax2W8F2KBKQhcqfJFysMmXCiVPk2Feyya+KolunDnijbCh+Wj5cXJMcF0RM4flRqTozUlXEgPKGZ2lwU4EmRDxOyKxGWqRnkX/nab2OBYYkyn7nKRb0wArqnnCJO5q6+Q+LaU9dAwlpAIfuRERPIYKYb1oZdmK0CajNws0V4XwIDAQAB";

/// A receiver in its own folder, started by a script, until the test ends.
pub(crate) struct Daemon {
    folder: tempfile::TempDir,
    port: u16,
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Daemon {
    pub(crate) fn start(folder: tempfile::TempDir, port: u16, command: &str) -> Self {
        let daemon = Self { folder, port };
        // Kills and starts it in one step, like scripts.
        let start = format!(
            "cd {folder}\n[ -e pid ] && kill -9 $(cat pid)\n{command} >>log 2>&1 </dev/null &\necho $! >pid\n",
            folder = daemon.folder.path().display(),
        );
        std::fs::write(daemon.file("start"), start).unwrap();
        let done = Command::new("sh").arg(daemon.file("start")).status().unwrap();
        assert!(done.success());
        while std::net::TcpStream::connect(("127.0.0.1", daemon.port)).is_err() {
            assert!(daemon.is_alive(), "{command} has ended: {}", daemon.log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        daemon
    }

    pub(crate) fn restart(&self) -> String {
        format!("sh {}", self.file("start").display())
    }

    pub(crate) fn signal(&self, name: &str) -> String {
        format!("kill -{name} $(cat {})", self.file("pid").display())
    }

    /// Sets the soft, or the soft and the hard, limit on the size of its files.
    pub(crate) fn file_limit(&self, limit: &str) -> String {
        format!("prlimit --pid $(cat {}) --fsize={limit}", self.file("pid").display())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks", self.port)
    }

    fn is_alive(&self) -> bool {
        Command::new("sh").args(["-c", &self.signal("0")]).status().unwrap().success()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = Command::new("sh").args(["-c", &self.signal("9")]).status();
    }
}

pub(crate) fn reference(profile: &str) -> (Daemon, String) {
    let (port, effects_port) = (free_port(), free_port());
    let secret = match profile {
        "adyen" => HEX,
        "discord" => PUBLIC,
        "paypal" => PUBLIC_RSA,
        "plaid" => PUBLIC_JWK,
        "sendgrid" => PUBLIC_P256,
        _ => SECRET,
    };
    let (profile, more) = match profile {
        "meta" => (profile, "--verify-token-env VERIFY_TOKEN"),
        "cloudevents" => ("standard-webhooks", "--allow-origin hookproof.example --allow-rate 120"),
        _ => (profile, ""),
    };
    let command = format!(
        "HOOK_SECRET='{secret}' VERIFY_TOKEN='{VERIFY_TOKEN}' nohup {binary} receiver-server serve --profile {profile} --secret-env HOOK_SECRET \
         --url http://127.0.0.1:{port}/hooks --db inbox.db --listen 127.0.0.1:{port} --effects-listen 127.0.0.1:{effects_port} {more}",
        binary = env!("CARGO_BIN_EXE_hookproof"),
    );
    let daemon = Daemon::start(tempfile::tempdir().unwrap(), port, &command);
    (daemon, format!("http://127.0.0.1:{effects_port}/effects"))
}

/// While a `broken` file exists; reported by a `locked` file; until an `end` file exists.
fn lock_when_asked(folder: &Path) {
    let there = |name: &str| folder.join(name).exists();
    let wait = || std::thread::park_timeout(Duration::from_millis(10));
    while !there("end") {
        if there("broken") {
            let database = rusqlite::Connection::open(folder.join("inbox.db")).unwrap();
            database.busy_timeout(Duration::from_secs(10)).unwrap();
            database.execute_batch("BEGIN IMMEDIATE").unwrap();
            std::fs::write(folder.join("locked"), "").unwrap();
            while there("broken") && !there("end") {
                wait();
            }
            database.execute_batch("ROLLBACK").unwrap();
            let _gone = std::fs::remove_file(folder.join("locked"));
        }
        wait();
    }
}

const STANDARDS: [&str; 6] = [
    "--standard",
    "standard-webhooks@1.0",
    "--standard",
    "adcp-webhook-emission@3.1",
    "--standard",
    "a2a-push-notifications@1.0.1",
];
const KEPT: [&str; 3] = [
    "standard-webhooks@1.0: WARN: 7 of 8 must met, 1 not graded; 3 of 3 should met",
    "adcp-webhook-emission@3.1: WARN: 3 of 14 must met, 11 not graded; 0 of 2 should met",
    "a2a-push-notifications@1.0.1: WARN: 2 of 4 must met, 2 not graded; 4 of 7 should met",
];

#[test]
fn the_reference_receiver_passes_every_case_strictly() {
    let (reference, effects) = reference("standard-webhooks");
    let folder = reference.folder.path().to_owned();
    let text = |name: &str| reference.file(name).display().to_string();
    let url = reference.url();
    let restart = reference.restart();
    let break_it = format!("touch {}; until [ -e {} ]; do sleep 0.05; done", text("broken"), text("locked"));
    let mend = format!("rm {}; while [ -e {} ]; do sleep 0.05; done", text("broken"), text("locked"));
    let locker = std::thread::spawn(move || lock_when_asked(&folder));
    let (out, junit, certificates) = (text("out"), text("junit.xml"), text("certificates"));
    let asked: &[&str] = &[
        "receiver",
        &url,
        "--secret-env",
        "HOOK_SECRET",
        "--retired-secret-env",
        "OLD_SECRET",
        "--effects-url",
        &effects,
        "--restart-command",
        &restart,
        "--break-command",
        &break_it,
        "--mend-command",
        &mend,
        "--strict",
        "--out",
        &out,
        "--junit",
        &junit,
        "--certificate",
        &certificates,
    ];
    let output = hookproof(&[asked, &STANDARDS].concat());
    std::fs::write(reference.file("end"), "").unwrap();
    locker.join().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    println!("{table}");
    assert_eq!(output.status.code(), Some(0), "{table}{}", String::from_utf8_lossy(&output.stderr));
    let passed = table.lines().filter(|line| line.starts_with("  PASS")).count();
    let concerned =
        hookproof_judge::catalogue::receiver().iter().filter(|case| case.section() != "handshake");
    assert_eq!(passed, concerned.count(), "{table}");
    let page = std::fs::read_to_string(reference.file("out").join("receiver.html")).unwrap();
    assert!(page.contains("<h1>") && !page.contains(SECRET));
    assert!(std::fs::read_to_string(junit).unwrap().contains("name=\"sig.valid\""));
    assert!(KEPT.iter().all(|kept| table.contains(kept)), "{table}");
    let certificate = |ending: &str| {
        reference
            .file("certificates")
            .join(format!("standard-webhooks@1.0-receiver.{ending}"))
            .display()
            .to_string()
    };
    let verified = || hookproof(&["verify-certificate", &certificate("json")]);
    let line = verified();
    let line = String::from_utf8_lossy(&line.stdout);
    assert!(line.starts_with(&format!("{url} (receiver) by {}", &KEPT[0][..21])), "{line}");
    assert!(std::fs::read_to_string(certificate("svg")).unwrap().contains("WARN 7 of 8"));
    assert!(!std::fs::read_to_string(certificate("html")).unwrap().contains(SECRET));
    let whole = std::fs::read_to_string(certificate("json")).unwrap();
    std::fs::write(certificate("json"), whole.replace("7 of 8", "8 of 8")).unwrap();
    assert_eq!(verified().status.code(), Some(1));
}

/// Its log is a file as well.
#[test]
fn a_receiver_that_can_write_neither_inbox_nor_log_takes_deliveries_again_once_it_can() {
    let (reference, effects) = reference("standard-webhooks");
    let url = reference.url();
    let (break_it, mend) = (reference.file_limit("0:unlimited"), reference.file_limit("unlimited"));
    let arguments = ["receiver", &url, "--secret-env", "HOOK_SECRET", "--effects-url", &effects];
    let hooks = ["--break-command", &break_it, "--mend-command", &mend, "--only", "replay.after-failure"];
    let output = hookproof(&[&arguments[..], &hooks].concat());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
}

#[test]
fn the_reference_receiver_passes_what_concerns_the_other_profiles() {
    let names: Vec<_> = Profile::names().skip(1).collect();
    let (more, providers) = names.split_at(4);
    // Without the case above, and without slow cases.
    let all = ["--skip", "replay.after-*,limit.slow,ack,timing"];
    let few = ["--only", "sig,time,raw,handshake,replay.later"];
    let rows =
        more.iter().map(|profile| (profile, all)).chain(providers.iter().map(|profile| (profile, few)));
    for (profile, cases) in rows {
        let (reference, effects) = reference(profile);
        let url = reference.url();
        let arguments = [
            "receiver",
            &url,
            "--profile",
            profile,
            "--secret-env",
            match *profile {
                "adyen" => "HEX_SECRET",
                "paypal" => "RSA_KEY",
                name if name.parse::<Profile>().unwrap().is_public() => "PRIVATE_KEY",
                _ => "HOOK_SECRET",
            },
            "--effects-url",
            &effects,
        ];
        let token: &[&str] = if *profile == "meta" { &["--verify-token-env", "VERIFY_TOKEN"] } else { &[] };
        let output = hookproof(&[&arguments[..], &["--strict"], &cases, token].concat());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{profile}: {told}");
        let cases = match *profile {
            "discord" | "meta" | "slack" | "zoom" => 3,
            "cloudevents" => 1,
            _ => 0,
        };
        let greeted = told.matches("  PASS           handshake.").count();
        assert_eq!(greeted, cases, "{profile}: {told}");
    }
}
