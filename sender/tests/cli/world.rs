#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct World {
    folder: TempDir,
    server: Option<String>,
    has_key: bool,
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None, has_key: false }
    }

    pub(crate) fn with_shop(url: &str, settings: &[&str]) -> (Self, String) {
        Self::new().and_shop(url, settings)
    }

    /// In a PostgreSQL database; `None` without a server.
    pub(crate) fn on_postgres(test: &str) -> Option<Self> {
        let server = Some(crate::postgres_server::new_schema(test)?);
        Some(Self { server, ..Self::new() })
    }

    pub(crate) fn with_shop_on_postgres(test: &str, url: &str) -> Option<Self> {
        Some(Self::on_postgres(test)?.and_shop(url, &[]).0)
    }

    /// Encrypts with these keys from now on. An empty text: with none.
    pub(crate) fn with_key(self, keys: &str) -> Self {
        std::fs::write(self.folder().join("sender.key"), keys).unwrap();
        Self { has_key: !keys.is_empty(), ..self }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    fn and_shop(self, url: &str, settings: &[&str]) -> (Self, String) {
        let world = self;
        let add = ["subscriber", "add", "shop", url, "--allow-private-targets", "--json"];
        let added = world.json(&[&add, settings].concat());
        (world, added["secret"].as_str().unwrap().to_owned())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
        let file = || self.folder.path().join("sender.db").into_os_string();
        command.current_dir(self.folder.path());
        command.args(arguments).env("HOOKPROOF_DB", self.server.as_ref().map_or_else(file, Into::into));
        if self.has_key {
            command.env("HOOKPROOF_ENCRYPTION_KEY_FILE", self.folder().join("sender.key"));
        }
        command.env_remove("HOOKPROOF_LOG").env_remove("HOOKPROOF_REGIONS").stdin(Stdio::null());
        command
    }

    /// Bypasses the sender; returns the first column.
    pub(crate) fn sql(&self, statement: &str) -> Vec<u64> {
        if let Some(server) = &self.server {
            let found = crate::postgres_server::query(server, statement);
            return found.iter().map(|number| number.parse().unwrap()).collect();
        }
        let sql = rusqlite::Connection::open(self.folder.path().join("sender.db")).unwrap();
        let mut query = sql.prepare(statement).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn sql_does(&self, statement: &str) {
        if let Some(server) = &self.server {
            return crate::postgres_server::execute(server, statement);
        }
        rusqlite::Connection::open(self.folder().join("sender.db")).unwrap().execute(statement, []).unwrap();
    }

    /// A server skips what is due before the head of a queue.
    pub(crate) fn move_heads_back(&self) {
        if self.server.is_some() {
            self.sql("UPDATE lanes SET head = 0");
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    /// What was printed, with wrapped lines joined.
    #[track_caller]
    pub(crate) fn joined(&self, arguments: &[&str]) -> String {
        let printed = self.ok(arguments);
        let (first, rest) = printed.split_once('\n').unwrap_or((&printed, ""));
        rest.lines().fold(first.to_owned(), |joined, line| match line.strip_prefix("  ") {
            Some(more) => format!("{joined} {}", more.trim_start()),
            None => format!("{joined}\n{line}"),
        })
    }

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

    pub(crate) fn serve(&self) -> Serving {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> Serving {
        self.serve_by(more, &[])
    }

    pub(crate) fn serve_by(&self, more: &[&str], variables: &[(&str, &str)]) -> Serving {
        self.serve_at("127.0.0.1:0", more, variables)
    }

    pub(crate) fn serve_at(&self, address: &str, more: &[&str], variables: &[(&str, &str)]) -> Serving {
        let serve = ["serve", "--listen", address, "--allow-private-targets", "--log-json"];
        let mut command = self.command(&[&serve, more].concat());
        command.envs(variables.iter().copied());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut serving = Serving { child, address: String::new() };
        let mut line = String::new();
        // Reads single bytes, to leave the rest to other readers.
        let log = serving.child.stderr.as_mut().unwrap();
        while serving.address.is_empty() {
            let mut byte = [0];
            assert_eq!(log.read(&mut byte).unwrap(), 1, "serve ended before it listened");
            line.push(char::from(byte[0]));
            if byte == *b"\n" {
                let entry: Value = serde_json::from_str(&line).unwrap();
                serving.address.push_str(entry["fields"]["address"].as_str().unwrap_or_default());
                line.clear();
            }
        }
        serving
    }
}

/// As the log of changes names this user.
pub(crate) fn user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap().stdout;
    format!("user {}", String::from_utf8(name).unwrap().trim_end())
}

pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Serving {
    /// The status and the body of the answer.
    pub(crate) fn ask(&self, line: &str, token: Option<&str>, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{token}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Returns the exit code and the rest of the log.
    pub(crate) fn terminate(mut self) -> (i32, String) {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code().unwrap(), log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().expect("it ended by itself");
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

pub(crate) struct Endpoint {
    pub(crate) url: String,
    status: Arc<AtomicU16>,
    pub(crate) bodies: Receiver<String>,
}

impl Endpoint {
    pub(crate) fn answering(status: u16) -> Self {
        Self::answering_with(status, "")
    }

    /// Each header has its line's end.
    pub(crate) fn answering_with(status: u16, headers: &'static str) -> Self {
        Self::scripted("", status, headers, Vec::new())
    }

    /// Answers 500 to a body that contains `refused`.
    pub(crate) fn refusing(refused: &'static str, status: u16, headers: &'static str) -> Self {
        Self::scripted(refused, status, headers, Vec::new())
    }

    pub(crate) fn answering_in_full(status: u16, headers: &'static str, body: Vec<u8>) -> Self {
        Self::scripted("", status, headers, body)
    }

    fn scripted(refused: &'static str, status: u16, headers: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        let status = Arc::new(AtomicU16::new(status));
        let present = Arc::clone(&status);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (sender, present, body) = (sender.clone(), Arc::clone(&present), body.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream.unwrap());
                    while let Some(request) = request(&mut stream) {
                        let is_refused = !refused.is_empty() && request.contains(refused);
                        let _ = sender.send(request);
                        let status = if is_refused { 500 } else { present.load(Ordering::SeqCst) };
                        let length = body.len();
                        let head =
                            format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n");
                        stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
                    }
                });
            }
        });
        Self { url, status, bodies }
    }

    pub(crate) fn answers(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
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
                length = value.parse().unwrap();
            }
            None if line == "\r\n" => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}
