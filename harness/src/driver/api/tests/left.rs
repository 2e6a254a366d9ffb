use super::*;

const NAMED: &str = r#"
name = "x"
[subscribe]
request = "POST {{ base }}/"
save = { id = "/id" }
[emit]
request = "POST {{ base }}/"
body = ""
[unsubscribe]
request = "DELETE {{ base }}/{{ id }}"
[[teardown]]
request = "POST {{ base }}/bye"
"#;

#[tokio::test]
async fn a_subscription_whose_id_is_not_known_is_told_as_left() {
    let (api, _noted) = noting(NAMED, &[(201, "{}")]).await;
    let subscriber = subscriber();
    let one = Subscription { subscriber: &subscriber, types: &[], url: "http://a", secret: "s" };
    api.subscribe(&one).await.unwrap_err();
    let failed = api.tear_down().await;
    assert!(failed.iter().any(|why| why.contains("one: ") && why.contains("{{ id }}")), "{failed:?}");
    assert!(failed.iter().any(|why| why.contains("1 subscriptions")), "{failed:?}");
}

#[tokio::test]
async fn what_is_not_taken_back_in_time_is_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = DriverFile::parse(NAMED, "x.toml").unwrap();
    let api = Api::new(file, &[port], Variables::new()).unwrap();
    api.0.begun.store(true, Ordering::Relaxed);
    let failed = api.tear_down_within(0).await;
    assert!(failed.iter().any(|why| why.contains("not all was taken back")), "{failed:?}");
}
