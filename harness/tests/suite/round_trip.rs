//! Our sender and our receiver share no code: each profile of both holds between the two processes.

use std::collections::BTreeMap;
use std::process::Command;

use hookproof_judge::signature::Profile;
use hookproof_receiver::verify;
use hookproof_sender::sign;
use serde_json::Value;

use crate::suite::reference::{PRIVATE, RETIRED, SECRET, reference};

/// The lines of `hookproof sender`, each an object.
fn sender(folder: &tempfile::TempDir, arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.arg("sender").args(arguments).args(["--json", "--db"]).arg(folder.path().join("sender.db"));
    command.env("RIGHT", SECRET).env("WRONG", RETIRED);
    let output =
        command.env("RIGHT_KEY", PRIVATE).env("WRONG_KEY", PRIVATE.replace("YS1z", "YW5v")).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_profile_is_accepted_with_its_secret_and_rejected_with_another() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(verify::Profile::ALL.map(verify::Profile::name), Profile::NAMES);
    let (profiles, others): (Vec<&str>, Vec<&str>) =
        Profile::NAMES.into_iter().partition(|name| name.parse::<sign::Profile>().is_ok());
    assert_eq!(others, ["adyen", "linear", "paypal"]);
    let profiles = profiles.into_iter().chain(["cloudevents"]);
    let receivers: BTreeMap<&str, _> = profiles.map(|profile| (profile, reference(profile).0)).collect();
    let name = |profile: &str, secret: &str| format!("{profile}-{}", secret.to_lowercase());
    for (profile, receiver) in &receivers {
        for secret in ["RIGHT", "WRONG"] {
            let (name, url, sign) = (name(profile, secret), receiver.url(), format!("sign={profile}"));
            let is_public = profile.parse::<Profile>().unwrap().is_public();
            let variable = if is_public { format!("{secret}_KEY") } else { secret.to_owned() };
            let fixed = [&*sign, "retry.attempts=1", "--secret-env", &variable, "--allow-private-targets"];
            let own = match *profile {
                "cloudevents" => &[
                    "headers=Ce-Source: /orders",
                    "permission.origin=hookproof.example",
                    "limit.rate=1/s",
                    "limit.burst=1",
                ][..],
                _ => &[],
            };
            sender(&folder, &[&["subscriber", "add", &name, &url][..], &fixed, own].concat());
        }
    }
    sender(&folder, &["emit", "--type", "order.paid", "--data", "{\"order\":4711}"]);
    sender(&folder, &["drain", "--for", "60s", "--allow-private-targets"]);
    let (listed, dead) = (sender(&folder, &["delivery", "list"]), sender(&folder, &["dead", "list"]));
    for profile in receivers.keys() {
        let of = |lines: &[Value], whose: &str, secret, key: &str| {
            let line = lines.iter().find(|line| line[whose] == *name(profile, secret));
            line.map(|line| line[key].clone()).unwrap_or_default()
        };
        let states = ["RIGHT", "WRONG"].map(|secret| of(&listed, "name", secret, "state"));
        assert_eq!(states, ["delivered", "dead"], "{profile}: {dead:?}");
        assert_eq!(of(&dead, "subscriber", "WRONG", "status"), 401, "{profile}");
    }
}
