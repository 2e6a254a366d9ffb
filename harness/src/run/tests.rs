//! What ends with the wish to end, and how the ceiling is measured.

use super::*;

#[tokio::test]
async fn what_hangs_ends_with_the_wish_to_end_and_what_is_done_is_done() {
    let (tell, interrupt) = watch::channel(false);
    assert_eq!(unless(&interrupt, async { 7 }).await, Some(7));
    let hanging = tokio::spawn(async move { unless(&interrupt, std::future::pending::<()>()).await });
    tell.send_replace(true);
    assert_eq!(hanging.await.unwrap(), None);
}

#[test]
fn the_ceiling_is_measured_with_endpoints_that_answer_at_once() {
    let slow = "name = \"slow\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                answers = \"100ms\"\n[[subscriber.behaviour]]\nanswer = 503\n";
    let subscriber = Scenario::from_text(slow, "slow.toml").unwrap().subscribers.remove(0);
    let mut spec = Spec {
        path: subscriber.path(),
        name: subscriber.name,
        behaviours: subscriber.behaviours,
        answers: subscriber.answers,
        scheme: crate::wire::Profile::Github.into(),
    };
    at_their_best(&mut spec);
    assert!(spec.behaviours.is_empty() && spec.answers.most.0 == 0, "{spec:?}");
}
