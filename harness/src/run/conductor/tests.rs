use std::path::{Path, PathBuf};

use hookproof_play::traffic::{Schedule, Tokens};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;

use super::super::emitter::Emission;
use super::*;
use crate::driver::{ProcessConfig, Variables};

async fn request(stream: &mut BufReader<tokio::net::TcpStream>) -> String {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await.unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    String::from_utf8(body).unwrap()
}

async fn answer(stream: &mut BufReader<tokio::net::TcpStream>) {
    let ok = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(ok).await.unwrap();
}

async fn reluctant(listener: tokio::net::TcpListener) {
    let mut first = None;
    while let Ok((stream, _)) = listener.accept().await {
        let mut stream = BufReader::new(stream);
        let body = request(&mut stream).await;
        if body == "change" && first.is_none() {
            first = Some(stream);
            continue;
        }
        answer(&mut stream).await;
        if body == "change" {
            answer(first.as_mut().unwrap()).await;
        }
    }
}

const TWO_CHANGES: &str = "name = \"x\"\nlinger = \"10ms\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n\
    [[subscriber]]\nname = \"a\"\n[[fault]]\nat = \"0s\"\ndo = \"limit\"\nlimit = { rate = \"9/s\" }\n\
    times = 2\nevery = \"20ms\"\n";

fn conductor<'a>(
    scenario: &'a Scenario,
    api: &'a Api,
    processes: &'a mut Processes,
    clocks: &'a mut BTreeMap<usize, WallClock>,
) -> Conductor<'a> {
    Conductor {
        scenario,
        api,
        processes,
        server: None,
        links: &[],
        clocks,
        keys: Keys::default(),
        schemes: vec![Profile::GITHUB.into()],
        clock: Clock::begun(),
        recorder: Recorder::new(1_000).0,
        traffic_end: 0,
        view: View::new("x", 0, false, None),
        errands: JoinSet::new(),
    }
}

#[tokio::test]
async fn a_call_that_hangs_holds_up_nothing_else() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(reluctant(listener));
    let call = |body: &str| format!("{{ request = \"POST {{{{ base }}}}/\", body = \"{body}\" }}");
    let file = format!("name = \"x\"\nsubscribe = {0}\nemit = {0}\nchange = {1}\n", call(""), call("change"));
    let api = Api::new(DriverFile::parse(&file, "x.toml").unwrap(), &[port], Variables::new()).unwrap();
    let scenario = Scenario::from_text(TWO_CHANGES, "x.toml").unwrap();
    let (recorder, records) = Recorder::new(1_000);
    let clock = Clock::begun();
    let config = ProcessConfig { program: PathBuf::new(), logs: PathBuf::new(), ..ProcessConfig::default() };
    let mut processes = Processes::new(&api, 1, &config, &clock, &recorder).unwrap();
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, Path::new(".")).unwrap();
    let emission = Emission {
        api: api.clone(),
        clock: clock.clone(),
        recorder: recorder.clone(),
        schedule: Arc::new(schedule),
        tokens: Tokens::new(1),
    };
    let emitting = emission.start(&scenario, 0, Arc::default()).unwrap();
    recorder.account(hookproof_judge::trace::ledger::Ledger::default());
    let mut clocks = BTreeMap::new();
    let mut conductor =
        Conductor { clock, recorder, ..conductor(&scenario, &api, &mut processes, &mut clocks) };
    let (_tell, interrupt) = watch::channel(false);
    let ended = conductor.conduct(emitting, &AtomicBool::new(false), interrupt).await;
    assert!(matches!(ended, Ok((Ended::Done, _))), "{ended:?}");
    let fault = |record| if let Record::Fault(fault) = record { fault.plan } else { None };
    let mut done: Vec<u32> = records.take().into_iter().filter_map(fault).collect();
    done.sort_unstable();
    assert_eq!(done, [0, 1], "both limits were changed");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_goes_on_though_a_clock_cannot_be_put_right() {
    use hookproof_judge::trace::ProcessEvent::{Continued, Started, Stopped};

    use crate::driver::processes::tests::{events, running};

    let call = "{ request = \"POST {{ base }}/\", body = \"\" }";
    let file = format!("name = \"x\"\nsubscribe = {call}\nemit = {call}\n");
    let api = Api::new(DriverFile::parse(&file, "x.toml").unwrap(), &[1], Variables::new()).unwrap();
    let scenario = Scenario::from_text(TWO_CHANGES, "x.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, records) = running(folder.path());
    let shown = folder.path().join("shown");
    std::fs::create_dir(&shown).unwrap();
    let mut clock = WallClock::unread(shown.join("clock"));
    clock.begin(0, 1).unwrap();
    std::fs::remove_dir_all(shown).unwrap();
    let mut clocks = BTreeMap::from([(0, clock)]);
    let mut conductor = conductor(&scenario, &api, &mut processes, &mut clocks);
    conductor.processes.freeze(0, 0).unwrap();
    conductor.end(0).unwrap_err();
    conductor.processes.freeze(0, 1).unwrap();
    conductor.relieve().await;
    assert_eq!(events(&records), [Started, Stopped, Continued, Stopped, Continued]);
}
