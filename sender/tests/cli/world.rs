//! A database in a folder of its own, an endpoint, and ways to run the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct World {
    folder: TempDir,
}

/// How a command went.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With one subscriber, `shop`, and its secret.
    pub(crate) fn with_shop(url: &str, settings: &[&str]) -> (Self, String) {
        let world = Self::new();
        let add = ["subscriber", "add", "shop", url, "--allow-private-targets", "--json"];
        let added = world.json(&[&add, settings].concat());
        (world, added["secret"].as_str().unwrap().to_owned())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
        command.args(arguments).env("HOOKPROOF_DB", self.folder.path().join("sender.db"));
        command.env_remove("HOOKPROOF_LOG").env_remove("HOOKPROOF_REGIONS").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs with something on stdin.
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// What a command that succeeds prints.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = if arguments.contains(&"--json") {
            arguments.to_vec()
        } else {
            [arguments, &["--json"]].concat()
        };
        let printed = self.ok(&arguments);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }

    /// Starts `serve`, and waits until it listens. Its log goes on in the answer.
    pub(crate) fn serve(&self) -> (Child, String, BufReader<ChildStderr>) {
        let mut command =
            self.command(&["serve", "--listen", "127.0.0.1:0", "--allow-private-targets", "--log-json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            let entry: Value = serde_json::from_str(&line).unwrap();
            if let Some(address) = entry["fields"]["address"].as_str() {
                return (child, address.to_owned(), log);
            }
            line.clear();
        }
        panic!("serve ended before it listened");
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().expect("it ended by itself");
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// An endpoint that answers every request with one status, and passes on the bodies.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) bodies: Receiver<String>,
}

impl Endpoint {
    pub(crate) fn answering(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream.unwrap());
                    while let Some(body) = request(&mut stream) {
                        // The test may have seen enough.
                        let _ = sender.send(body);
                        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                        stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    }
                });
            }
        });
        Self { url, bodies }
    }
}

fn request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap()
            }
            None if line == "\r\n" => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}
