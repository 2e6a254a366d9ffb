use std::path::Path;

use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::event::{Limits, Offer};
use hookproof_sender::guard::Guard;
use hookproof_sender::runtime::{Accepted, EmitError, Options, Retention, Sender};
use hookproof_sender::store::command::{Command, Subscribe};
use hookproof_sender::store::lane::{Bounds, Secret, WhenFull};
use hookproof_sender::store::{Durability, Reply};
use hookproof_sender::subscriber::RegionSecrets;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) async fn sender(folder: &Path) -> Sender {
    let options = Options {
        database: folder.join("sender.db").into(),
        durability: Durability::PowerLoss,
        guard: Guard::strict().allow_private_targets(),
        limits: Limits::default(),
        lease: Nanos::from_secs(30),
        retention: Retention::default(),
        regions: RegionSecrets::default(),
        name: None,
        address: None,
        delivers: true,
    };
    Sender::open(options).await.unwrap()
}

pub(crate) async fn subscribe(sender: &Sender, name: &str, url: &str, settings: &str) -> LaneId {
    let before = sender.roster().version();
    let subscribe = Subscribe {
        id: format!("sub_{name}").into(),
        name: name.into(),
        url: url.into(),
        patterns: r#"["*"]"#.into(),
        settings: settings.into(),
        bounds: Bounds { rows_max: 1_000, bytes_max: 1 << 20, when_full: WhenFull::ShedOldest },
        secret: Secret::new(SECRET),
    };
    let reply = sender.command(Command::Subscribe(subscribe)).await.unwrap();
    let Reply::Subscribed { lane } = reply else { panic!("{reply:?}") };
    sender.wait_for_roster_after(before).await;
    lane
}

pub(crate) async fn emit(sender: &Sender, data: &str) -> Result<Accepted, EmitError> {
    let text = format!(r#"{{"type": "video.trending", "key": "v1", "data": {data}}}"#);
    let offer = Offer::parse(text.as_bytes(), sender.limits()).unwrap();
    sender.emit(&[offer]).await.pop().unwrap()
}
