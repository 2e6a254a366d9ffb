//! Tenants share a sender. Each tries every operation of the served document.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::world::{Endpoint, Serving, World};

/// What a tenant's token may do, in an order in which each succeeds.
const REACHED: [(&str, &str, &str); 45] = [
    ("console", "/", ""),
    ("healthz", "/healthz", ""),
    ("readyz", "/readyz", ""),
    ("openapi", "/v1/openapi.json", ""),
    ("listSubscribers", "/v1/subscribers", ""),
    ("listSubscribers", "/v1/subscribers?limit=2", ""),
    ("listSubscribers", "/v1/subscribers?cursor=s0.0", ""),
    ("showSubscriber", "/v1/subscribers/{shop}", ""),
    ("showSubscriber", "/v1/subscribers/{id}", ""),
    ("listDeliveries", "/v1/deliveries", ""),
    ("listDeliveries", "/v1/deliveries?state=dead&limit=1", ""),
    ("listDeliveries", "/v1/deliveries?subscriber={shop}", ""),
    ("listDeliveries", "/v1/deliveries?subscriber={slow}&state=waiting", ""),
    ("listDeliveries", "/v1/deliveries?event=shared", ""),
    ("listDeliveries", "/v1/deliveries?event=of-all", ""),
    ("showDelivery", "/v1/deliveries/{delivered}", ""),
    ("listAttempts", "/v1/attempts", ""),
    ("listAttempts", "/v1/attempts?subscriber={id}&failed=false", ""),
    ("listDead", "/v1/dead", ""),
    ("listDead", "/v1/dead?subscriber={full}", ""),
    ("listJobs", "/v1/jobs", ""),
    ("getJob", "/v1/jobs/{job}", ""),
    ("listChanges", "/v1/changes", ""),
    ("listChanges", "/v1/changes?subscriber={full}", ""),
    ("audit", "/v1/audit?subscriber={shop}", ""),
    ("planChange", "/v1/subscribers/{shop}/plan", r#"{"limit":{"rate":"5/s"}}"#),
    ("emitEvents", "/v1/events", r#"{"type":"order.paid","data":{"of":"{tenant}"}}"#),
    ("testSubscriber", "/v1/subscribers/{shop}/test", r#"{"type":"order.paid","data":1}"#),
    ("pauseSubscriber", "/v1/subscribers/{shop}/pause", r#"{"reason":"move"}"#),
    ("resumeSubscriber", "/v1/subscribers/{shop}/resume", "{}"),
    ("retrySubscriber", "/v1/subscribers/{slow}/retry", "{}"),
    ("retryDelivery", "/v1/deliveries/{waiting}/retry", "{}"),
    ("resendDelivery", "/v1/deliveries/{delivered}/resend", "{}"),
    ("replaySubscriber", "/v1/subscribers/{shop}/replay", r#"{"since":"2020-01-01T00:00:00Z","plan":true}"#),
    ("replaySubscriber", "/v1/subscribers/{shop}/replay", r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("redriveDead", "/v1/dead/redrive", r#"{"subscriber":"{full}","plan":true}"#),
    ("pauseJob", "/v1/jobs/{job}/pause", "{}"),
    ("resumeJob", "/v1/jobs/{job}/resume", "{}"),
    ("cancelJob", "/v1/jobs/{job}/cancel", "{}"),
    ("redriveDead", "/v1/dead/redrive", r#"{"subscriber":"{full}"}"#),
    ("shedSubscriber", "/v1/subscribers/{full}/shed", r#"{"all":true}"#),
    ("purgeDead", "/v1/dead/purge", r#"{"subscriber":"{full}"}"#),
    ("rotateSecret", "/v1/subscribers/{shop}/rotate", "{}"),
    ("listJobs", "/v1/jobs", ""),
    ("removeSubscriber", "/v1/subscribers/{slow}", ""),
];

/// Of these operations, what it may not.
const OF_ALL: [(&str, &str, &str); 4] = [
    ("audit", "/v1/audit", ""),
    ("redriveDead", "/v1/dead/redrive", r#"{"all":true}"#),
    ("purgeDead", "/v1/dead/purge", r#"{"all":true,"plan":true}"#),
    ("purgeDead", "/v1/dead/purge", r#"{"ids":["{dead}"],"plan":true}"#),
];

/// Bodies of other operations.
const REFUSED: [(&str, &str); 6] = [
    ("addSubscriber", r#"{"name":"{tenant}-new","url":"http://127.0.0.1:9/"}"#),
    ("changeSubscriber", r#"{"limit":{"rate":"7/s"}}"#),
    ("createToken", r#"{"name":"{tenant}-more","scope":"read","subscribers":["{tenant}-*"]}"#),
    ("drainNode", "{}"),
    ("resumeNode", "{}"),
    ("forgetSubject", r#"{"key":"{tenant}-key","plan":false}"#),
];

struct Tenant {
    token: String,
    /// For `{…}`.
    names: BTreeMap<&'static str, String>,
    /// In no answer to others.
    own: Vec<String>,
    endpoint: Endpoint,
}

impl Tenant {
    fn filled(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn name(&self) -> &str {
        &self.names["tenant"]
    }
}

struct Trial<'w> {
    world: &'w World,
    serving: &'w Serving,
    root: String,
    documented: BTreeMap<String, (String, String)>,
}

impl Trial<'_> {
    fn ask(&self, line: &str, token: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.serving.ask(line, Some(token), body);
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    #[track_caller]
    fn done(&self, line: &str, token: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.ask(line, token, &body);
        assert!((200..300).contains(&status), "{line}: {status} {answer}");
        answer
    }

    fn items(&self, path: &str) -> Vec<Value> {
        self.done(&format!("GET {path}"), &self.root, &Value::Null)["items"].as_array().unwrap().clone()
    }

    fn line(&self, operation: &str, path: &str) -> String {
        format!("{} {path}", self.documented[operation].0)
    }

    fn tenant(&self, tenant: &str) -> Tenant {
        let endpoint = Endpoint::answering(204);
        let mut names = BTreeMap::from([("tenant", tenant.to_owned())]);
        let slow = json!({ "backoff": "fixed", "schedule": ["1h"] });
        for (name, url, more) in [
            ("shop", format!("{}/{tenant}-url", endpoint.url), json!({})),
            ("slow", format!("http://127.0.0.1:9/{tenant}-url"), json!({ "retry": slow })),
            ("full", format!("http://127.0.0.1:9/{tenant}-url"), json!({ "queue": { "rows": 1 } })),
        ] {
            let full_name = format!("{tenant}-{name}");
            let mut body = json!({ "name": full_name, "url": url });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let added = self.done("POST /v1/subscribers", &self.root, &body);
            names.insert(name, full_name);
            if name == "shop" {
                names.insert("id", added["id"].as_str().unwrap().to_owned());
            }
        }
        let restricted = json!({ "name": format!("{tenant}-token"), "scope": "admin", "subscribers": [format!("{tenant}-*")] });
        let made = self.done("POST /v1/tokens", &self.root, &restricted);
        let token = made["token"].as_str().unwrap().to_owned();
        Tenant { token, names, own: Vec::new(), endpoint }
    }

    fn fill(&self, tenant: &mut Tenant) {
        let (token, name) = (tenant.token.clone(), tenant.name().to_owned());
        let full = format!("{name}-full");
        let emit = |id: &str, deliveries: u64, refused: bool| {
            let data = json!({ "of": format!("{name}-payload") });
            let event = json!({ "id": id, "type": "order.paid", "key": format!("{name}-key"), "data": data });
            let told = self.done("POST /v1/events", &token, &event);
            assert_eq!((&told["deliveries"], &told["duplicates"]), (&json!(deliveries), &json!(0)), "{told}");
            assert_eq!(told["refused"].is_array(), refused, "{told}");
        };
        self.done(
            &format!("POST /v1/subscribers/{full}/pause"),
            &token,
            &json!({ "reason": format!("{name}-reason") }),
        );
        emit("shared", 3, false);
        let shed = self.done(&format!("POST /v1/subscribers/{full}/shed"), &token, &json!({ "all": true }));
        while self.done(&format!("GET /v1/jobs/{}", shed["id"]), &token, &Value::Null)["state"] != "done" {}
        emit(&format!("{name}-event"), 3, false);
        emit(&format!("{name}-late"), 2, true);
        let job = self.done("POST /v1/dead/redrive", &token, &json!({ "subscriber": full }));
        tenant.names.insert("job", job["id"].to_string());
        for _ in 0..3 {
            let body = tenant.endpoint.bodies.recv().unwrap();
            assert!(body.contains(&format!("{name}-payload")), "{body}");
        }
    }

    fn know(&self, tenant: &mut Tenant) {
        let name = tenant.name().to_owned();
        let listed =
            |name: &str, state| self.items(&format!("/v1/deliveries?subscriber={name}&state={state}"));
        for (name, subscriber, state) in
            [("delivered", "shop", "delivered"), ("waiting", "slow", "waiting"), ("dead", "full", "dead")]
        {
            let found = listed(&tenant.names[subscriber], state);
            tenant.names.insert(name, found[0]["id"].as_str().unwrap().to_owned());
        }
        let url = tenant.endpoint.url.strip_prefix("http://").unwrap();
        tenant.own = vec![name.clone(), tenant.token.clone(), url.split('/').next().unwrap().to_owned()];
        for subscriber in ["shop", "slow", "full"] {
            let whom = &tenant.names[subscriber];
            let shown = self.done(&format!("GET /v1/subscribers/{whom}"), &self.root, &Value::Null);
            tenant.own.push(shown["id"].as_str().unwrap().to_owned());
            let deliveries = self.items(&format!("/v1/deliveries?subscriber={whom}"));
            tenant.own.extend(deliveries.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        }
        assert!(tenant.own.len() > 12, "{:?}", tenant.own);
    }

    fn state(&self, tenant: &Tenant) -> Vec<Value> {
        let mut state = Vec::new();
        for subscriber in ["shop", "slow", "full"] {
            let whom = &tenant.names[subscriber];
            let mut shown = self.done(&format!("GET /v1/subscribers/{whom}"), &self.root, &Value::Null);
            shown.as_object_mut().unwrap().retain(|field, _| field != "flow" && !field.ends_with("last_day"));
            let id = shown["id"].clone();
            state.push(shown);
            for listing in ["deliveries", "attempts", "dead", "changes"] {
                state.extend(self.items(&format!("/v1/{listing}?subscriber={whom}")));
            }
            state.extend(self.items("/v1/jobs").into_iter().filter(|job| job["subscriber"] == id));
            let name = whom.replace('\'', "''");
            let of = format!("SELECT lane FROM subscribers WHERE name = '{name}'");
            let secrets = self.world.sql(&format!("SELECT count(*) FROM secrets WHERE lane = ({of})"));
            state.push(json!({ "secrets": secrets }));
        }
        state
    }

    fn check_stranger(&self, asks: &Tenant, other: &Tenant, (operation, path, body): (&str, &str, &str)) {
        let line = self.line(operation, path);
        let (status, answer) = self.ask(&other.filled(&line), &asks.token, &other.filled(body));
        let names = format!("{line} {body}");
        if let Some(named) =
            other.names.keys().find(|key| **key != "tenant" && names.contains(&format!("{{{key}}}")))
        {
            let (sent, nobody) = (&other.names[named], nobody(named));
            let unknown = |text: &str| text.replace(&format!("{{{named}}}"), nobody);
            let (expected, as_nobody) = self.ask(&unknown(&line), &asks.token, &unknown(body));
            let is_empty = answer == json!({ "items": [], "next": null });
            assert!(status == expected && (status == 404 || is_empty), "{line} {body}: {status} {answer}");
            assert_eq!(
                answer.to_string().replace(sent, "X"),
                as_nobody.to_string().replace(nobody, "X"),
                "{line}"
            );
            return;
        }
        assert!((200..300).contains(&status), "{line} {body}: {status} {answer}");
        check_leaks(&line, &answer, other);
    }

    fn check_refused(&self, asks: &Tenant, other: &Tenant) {
        let reached = |operation: &str| REACHED.iter().any(|(one, ..)| *one == operation);
        let body =
            |operation: &str| REFUSED.iter().find(|(one, _)| *one == operation).map_or("", |(_, body)| *body);
        let refused = self.documented.iter().filter(|(operation, _)| !reached(operation));
        let paths =
            refused.map(|(operation, (_, path))| (operation.as_str(), path.as_str(), body(operation)));
        let mut tried = 0;
        for (operation, path, body) in paths.chain(OF_ALL) {
            for of in [asks, other] {
                let path = path.replace("{id}", "{shop}").replace("{name}", &format!("{}-token", of.name()));
                let line = of.filled(&self.line(operation, &path));
                let (status, answer) = self.ask(&line, &asks.token, &of.filled(body));
                assert_eq!(
                    (status, &answer["error"]["code"]),
                    (403, &json!("restricted_token")),
                    "{line}: {answer}"
                );
                check_leaks(&line, &answer, other);
                tried += 1;
            }
        }
        assert!(tried > 20, "{tried}");
    }

    fn check_own(&self, tenant: &Tenant, token: &str, other: Option<&Tenant>) {
        for (operation, path, body) in REACHED {
            let line = tenant.filled(&self.line(operation, path));
            let (status, answer) = self.ask(&line, token, &tenant.filled(body));
            assert!((200..300).contains(&status), "{line} {body}: {status} {answer}");
            if let Some(other) = other {
                check_leaks(&line, &answer, other);
            }
            if let Some(items) = answer["items"].as_array() {
                assert!(!items.is_empty(), "{line} has what is its own");
            }
        }
    }
}

fn nobody(named: &str) -> &'static str {
    match named {
        "id" => "sub_01hf7yat00000000000000000a",
        "delivered" | "waiting" | "dead" => "dlv_01hf7yat00000000000000000a",
        "job" => "999999",
        _ => "nobody",
    }
}

fn check_leaks(line: &str, answer: &Value, other: &Tenant) {
    let text = answer.to_string();
    for own in &other.own {
        assert!(!text.contains(own), "the answer to {line} has {own}: {text}");
    }
}

fn check_tenants(world: &World) {
    let nothing = ["--events", "nothing.at.all", "--allow-private-targets"];
    world.ok(&[&["subscriber", "add", "operators", "http://127.0.0.1:9/"][..], &nothing].concat());
    let made = world.json(&["token", "create", "root", "--scope", "admin"]);
    let root = made["token"].as_str().unwrap().to_owned();
    let serving = world.serve_with(&["--node", "a"]);
    let (_, document) = serving.ask("GET /v1/openapi.json", Some(&root), "");
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut documented = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let operation = operation["operationId"].as_str().unwrap().to_owned();
            documented.insert(operation, (method.to_uppercase(), path.clone()));
        }
    }
    let trial = Trial { world, serving: &serving, root, documented };
    let mut tenants = ["quokka", "wombat", "numbat"].map(|name| trial.tenant(name));
    for tenant in &mut tenants {
        trial.fill(tenant);
    }
    let event = json!({ "id": "of-all", "type": "order.paid", "data": "of all" });
    trial.done("POST /v1/events", &trial.root, &event);
    for tenant in &mut tenants {
        tenant.endpoint.bodies.recv().unwrap();
        while trial.items(&format!("/v1/attempts?subscriber={}", tenant.names["shop"])).len() < 4 {}
        while trial.items(&format!("/v1/attempts?subscriber={}", tenant.names["slow"])).is_empty() {}
        trial.know(tenant);
    }
    let [asks, other, third] = &tenants;
    let before = trial.state(other);
    for request in REACHED {
        if request.0 != "emitEvents" {
            trial.check_stranger(asks, other, request);
        }
    }
    trial.check_refused(asks, other);
    trial.check_own(asks, &asks.token, Some(other));
    assert_eq!(trial.state(other), before, "another's work leaves it as it was");
    assert!(other.endpoint.bodies.try_recv().is_err(), "nothing of another's came to it");
    trial.check_own(other, &other.token, Some(asks));
    trial.check_own(third, &trial.root, None);
}

#[test]
fn a_token_that_is_restricted_to_one_tenant_neither_reads_nor_changes_another() {
    let test = "a_token_that_is_restricted_to_one_tenant";
    for world in [Some(World::new()), World::on_postgres(test)].into_iter().flatten() {
        check_tenants(&world);
    }
}
