//! A run reports contract terms that a sender cannot express, and reverts its changes however it ends.

use std::process::{Command, Stdio};

use hookproof::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};

use super::{hookproof, ours, python::python, shipped};

const QUIET: &str = "name = \"quiet\"\ndrain = \"10s\"\nlinger = \"500ms\"\n[[traffic]]\nshape = \"burst\"\nevents = 3\n[[subscriber]]\n\
                     name = \"one\"\nlimit = { rate = \"1000/s\", burst = 50, in_flight = 10 }\n";

#[test]
fn every_report_names_settings_that_the_sender_cannot_express() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, driver, out) = (file("quiet.toml"), file("driver.toml"), file("out"));
    std::fs::write(&scenario, QUIET).unwrap();
    let header = "[subscribe]\nheaders = { x-rate = \"{{ rate_per_second | u8 }}\" }\n";
    let goodbye = "[teardown]\nrequest = \"DELETE {{ base }}/no/such/thing\"\n[stop]";
    let text = ours().replace("[subscribe]\n", header).replace("[stop]", goodbye);
    std::fs::write(&driver, text).unwrap();
    let (code, said) = hookproof(&["run", &scenario, "--driver", &driver, "--out", &out], &[]);
    assert_eq!(code, Some(0), "{said}");
    let told = "its rate_per_second is a u8: the sender gets 255 instead of 1000";
    assert!(said.contains(&format!("one: {told}")), "{said}");
    assert!(said.contains("after the run: teardown was answered with 404"), "{said}");
    for report in ["report.json", "report.html", "trace.jsonl"] {
        let text = std::fs::read_to_string(folder.path().join("out/quiet").join(report)).unwrap();
        assert!(text.contains(told), "{report}");
    }
}

#[tokio::test]
async fn an_interrupted_run_undoes_its_steps() {
    if !python("an_interrupted_run_undoes_its_steps") {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let folder = shipped("scenarios/drivers/python");
    let mut run = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    run.arg("run").arg(folder.join("scenario.toml")).arg("--driver").arg(folder.join("driver.toml"));
    let run = run.arg("--out").arg(out.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (clock, home) = (Clock::begun(), out.path().join("plain-python"));
    while !std::fs::read_to_string(home.join("trace.jsonl")).unwrap_or_default().contains("\"k\":\"arrival\"")
    {
        clock.pass(5_000_000).await;
    }
    let subscribers = || {
        let database = rusqlite::Connection::open(home.join("sender/events.db")).unwrap();
        database.query_row("SELECT count(*) FROM subscriber", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(subscribers(), 3);
    kill_process(Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!said.contains("after the run:"), "{said}");
    assert_eq!(subscribers(), 0, "{said}");
}
