//! A headless browser on the console's page, controlled through a pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

/// The browser reads commands from descriptor 3, and answers on 4.
const START: &str = "exec timeout 120 \"$0\" \"$@\" 3<&0 4>&1 1>&2 0</dev/null";

/// `HOOKPROOF_CHROMIUM`, or the first browser on the `PATH`.
fn find() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os("HOOKPROOF_CHROMIUM") {
        return Some(told.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    places.find(|place| place.is_file())
}

pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    pub(crate) complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Without a browser, prints a line and returns `None`.
    pub(crate) fn open(test: &str, url: &str) -> Option<Self> {
        let Some(program) = find() else {
            eprintln!("{test}: skipped: no Chromium on the PATH, and HOOKPROOF_CHROMIUM is not set");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let user = format!("--user-data-dir={}", profile.path().display());
        let mut child = Command::new("sh")
            .args(["-c", START])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server"])
            .args(["--remote-debugging-pipe", &user])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let answers = BufReader::new(answers);
        let (session, complaints) = (None, Vec::new());
        let mut browser = Self { child, commands, answers, session, sent: 0, complaints, _profile: profile };
        let page = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].take();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": page, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        browser.call("Page.navigate", &json!({ "url": url }));
        Some(browser)
    }

    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.sent += 1;
        let mut command = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.next();
            self.record_complaint(&answer);
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// The page shows the API's refusals itself.
    fn record_complaint(&mut self, event: &Value) {
        let complains = match event["method"].as_str() {
            Some("Log.entryAdded") => event["params"]["entry"]["source"] != "network",
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled") => true,
            _ => false,
        };
        if complains {
            self.complaints.push(event.to_string());
        }
    }

    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Evaluates an expression on each frame until it has a value.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) -> Value {
        let look =
            "const look = () => { const found = attempt(); found ? resolve(found) : setTimeout(look, 10); }";
        let attempt =
            format!("const attempt = () => {{ try {{ return {expression}; }} catch {{ return null; }} }}");
        self.value(&format!("new Promise((resolve) => {{ {attempt}; {look}; look(); }})"))
    }

    pub(crate) fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})"));
        self.value(&format!("document.querySelector({selector}).click()"));
    }

    pub(crate) fn type_in(&mut self, dialog: &str, field: &str, text: &str) {
        let field = json!(format!("#{dialog} [name={field}]"));
        let set = format!(
            "field.value = {}; field.dispatchEvent(new Event('input', {{ bubbles: true }}))",
            json!(text)
        );
        self.value(&format!("{{ const field = document.querySelector({field}); {set} }}"));
    }

    pub(crate) fn press(&mut self, key: &str) {
        let (text, code) = if key == "Enter" { ("\r", 13) } else { ("", 27) };
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                &json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code }),
            );
        }
    }

    #[track_caller]
    pub(crate) fn planned(&mut self, dialog: &str, says: &str) -> String {
        let ready = format!("!document.querySelector('#{dialog} [type=submit]').disabled");
        let text = format!("document.querySelector('#{dialog}').innerText");
        self.until(&format!("{ready} && {text}.includes({})", json!(says)));
        self.value(&text).as_str().unwrap().to_owned()
    }

    /// What axe-core finds wrong with the page as it stands, in light and dark. Without `HOOKPROOF_AXE`, prints a line.
    #[track_caller]
    pub(crate) fn barriers(&mut self) -> Vec<Value> {
        let Some(path) = std::env::var_os("HOOKPROOF_AXE") else {
            let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
            assert!(!demands.split(',').any(|demand| demand == "axe-core"), "HOOKPROOF_AXE names no file");
            eprintln!("skipped: HOOKPROOF_AXE names no axe.min.js");
            return Vec::new();
        };
        let axe = std::fs::read_to_string(path).unwrap() + "; true";
        self.value(&axe);
        let mut found = Vec::new();
        for scheme in ["light", "dark"] {
            let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
            self.call("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }));
            let told = self.value(
                "axe.run({ resultTypes: ['violations'] }).then((found) => [found.passes.length,
                    ...found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html))])",
            );
            let told = told.as_array().unwrap();
            assert!(told[0].as_u64() > Some(10), "{told:?}");
            found.extend_from_slice(&told[1..]);
        }
        found
    }

    pub(crate) fn width(&mut self, pixels: u32) {
        let size = json!({ "width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
