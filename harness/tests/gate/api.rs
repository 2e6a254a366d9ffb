use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub(crate) struct Api {
    pub(crate) url: String,
    kept: Arc<Mutex<ApiState>>,
}

#[derive(Default)]
struct ApiState {
    comments: Vec<Value>,
    calls: Vec<String>,
    read_only: bool,
}

impl Api {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(ApiState::default()));
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &mut shared.lock().unwrap());
            }
        });
        Self { url, kept }
    }

    pub(crate) fn add(&self, author: &str, body: &str) {
        self.kept.lock().unwrap().add(author, body);
    }

    /// From now on the token may only read, like that of a fork's pull request.
    pub(crate) fn refuse_writes(&self) {
        self.kept.lock().unwrap().read_only = true;
    }

    pub(crate) fn of(&self, author: &str) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let theirs = kept.comments.iter().filter(|comment| comment["user"]["login"] == author);
        theirs.map(|comment| comment["body"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.kept.lock().unwrap().calls)
    }
}

impl ApiState {
    fn add(&mut self, author: &str, body: &str) {
        let id = self.comments.len() + 1;
        self.comments.push(json!({ "id": id, "user": { "login": author }, "body": body }));
    }

    fn answer(&mut self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        let text = body["body"].as_str().unwrap_or_default();
        match method {
            "GET" => {
                let page = target.rsplit("page=").next().unwrap().parse::<usize>().unwrap();
                (200, self.comments.chunks(100).nth(page - 1).unwrap_or_default().into())
            }
            _ if self.read_only => (403, json!({ "message": "Resource not accessible by integration" })),
            "POST" => {
                self.add("github-actions[bot]", text);
                (201, json!({}))
            }
            _ => {
                let id: usize = target.rsplit('/').next().unwrap().parse().unwrap();
                self.comments[id - 1]["body"] = text.into();
                (200, json!({}))
            }
        }
    }
}

fn serve(stream: &TcpStream, kept: &mut ApiState) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name));
    let length = header("Content-Length: ").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (method, rest) = head[0].split_once(' ').unwrap();
    let target = rest.split(' ').next().unwrap();
    let (status, answer) = if header("Authorization: ") == Some("Bearer a-token") {
        kept.calls.push(format!("{method} {}", target.split('?').next().unwrap()));
        kept.answer(method, target, &serde_json::from_slice(&body).unwrap_or_default())
    } else {
        (401, json!({}))
    };
    let answer = answer.to_string();
    let length = answer.len();
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}")
        .unwrap();
}
