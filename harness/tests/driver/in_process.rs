use std::sync::Arc;
use std::time::Duration;

use hookproof::{Harness, NewEvent, NewSubscriber, Sender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

async fn post(url: &str, event: &NewEvent) -> std::io::Result<()> {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = TcpStream::connect(host).await?;
    let (length, body) = (event.data.len(), &event.data);
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nx-id: {}\r\ncontent-type: application/json\r\nconnection: close\r\n",
        event.id
    );
    stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).await?;
    stream.read_to_end(&mut Vec::new()).await.map(drop)
}

#[derive(Default)]
struct Naive {
    subscribers: Mutex<Vec<NewSubscriber>>,
}

impl Sender for Naive {
    async fn subscribe(&self, subscriber: NewSubscriber) -> Result<(), String> {
        self.subscribers.lock().await.push(subscriber);
        Ok(())
    }

    async fn emit(&self, event: NewEvent) -> Result<(), String> {
        for subscriber in self.subscribers.lock().await.iter() {
            post(&subscriber.url, &event).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Patient {
    naive: Arc<Naive>,
    turn: Mutex<()>,
}

impl Sender for Patient {
    async fn subscribe(&self, subscriber: NewSubscriber) -> Result<(), String> {
        self.naive.subscribe(subscriber).await
    }

    async fn emit(&self, event: NewEvent) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        self.naive.emit(event).await?;
        let rate = self.naive.subscribers.lock().await[0].rate_per_second;
        let mut pause = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        pause.tick().await;
        pause.tick().await;
        Ok(())
    }
}

const BURST: &str = "name = \"burst\"\ndrain = \"20s\"\nlinger = \"500ms\"\n[[traffic]]\nshape = \"burst\"\nevents = 20\n[[subscriber]]\n\
                     name = \"one\"\nlimit = { rate = \"20/s\", burst = 2, in_flight = 2 }\n";
const UNSIGNED: &str = "[sign]\nalgorithm = \"none\"\nid = \"x-id\"";

#[tokio::test(flavor = "multi_thread")]
async fn a_naive_sender_is_failed_with_a_witness() {
    let judged = Harness::new(BURST).driver(UNSIGNED).judge(Naive::default()).await.unwrap();
    assert!(!judged.passed() && judged.to_string().contains("FAIL  rate.envelope"), "{judged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_keeps_to_its_contract_passes() {
    let judged = Harness::new(BURST).driver(UNSIGNED).judge(Patient::default()).await.unwrap();
    assert!(judged.passed(), "{judged}");
}

#[tokio::test]
async fn a_scenario_with_a_mistake_is_told() {
    let error = Harness::new("nmae = \"x\"").judge(Naive::default()).await.unwrap_err();
    assert!(error.to_string().contains("did you mean \"name\"?"), "{error}");
}
