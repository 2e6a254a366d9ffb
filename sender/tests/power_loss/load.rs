use std::process::Command;
use std::sync::Mutex;

use hookproof_power_loss::{Disk, Recording};

use crate::binary::endpoint::Endpoint;
use crate::binary::http::try_ask;
use crate::binary::{SERVE, Serving};

/// Settings under which a sink takes everything at once.
const WIDE: [&str; 3] = ["limit.rate=10000/s", "limit.burst=100", "--allow-private-targets"];

const EMITTERS: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct AcknowledgedEvent {
    pub(crate) id: String,
    position: u64,
}

pub(crate) struct Load<'a> {
    disk: &'a Disk,
    serving: Vec<Serving>,
    options: &'static [&'static str],
    lies: bool,
    begun: usize,
    pub(crate) told: Vec<AcknowledgedEvent>,
}

impl<'a> Load<'a> {
    pub(crate) fn begin(disk: &'a Disk, options: &'static [&'static str], lies: bool) -> Self {
        let mut load = Self { disk, serving: Vec::new(), options, lies, begun: 0, told: Vec::new() };
        let sink = Endpoint::taking();
        let mut subscribe = load.command(&["subscriber", "add", "sink", &sink.url]);
        assert!(subscribe.args(WIDE).output().unwrap().status.success());
        load.join();
        load
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
        command.args(arguments).env("HOOKPROOF_DB", self.disk.folder().join("sender.db"));
        if self.lies {
            self.disk.attach_lying(&mut command);
        } else {
            self.disk.attach(&mut command);
        }
        command
    }

    pub(crate) fn join(&mut self) {
        let mut command = self.command(&SERVE);
        command.args(self.options);
        self.serving.push(Serving::start(command));
    }

    /// Emits to all senders in turn. An emitter stops if its sender does not acknowledge.
    pub(crate) fn emit(&mut self, count: usize) {
        let (from, told) = (self.begun, Mutex::new(Vec::new()));
        self.begun += count;
        let addresses: Vec<&str> = self.serving.iter().map(|serving| serving.address.as_str()).collect();
        std::thread::scope(|scope| {
            for emitter in 0..EMITTERS {
                let (told, disk, address) = (&told, self.disk, addresses[emitter % addresses.len()]);
                scope.spawn(move || {
                    for number in (from..from + count).skip(emitter).step_by(EMITTERS) {
                        let id = format!("event-{number}");
                        let answer = try_ask(address, "POST", "/v1/events", "application/json", &event(&id));
                        match answer {
                            Ok(answer) if answer.status == 202 => {
                                let position = disk.position().unwrap();
                                told.lock().unwrap().push(AcknowledgedEvent { id, position });
                            }
                            _ => return,
                        }
                    }
                });
            }
        });
        self.told.extend(told.into_inner().unwrap());
    }

    /// Returns the exit code of the sender that ends.
    pub(crate) fn emit_until_one_ends(&mut self) -> Option<i32> {
        for _ in 0..100 {
            self.emit(60);
            for place in 0..self.serving.len() {
                if let Some(code) = self.serving[place].child.try_wait().unwrap() {
                    let ended = self.serving.remove(place);
                    ended.wait_for_line("the disk did not keep what was written");
                    return code.code();
                }
            }
        }
        panic!("6,000 events, and no sender has ended");
    }

    pub(crate) fn stop(&mut self) {
        self.serving.drain(..).for_each(Serving::stop_in_order);
    }

    pub(crate) fn end(&mut self) {
        for mut serving in self.serving.drain(..) {
            serving.kill();
        }
    }
}

fn event(id: &str) -> Vec<u8> {
    format!(r#"{{"id":"{id}","type":"video.trending","data":"{}"}}"#, "x".repeat(3_000)).into_bytes()
}

pub(crate) fn acknowledged<'t>(
    told: &'t [AcknowledgedEvent],
    recording: &Recording,
    cut: usize,
) -> Vec<&'t str> {
    let before = told.iter().filter(|told| recording.before(told.position) <= cut);
    before.map(|told| told.id.as_str()).collect()
}
