use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

/// Gives the status line and the headers of answer n, from 0, without the final blank line.
type Answer = Box<dyn Fn(usize) -> String + Send + Sync>;

pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    count: watch::Receiver<usize>,
}

impl Sink {
    pub(crate) async fn start(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (told, count) = watch::channel(0);
        let (answer, recorded): (Arc<Answer>, _) = (Arc::new(Box::new(answer)), Arc::clone(&arrivals));
        tokio::spawn(async move {
            let told = Arc::new(told);
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, recorded, told) =
                    (Arc::clone(&answer), Arc::clone(&recorded), Arc::clone(&told));
                tokio::spawn(async move {
                    let _ = serve(stream, &answer, &recorded, &told).await;
                });
            }
        });
        Self { address, arrivals, count }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) async fn arrived(&self, count: usize) -> Vec<Arrival> {
        self.count.clone().wait_for(|arrived| *arrived >= count).await.unwrap();
        self.arrivals.lock().unwrap().clone()
    }
}

async fn serve(
    stream: TcpStream,
    answer: &Answer,
    recorded: &Mutex<Vec<Arrival>>,
    told: &watch::Sender<usize>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut headers = HashMap::new();
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let nth = {
            let mut recorded = recorded.lock().unwrap();
            recorded.push(Arrival { headers, body: String::from_utf8(body).unwrap() });
            recorded.len()
        };
        let head = answer(nth - 1);
        stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes()).await?;
        told.send_replace(nth);
    }
}

pub(crate) fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} Whatever\r\n")
}
