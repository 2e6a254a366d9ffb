use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use hookproof_receiver::inbox::Effects;
use hookproof_verify::Profile;
use tempfile::TempDir;

use crate::signing::{Headers, SECRET, key, sign};
use crate::wire::{Answer, request};

pub(crate) struct World {
    folder: Arc<TempDir>,
}

pub(crate) struct Receiver {
    process: Process,
    #[expect(dead_code, reason = "held, not used")]
    folder: Option<Arc<TempDir>>,
    pub(crate) address: SocketAddr,
    /// Log lines since it listens.
    log: Mutex<mpsc::Receiver<String>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: Arc::new(tempfile::tempdir().unwrap()) }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("inbox.db")
    }

    pub(crate) fn serve(&self, arguments: &[&str]) -> Receiver {
        let database = self.database();
        let fixed = ["serve", "--db", database.to_str().unwrap()];
        let receiver = Receiver::start(&[&fixed, arguments].concat());
        Receiver { folder: Some(Arc::clone(&self.folder)), ..receiver }
    }

    /// The processed ids, once no delivery waits.
    pub(crate) fn settled_effects(&self) -> Vec<String> {
        let effects = Effects::open(&self.database()).unwrap();
        // The worker is another process.
        while effects.standing().unwrap().waiting > 0 {
            std::thread::yield_now();
        }
        effects.processed(u32::MAX).unwrap()
    }
}

impl Receiver {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Starting::at("127.0.0.1:0", arguments).listening()
    }

    /// Signed now, as Standard Webhooks.
    pub(crate) fn post(&self, id: &str, body: &[u8]) -> Answer {
        request(self.address, "POST", "/hook", &signed(id, body), body)
    }

    pub(crate) fn kill(&mut self) {
        self.process.0.kill().unwrap();
        self.process.0.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, name: &str) {
        let id = self.process.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn find_log_line(&self, text: &str) -> String {
        self.log.lock().unwrap().iter().find(|line| line.contains(text)).expect(text)
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.process.0.wait().unwrap()
    }
}

pub(crate) struct Starting {
    process: Process,
    log: Lines<BufReader<ChildStderr>>,
}

impl Starting {
    pub(crate) fn at(listen: &str, arguments: &[&str]) -> Self {
        Self::with_routes(listen, &[arguments, &["--secret-env", "HOOK_SECRET"]].concat())
    }

    pub(crate) fn with_routes(listen: &str, arguments: &[&str]) -> Self {
        let mut command = command(arguments);
        command.args(["--listen", listen]);
        Self::run(command)
    }

    /// Limits file sizes to `blocks` blocks of the shell, as on a nearly full disk.
    pub(crate) fn within(blocks: u32, arguments: &[&str]) -> Self {
        let limited = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_hookproof-receiver")]).args(arguments);
        command.args(["--listen", "127.0.0.1:0", "--secret-env", "HOOK_SECRET"]).env("HOOK_SECRET", SECRET);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { process: Process(child), log }
    }

    pub(crate) fn find_log_line(&mut self, text: &str) -> String {
        self.log.by_ref().map(Result::unwrap).find(|line| line.contains(text)).expect(text)
    }

    pub(crate) fn listening(mut self) -> Receiver {
        let line = self.find_log_line(" listening ");
        let address = line.split_once("address=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        let Self { process, log: lines } = self;
        let (logged, log) = mpsc::channel();
        // An unread pipe would fill up and block the process.
        std::thread::spawn(move || lines.map(Result::unwrap).for_each(|line| drop(logged.send(line))));
        Receiver { process, folder: None, address, log: Mutex::new(log) }
    }
}

/// Dropping it kills the process.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-receiver"));
    let profile = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or_default();
    command.args(arguments).env("HOOK_SECRET", key(profile, SECRET));
    command.env("VERIFY_TOKEN", "let me in").env_remove("HOOKPROOF_LOG");
    command
}

pub(crate) fn signed(id: &str, body: &[u8]) -> Headers {
    sign(Profile::StandardWebhooks, SECRET, id, now(), body)
}

#[expect(clippy::disallowed_methods, reason = "the receiver under test is a process with a real clock")]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}
