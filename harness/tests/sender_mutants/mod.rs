//! A small sender passes every check, and with one realistic bug it fails the check that names the bug. The sender is
//! this test program in another process. `HOOKPROOF_BLESS=1 cargo test -p hookproof --test all sender_mutants` rewrites
//! the matrix, `reports/kill-matrix-senders.md`.

mod attempt;
mod breaker;
mod journal;
mod lane;
mod lease;
mod limiter;
mod matrix;
mod scenarios;
mod second;
mod sender;
mod serve;
mod strangers;
mod tls;

/// The sender, if the harness starts it. As a test it does nothing.
#[test]
fn the_sender_itself() {
    let Ok(port) = std::env::var("SENDER_PORT") else { return };
    let [bug, dir] = ["SENDER_BUG", "SENDER_DIR"].map(|name| std::env::var(name).unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve::serve(sender::Bug(bug), port.parse().unwrap(), dir));
}

#[test]
fn a_right_sender_that_is_another_than_ours_fails_nothing() {
    if std::env::var_os("SENDER_PORT").is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let complaints = runtime.block_on(strangers::play_all());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_wrong_sender_ends_the_command_with_1() {
    if std::env::var_os("SENDER_PORT").is_some() {
        return;
    }
    let (adcp, a2a) = ("adcp-webhook-emission@3.1", "a2a-push-notifications@1.0.1");
    for (bug, check, standard, requirement) in [
        ("names-no-host", "format.http", a2a, ("S1", "(4.3.3)")),
        ("writes-long-ids-with-blanks", "format.id", "", ("", "")),
        ("signs-with-every-secret", "identity.secret", "", ("", "")),
        ("shows-its-secret", "identity.secret", "", ("", "")),
        (
            "takes-any-certificate",
            "tls.verified",
            adcp,
            ("S24", "(Certificate validation (outbound fetches))"),
        ),
        ("rebuilds-the-body-for-a-retry", "identity.body", adcp, ("S8", "(idempotency_key_stability)")),
    ] {
        let (code, said) = matrix::command(bug, standard);
        assert!(code == Some(1) && said.contains(&format!("1 failed: {check}")), "{bug}: {code:?}: {said}");
        let (id, section) = requirement;
        let is_failed = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some("failed") && words.next() == Some(id) && line.ends_with(section)
        };
        assert!(standard.is_empty() || said.lines().any(is_failed), "{bug} by {standard}: {said}");
    }
}

#[test]
fn arrivals_after_the_sender_reports_an_empty_queue_are_judged() {
    if std::env::var_os("SENDER_PORT").is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let failed = runtime.block_on(strangers::failed_of_one_that_sends_all_again());
    assert!(failed.iter().any(|id| id == "duplicate.bounded"), "{failed:?}");
}

#[test]
fn every_bug_is_caught_by_the_check_that_names_it_and_the_right_sender_passes_all() {
    if std::env::var_os("SENDER_PORT").is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let matrix = runtime.block_on(matrix::play_all());
    println!("{}\ncaught by their checks alone: {:?}", matrix.markdown(), matrix.alone());
    matrix.check_or_bless();
    assert!(matrix.complaints().is_empty(), "{}", matrix.complaints().join("\n"));
}
