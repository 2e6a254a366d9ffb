use super::*;

#[tokio::test]
async fn what_hangs_ends_with_the_wish_to_end_and_what_is_done_is_done() {
    let (tell, interrupt) = watch::channel(false);
    assert_eq!(unless(&interrupt, async { 7 }).await, Some(7));
    let hanging = tokio::spawn(async move { unless(&interrupt, std::future::pending::<()>()).await });
    tell.send_replace(true);
    assert_eq!(hanging.await.unwrap(), None);
}
